"""What a CI platform is: one value, built in the platform's own module and listed in `platforms`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from ragstone.ci.comments import Comments
from ragstone.ci.store import BaselineStore

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|DSN|CONNECTION_STRING", re.IGNORECASE)
"""What the name of a variable with a secret usually contains."""


class UndeclaredSecretError(Exception):
    """A platform's module read a secret that the platform does not declare: a mistake in that module."""


class Variables:
    """The environment as a platform's module reads it. Tokens are got by `secret`, which needs them to be declared."""

    def __init__(self, environ: Mapping[str, str], declared: tuple[str, ...]) -> None:
        self._environ = environ
        self._declared = declared

    def get(self, name: str) -> str:
        """The value of a variable that is no secret, without surrounding space; empty if it is not set."""
        if name in self._declared or SECRET_NAME.search(name):
            raise UndeclaredSecretError(f"{name} is a secret: declare it, and read it with secret()")
        return self._environ.get(name, "").strip()

    def secret(self, name: str) -> SecretStr | None:
        """The value of a declared secret; None if it is not set."""
        if name not in self._declared:
            raise UndeclaredSecretError(f"{name} is not among the secrets that its platform declares")
        value = self._environ.get(name, "").strip()
        return SecretStr(value) if value else None


@dataclass(frozen=True, slots=True)
class CiJob:
    """A job on `platform`.

    `branch` is the branch that it builds; None for a merge request or a tag. `request` is the number of the merge or
    pull request. `default_branch` is the repository's, where the platform says it. `protected` says whether the branch
    is protected; None: the platform doesn't say.
    """

    platform: str
    branch: str | None = None
    request: str | None = None
    default_branch: str | None = None
    protected: bool | None = None


@dataclass(frozen=True, slots=True)
class PlatformStore:
    """The platform's own store of runs, called `scheme` or ``scheme:ARGUMENT`` in settings; `argument` says what it is.

    `open` takes the variables, the argument (empty if there is none) and the run directory, and raises ConfigError.
    """

    scheme: str
    argument: str
    open: Callable[[Variables, str, Path], BaselineStore]


@dataclass(frozen=True, slots=True)
class Platform:
    """A CI platform. Its variables are read through `Variables` only.

    `read_job` returns None elsewhere. `secrets` are the variables with tokens and passwords of its jobs: they are
    redacted in everything that is written, and the system under test never gets them. `user_secrets` are redacted, too,
    but the system gets one if `[system] env` names it exactly. It never gets what matches `withheld`, and what matches
    `by_name` only by exact name: patterns as in `[system] env`. `comments` takes the variables and the number of the
    merge request, and raises ApiRefused or ConfigError.
    """

    name: str
    read_job: Callable[[Variables], CiJob | None]
    secrets: tuple[str, ...] = ()
    user_secrets: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    by_name: tuple[str, ...] = ()
    comments: Callable[[Variables, str], Comments] | None = None
    store: PlatformStore | None = None

    def variables(self, environ: Mapping[str, str]) -> Variables:
        return Variables(environ, (*self.secrets, *self.user_secrets))
