"""Which variables of a job on GitHub are secret, and the only way to read them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import SecretStr

Environ = Mapping[str, str]
"""The environment variables of a process, by name."""

SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|DSN|CONNECTION_STRING", re.IGNORECASE
)
"""Matches the name of a variable that probably holds a secret."""

TOKENS = ("RAGSTONE_GITHUB_TOKEN", "GITHUB_TOKEN")
"""Variables that may hold GitHub's token in a `run:` step. The first that is set
counts."""

_JOB_SECRETS = (
    *TOKENS,
    "INPUT_GITHUB-TOKEN",
    "INPUT_JUDGE-API-KEY",
    "INPUT_NOTIFY",
    "RAGSTONE_NOTIFY",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
)
_USER_SECRETS = ("GH_TOKEN",)

SECRETS = (*_JOB_SECRETS, *_USER_SECRETS)
"""Variables whose values must not appear in anything that is written."""

WITHHELD = (
    *_JOB_SECRETS,
    "GITHUB_ENV",
    "GITHUB_OUTPUT",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
    "INPUT_*",
    "ACTIONS_*",
)
"""Names and patterns of variables that the system under test never gets."""

BY_NAME = (*_USER_SECRETS, "GITHUB_*")
"""Names and patterns of variables that the system under test gets only if it is given
their exact names by `env` under [system]."""


class UndeclaredSecretError(Exception):
    """Ragstone's code read a secret that is not declared, and so would not be redacted.
    This is a bug."""


class Variables:
    """The environment of a job. Secrets must be declared, and are read with `secret`."""

    def __init__(
        self, environ: Mapping[str, str], declared: tuple[str, ...] = SECRETS
    ) -> None:
        self._environ = environ
        self._declared = declared

    def get(self, name: str) -> str:
        """The value of a variable without surrounding space; empty if it is not set.
        Raises UndeclaredSecretError if it may be a secret."""
        if name in self._declared or SECRET_NAME.search(name):
            raise UndeclaredSecretError(
                f"{name} is a secret: declare it, and read it with secret()"
            )
        return self._environ.get(name, "").strip()

    def secret(self, name: str) -> SecretStr | None:
        """The value of a declared secret; None if it is not set. Raises
        UndeclaredSecretError."""
        if name not in self._declared:
            raise UndeclaredSecretError(f"{name} is not a declared secret")
        value = self._environ.get(name, "").strip()
        return SecretStr(value) if value else None
