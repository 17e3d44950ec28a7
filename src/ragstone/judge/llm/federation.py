"""Judging without a key: a CI job's own identity, exchanged for a short-lived token of the provider.

The exchange is done by the SDKs: OpenAI's token exchange (RFC 8693) and Anthropic's JWT bearer grant (RFC 7523). This
module gets the job's ID token (GitHub's, if the job has ``id-token: write``), and makes sure no token is ever shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.provider import Broken
from ragstone.judge.names import provider_of
from ragstone.judge.providers import all_providers, given

if TYPE_CHECKING:
    import httpx2

REQUEST_URL = "ACTIONS_ID_TOKEN_REQUEST_URL"
REQUEST_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - the name of a variable
AUDIENCE = "RAGSTONE_OIDC_AUDIENCE"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TIMEOUT_S = 10.0
_MAX_REPLY = 64 * 1024
PERMISSION = "Give the job `permissions: id-token: write`. Pull requests from forks never get it."


class TokenStore:
    """The tokens of this run. Each is passed to `tell` (which redacts and masks it) before it is used."""

    def __init__(self, tell: Callable[[str], None] = lambda _secret: None) -> None:
        self._tell = tell
        self._known: dict[str, None] = {}

    def __repr__(self) -> str:
        return "TokenStore(…)"

    def add(self, token: str) -> str:
        if token not in self._known:
            self._known[token] = None
            self._tell(token)
        return token

    def scrubbed(self, text: str) -> str:
        """`text` without any token of this run."""
        for token in self._known:
            text = text.replace(token, "***")
        return text


@dataclass(frozen=True, slots=True)
class Federation:
    """How a job authenticates to `service`. `ids` are the provider's, by variable; none of them is secret."""

    service: str
    ids: Mapping[str, str]
    audience: str
    request_url: str
    request_token: SecretStr
    tokens: TokenStore = field(default_factory=TokenStore, compare=False)


def has_job_identity(service: str, environ: Mapping[str, str]) -> bool:
    """Whether the job may request an ID token and the variables that `service` needs are set."""
    identity = provider_of(service).job_identity
    return identity is not None and all(given(name, environ) for name in (*identity.needed, REQUEST_URL, REQUEST_TOKEN))


def federation_of(service: str, environ: Mapping[str, str], tell: Callable[[str], None] | None = None) -> Federation:
    """The job's identity at `service`, all from the environment: a checkout can't choose where a token goes.

    Raises ConfigError for a provider without an exchange, and for variables that are not set.
    """
    identity = provider_of(service).job_identity
    if identity is None:
        others = " or ".join(f"'{one.name}:MODEL'" for one in all_providers() if one.job_identity)
        raise ConfigError(
            f"judge '{service}' does not support the job's identity.",
            where="judge.auth",
            hint=f"Use {others}, or set judge.auth to 'key'.",
        )
    missing = [name for name in identity.needed if not given(name, environ)]
    if missing:
        raise ConfigError(
            f"judge.auth is 'oidc', but {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set.",
            where="judge.auth",
            hint="Set them under env in the workflow, to the ids shown in the provider's console.",
        )
    url, token = given(REQUEST_URL, environ), given(REQUEST_TOKEN, environ)
    if not url or not token:
        raise ConfigError(
            "judge.auth is 'oidc', but this job can't request an ID token.", where="judge.auth", hint=PERMISSION
        )
    return Federation(
        service=service,
        ids={name: found for name in (*identity.needed, *identity.optional) if (found := given(name, environ))},
        audience=given(AUDIENCE, environ) or identity.audience,
        request_url=url,
        request_token=SecretStr(token),
        tokens=TokenStore(tell) if tell is not None else TokenStore(),
    )


def check_address(federation: Federation, base_url: str, query: Mapping[str, str]) -> None:
    """Raise ConfigError for an address that this job's tokens may not be sent to."""
    parts = urlsplit(base_url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ConfigError(
            "judge.auth is 'oidc', but the judge's address is not an https address.",
            where="judge.base_url",
            hint="Tokens are only sent over TLS.",
        )
    if "api-version" in query:
        raise ConfigError(
            f"judge.auth is 'oidc', but Azure does not accept tokens of {federation.service}.",
            where="judge.base_url",
            hint="Use a key for Azure, or remove judge.base_url.",
        )


def job_token(federation: Federation) -> str:
    """A fresh ID token of this job for `federation.audience`. Blocking. Raises JudgeError or Broken."""
    import httpx2

    reason, status = "", 0
    token: str | None = None
    try:
        with httpx2.Client(timeout=_TIMEOUT_S, follow_redirects=False) as client:
            url = httpx2.URL(federation.request_url).copy_merge_params({"audience": federation.audience})
            secret = federation.request_token.get_secret_value()
            with client.stream("GET", url, headers={"Authorization": f"Bearer {secret}"}) as response:
                status = response.status_code
                token = _token_in(response)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = f"no reply to the request for an ID token of this job ({type(error).__name__})"
    if status == 200 and token:
        return federation.tokens.add(token)
    if 400 <= status < 500 and status not in (408, 429):
        raise JudgeError(f"the job got no ID token: HTTP {status}.", where="judge.auth", hint=PERMISSION)
    raise Broken(reason or f"the reply to the request for an ID token of this job contains none (HTTP {status})")


def _token_in(response: httpx2.Response) -> str | None:
    body = b""
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _MAX_REPLY:
            return None
    try:
        value = json.loads(body)["value"]
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None
