"""The values that must not appear in anything Ragstone writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from ragstone.ci.platform import SECRET_NAME
from ragstone.ci.platforms import SECRETS
from ragstone.config.load import SECRET_VARIABLES
from ragstone.config.settings import MIN_SECRET_CHARACTERS, Settings
from ragstone.judge.providers import secret_variables

_ALWAYS = (
    *SECRETS,
    *SECRET_VARIABLES,
    *secret_variables(),
    "RAGSTONE_MONITOR_KEY",
    "RAGSTONE_WEBHOOK_URL",
    "RAGSTONE_WEBHOOK_SECRET",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "WANDB_API_KEY",
)
_PLACEHOLDERS = frozenset(
    ("ollama", "lm-studio", "lmstudio", "placeholder", "dummy-key", "not-needed", "not-used", "no-key-required")
)
"""Keys that local servers are given because clients insist on one: masked, they would only spoil the texts."""
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS")
_ADDRESSES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "MLFLOW_TRACKING_URI",
    "WANDB_BASE_URL",
)
_OF_TOOLS = ("AZURE_STORAGE_", "DATABRICKS_", "MLFLOW_", "WANDB_")
"""What variables begin with that MLflow's client, its stores of files, and Weights & Biases read."""


def known_secrets(environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """The secrets given to Ragstone: its own keys and tokens, and those passed to the system under test.

    Variables in `system.env` count if their name suggests a secret (KEY, TOKEN, SECRET …).
    """
    found = {value for value in _values(environ, settings) if len(value) >= MIN_SECRET_CHARACTERS}
    return tuple(sorted(found, key=len, reverse=True))


def export_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What may be secret in the settings of other tools: keys, values of headers, and credentials in addresses."""
    found = [value for name, value in environ.items() if name.startswith(_OF_TOOLS) and SECRET_NAME.search(name)]
    for name in _HEADERS:
        for pair in environ.get(name, "").split(","):
            value = unquote(pair.partition("=")[2]).strip()
            found += [value, *value.split()[1:]]  # "Bearer TOKEN" is known by its token, too
    for name in _ADDRESSES:
        with suppress(ValueError):
            found += _credentials(environ.get(name, ""))
    return tuple(dict.fromkeys(value for value in found if len(value) >= MIN_SECRET_CHARACTERS))


def _credentials(address: str) -> Iterator[str]:
    """What may be secret in `address`: its password, else its user, which is a token then; parts of its query."""
    parts = urlsplit(address)
    if secret := parts.password or parts.username:
        yield from (secret, unquote(secret))
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if SECRET_NAME.search(name):
            yield from (value, unquote(value))


def _values(environ: Mapping[str, str], settings: Settings) -> Iterator[str]:
    yield from (secret for secret in settings.judge.secrets() if secret.casefold() not in _PLACEHOLDERS)
    for name in (*_ALWAYS, *(name for name in settings.system.env if SECRET_NAME.search(name))):
        yield environ.get(name, "").strip()
