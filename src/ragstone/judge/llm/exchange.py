"""Exchanges a job's ID token for the provider's token with the SDK's own exchange, and adds it to each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import httpx2

from ragstone.errors import JudgeError
from ragstone.judge.llm.federation import Federation, job_token
from ragstone.judge.llm.provider import Broken, Fault

if TYPE_CHECKING:
    import ssl

OPENAI_EXCHANGE = "https://auth.openai.com/oauth/token"
_TIMEOUT_S = 30.0
_REFUSED = frozenset((400, 401, 403, 404))


class FederatedAuth(httpx2.Auth):
    """Adds the access token to every request; a token that is refused (401) is replaced once.

    Used by both SDKs' HTTP clients, so embeddings are covered too. `beta` is a flag that Anthropic requires
    with such tokens. An exchange caches its token until shortly before it expires; both SDKs run one at a time.
    """

    def __init__(
        self, federation: Federation, exchange: OpenAIExchange | AnthropicExchange, *, beta: str | None = None
    ) -> None:
        self._federation = federation
        self._exchange = exchange
        self._beta = beta

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        for attempt in range(2):
            token = self._federation.tokens.add(await self._exchange.token())
            request.headers["Authorization"] = f"Bearer {token}"
            request.headers.pop("X-Api-Key", None)
            if self._beta is not None:
                flags = [flag.strip() for flag in request.headers.get("anthropic-beta", "").split(",") if flag.strip()]
                request.headers["anthropic-beta"] = ",".join(dict.fromkeys((*flags, self._beta)))
            response = yield request
            if response.status_code != 401 or attempt:
                return
            self._exchange.forget(token)


class OpenAIExchange:
    def __init__(self, federation: Federation, url: str) -> None:
        from openai.auth import WorkloadIdentityAuth

        self._federation = federation
        self._auth = WorkloadIdentityAuth(
            workload_identity={
                "identity_provider_id": federation.ids["OPENAI_IDENTITY_PROVIDER_ID"],
                "service_account_id": federation.ids["OPENAI_SERVICE_ACCOUNT_ID"],
                "provider": {"token_type": "jwt", "get_token": lambda: job_token(federation)},
            },
            token_exchange_url=url,
        )

    async def token(self) -> str:
        import openai

        fault: Exception
        try:
            return await self._auth.get_token_async()
        except openai.OAuthError as error:
            fault = refused_identity(self._federation, error.response.status_code, str(error.message))
        except (openai.OpenAIError, httpx2.HTTPError, RuntimeError) as error:
            fault = failed_exchange(self._federation, error)
        raise fault

    def forget(self, token: str) -> None:
        """Discard `token`, which was refused: the next one must be different."""
        self._auth.invalidate_token(token)


class AnthropicExchange:
    """Anthropic's JWT bearer grant, by the SDK, at the judge's address."""

    def __init__(self, federation: Federation, base_url: str, verify: ssl.SSLContext | bool) -> None:
        from anthropic.lib.credentials import TokenCache, WorkloadIdentityCredentials

        self._federation = federation
        # Without idle connections, since nothing closes it.
        limits = httpx2.Limits(max_keepalive_connections=0)
        client = httpx2.Client(timeout=_TIMEOUT_S, verify=verify, follow_redirects=False, limits=limits)
        ids = federation.ids
        credentials = WorkloadIdentityCredentials(
            identity_token_provider=lambda: job_token(federation),
            federation_rule_id=ids["ANTHROPIC_FEDERATION_RULE_ID"],
            organization_id=ids["ANTHROPIC_ORGANIZATION_ID"],
            service_account_id=ids.get("ANTHROPIC_SERVICE_ACCOUNT_ID"),
            workspace_id=ids.get("ANTHROPIC_WORKSPACE_ID"),
            http_client=client,
        )
        self._cache = TokenCache(credentials.for_base_url(base_url))
        self._last = ""

    async def token(self) -> str:
        from anthropic import AnthropicError
        from anthropic.lib.credentials import WorkloadIdentityError

        fault: Exception
        try:
            self._last = await self._cache.async_get_token()
        except WorkloadIdentityError as error:
            status = error.status_code
            if status in _REFUSED:
                fault = refused_identity(self._federation, status, str(error))
            else:
                fault = failed_exchange(self._federation, error)
        except (AnthropicError, httpx2.HTTPError) as error:
            fault = failed_exchange(self._federation, error)
        else:
            return self._last
        raise fault

    def forget(self, token: str) -> None:
        # When many calls are refused at once, the first one requests a new token; the others must not discard it.
        if token == self._last:
            self._last = ""
            self._cache.invalidate()


def refused_identity(federation: Federation, status: int | None, words: str) -> JudgeError:
    """The error for an identity unknown to the provider, or a rule that the job does not meet."""
    said = " ".join(federation.tokens.scrubbed(words).split())[:300]
    return JudgeError(
        f"{federation.service} refused this job's identity (HTTP {status}): {said}",
        where="judge.auth",
        hint=f"Compare the provider's rule with this job: issuer https://token.actions.githubusercontent.com, audience "
        f"{federation.audience}, repository and ref; and check {', '.join(federation.ids)}.",
    )


def failed_exchange(federation: Federation, error: Exception) -> Fault:
    """The fault of an exchange that may succeed later."""
    said = " ".join(federation.tokens.scrubbed(str(error)).split())[:200]
    return Broken(f"{federation.service} issued no token: {said}")


_AWS_TIMEOUT_S = 10
_SESSION = "ragstone"


class AwsIdentity:
    """The role's credentials from botocore, which renews them with a fresh ID token before they expire."""

    def __init__(self, federation: Federation, region: str) -> None:
        import botocore.session
        from botocore.config import Config
        from botocore.credentials import AssumeRoleWithWebIdentityCredentialFetcher, DeferredRefreshableCredentials

        session = botocore.session.Session()
        # One attempt: the scheduler retries.
        limits = Config(connect_timeout=_AWS_TIMEOUT_S, read_timeout=_AWS_TIMEOUT_S, retries={"total_max_attempts": 1})

        def client(service: str, config: Any) -> Any:
            return session.create_client(service, region_name=region, config=config.merge(limits))

        fetcher = AssumeRoleWithWebIdentityCredentialFetcher(
            client,
            lambda: job_token(federation),
            federation.ids["AWS_ROLE_ARN"],
            extra_args={"RoleSessionName": _SESSION},
        )
        self._federation = federation
        self._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role-with-web-identity")

    async def hand_to(self, client: Any) -> None:
        """Make `client` (the SDK's for Bedrock) sign with valid credentials. Raises JudgeError, Broken."""
        from botocore.exceptions import BotoCoreError, ClientError

        fault: JudgeError | Fault
        try:
            now = await asyncio.to_thread(self._credentials.get_frozen_credentials)
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            words = error.response.get("Error", {}).get("Message", "")
            if isinstance(status, int) and 400 <= status < 500 and status != 429:
                fault = refused_identity(self._federation, status, str(words))
            else:
                fault = Broken(f"AWS gave no credentials for the role (HTTP {status})")
        except BotoCoreError as error:
            fault = Broken(f"AWS gave no credentials for the role ({type(error).__name__})")
        else:
            tokens = self._federation.tokens
            client.aws_access_key = now.access_key
            client.aws_secret_key = tokens.add(now.secret_key)
            client.aws_session_token = tokens.add(now.token)
            return
        raise fault
