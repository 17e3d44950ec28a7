"""The values that must not appear in anything Ragstone writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragstone.judge.providers import secret_variables
from ragstone.settings.load import SECRET_VARIABLES
from ragstone.settings.settings import MIN_SECRET_CHARACTERS, Settings
from ragstone.settings.variables import SECRET_NAME, SECRETS

_ALWAYS = (
    *SECRETS,
    *SECRET_VARIABLES,
    *secret_variables(),
)
_PLACEHOLDERS = frozenset(
    (
        "ollama",
        "lm-studio",
        "lmstudio",
        "placeholder",
        "dummy-key",
        "not-needed",
        "not-used",
        "no-key-required",
    )
)
"""Keys that local servers are given because clients insist on one: masked, they would
only spoil the texts."""


def known_secrets(environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """The secrets given to Ragstone: its own keys and tokens, and those passed to the
    system under test.

    Variables in `system.env` count if their name suggests a secret (KEY, TOKEN, SECRET
    …).
    """
    secrets = {
        value
        for value in _values(environ, settings)
        if len(value) >= MIN_SECRET_CHARACTERS
    }
    return tuple(sorted(secrets, key=len, reverse=True))


def _values(environ: Mapping[str, str], settings: Settings) -> Iterator[str]:
    yield from (
        secret
        for secret in settings.judge.secrets()
        if secret.casefold() not in _PLACEHOLDERS
    )
    for name in (
        *_ALWAYS,
        *(name for name in settings.system.env if SECRET_NAME.search(name)),
    ):
        yield environ.get(name, "").strip()
