"""The values that must not appear in anything Ragstone writes."""

from __future__ import annotations

from collections.abc import Mapping

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
    names = (*_ALWAYS, *filter(SECRET_NAME.search, settings.system.env))
    secrets = {environ.get(name, "").strip() for name in names}
    secrets |= {
        secret
        for secret in settings.judge.secrets()
        if secret.casefold() not in _PLACEHOLDERS
    }
    masked = (secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS)
    return tuple(sorted(masked, key=len, reverse=True))
