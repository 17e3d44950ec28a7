"""Signing in without a provider's key: by the identity of a CI job, or an account of a
cloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.provider import TemporaryFault
from ragstone.judge.providers import Environ, variable

if TYPE_CHECKING:
    from ragstone.judge.llm.account import Account

REQUEST_URL = "ACTIONS_ID_TOKEN_REQUEST_URL"
REQUEST_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - the name of a variable
PERMISSION_HINT = "Give the job `permissions: id-token: write`. Pull requests from forks never get it."
_TIMEOUT_S = 10.0


def read_variables(
    needed: Sequence[str],
    optional: Sequence[str],
    environ: Environ,
    hint: str,
) -> dict[str, SecretStr]:
    """The variables that are set, of those that are `needed` or `optional`. Raises
    ConfigError, with `hint`, if a needed one is not set."""
    for name in needed:
        if not variable(name, environ):
            raise ConfigError(
                f"the judge needs {name}, which is not set.", where="judge", hint=hint
            )
    return {
        name: SecretStr(variable(name, environ))
        for name in (*needed, *optional)
        if variable(name, environ)
    }


def job_token(account: Account, audience: str) -> str:
    """A new ID token of this CI job for `audience`, which the SDK exchanges for one of
    the provider.

    Blocks until GitHub replies. Raises JudgeError if the job may not have one, and
    TemporaryFault if another try may succeed.
    """
    import httpx2

    headers = {"Authorization": f"Bearer {account.required_variable(REQUEST_TOKEN)}"}
    try:
        address = httpx2.URL(account.required_variable(REQUEST_URL))
        url = address.copy_merge_params({"audience": audience})
        reply = httpx2.get(url, headers=headers, timeout=_TIMEOUT_S)
        token = reply.json()["value"] if reply.is_success else None
    except (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        ValueError,
        KeyError,
        TypeError,
    ) as error:
        raise TemporaryFault(
            f"no ID token of this job ({type(error).__name__})"
        ) from None
    if reply.status_code in (400, 401, 403, 404):
        raise JudgeError(
            f"the job got no ID token: HTTP {reply.status_code}.",
            where="judge.name",
            hint=PERMISSION_HINT,
        )
    if not isinstance(token, str):
        raise TemporaryFault(f"no ID token of this job (HTTP {reply.status_code})")
    account.tokens.add(token)
    return token
