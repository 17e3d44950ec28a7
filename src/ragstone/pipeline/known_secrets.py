"""The values that must not appear in anything Ragstone writes."""

from __future__ import annotations

from collections.abc import Mapping

from ragstone.judge.providers import secret_variables
from ragstone.settings.load import SECRET_VARIABLES
from ragstone.settings.settings import MIN_SECRET_CHARACTERS, Settings
from ragstone.settings.variables import SECRET_NAME, SECRETS

_CREDENTIAL_VARIABLES = (*SECRETS, *SECRET_VARIABLES, *secret_variables())
"""Variables whose values are secret, whether or not the system under test gets them."""

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
"""Values that local servers are given because clients insist on a key. Masking them
would only garble the texts."""


def known_secrets(environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """The secrets given to Ragstone: its own keys and tokens, and those passed to the
    system under test.

    Variables in `system.env` count if their name suggests a secret (KEY, TOKEN, SECRET
    …).
    """
    passed_to_system = filter(SECRET_NAME.search, settings.system.env)
    names = (*_CREDENTIAL_VARIABLES, *passed_to_system)
    values = {environ.get(name, "").strip() for name in names}
    values.update(settings.judge.secrets())
    secrets = {
        value
        for value in values
        if len(value) >= MIN_SECRET_CHARACTERS and value.casefold() not in _PLACEHOLDERS
    }
    # The longest first, so that a secret that contains another one is masked whole.
    return tuple(sorted(secrets, key=len, reverse=True))
