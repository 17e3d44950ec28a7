"""What the SDKs sign in with where there is no provider's key: the CI job's identity,
or an account of a cloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.provider import Broken
from ragstone.judge.providers import Environ, variable

if TYPE_CHECKING:
    from ragstone.judge.llm.account import Account

REQUEST_URL = "ACTIONS_ID_TOKEN_REQUEST_URL"
REQUEST_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - the name of a variable
PERMISSION = "Give the job `permissions: id-token: write`. Pull requests from forks never get it."


def read_variables(
    needed: Sequence[str],
    optional: Sequence[str],
    environ: Environ,
    hint: str,
) -> dict[str, SecretStr]:
    """The variables that are set: only the environment says who signs in. Raises
    ConfigError if one is missing."""
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
    """A fresh ID token of this job, for the SDK to exchange. Blocking. Raises
    JudgeError, Broken."""
    import httpx2

    headers = {"Authorization": f"Bearer {account.needed(REQUEST_TOKEN)}"}
    try:
        address = httpx2.URL(account.needed(REQUEST_URL))
        url = address.copy_merge_params({"audience": audience})
        reply = httpx2.get(url, headers=headers, timeout=10.0)
        token = reply.json()["value"] if reply.is_success else None
    except (
        httpx2.HTTPError,
        httpx2.InvalidURL,
        ValueError,
        KeyError,
        TypeError,
    ) as error:
        raise Broken(f"no ID token of this job ({type(error).__name__})") from None
    if reply.status_code in (400, 401, 403, 404):
        raise JudgeError(
            f"the job got no ID token: HTTP {reply.status_code}.",
            where="judge.name",
            hint=PERMISSION,
        )
    if not isinstance(token, str):
        raise Broken(f"no ID token of this job (HTTP {reply.status_code})")
    account.tokens.add(token)
    return token
