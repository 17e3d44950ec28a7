"""The SDKs of both providers: the options of their clients, their errors, and one chat
call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

import aiohttp
import httpx2

from ragstone.errors import JudgeError
from ragstone.judge.llm import transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.features import Feature, FeatureRefused, Features
from ragstone.judge.llm.provider import ChatReply, ChatRequest, Fault, TemporaryFault
from ragstone.system.bounded_http import UNCOMPRESSED

_T = TypeVar("_T")
_IDENTITY_REFUSED = frozenset((400, 401, 403, 404))
"""The HTTP statuses of a refusal to exchange the job's identity for a token; with
others, another try may succeed."""
_MAX_CONNECT_S = 30.0
_SPARE_CONNECTIONS = 8
"""More connections than calls in flight: one that was just cancelled may still be
open."""


def client_options(sdk: ModuleType, account: Account) -> dict[str, Any]:
    """The options that every SDK's client is made with.

    Requests are sent with aiohttp, through the proxies that the environment names, and
    never sent again by the SDK: the scheduler retries.
    """

    async def register_token(request: httpx2.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        # With variables to sign in with, a bearer token is one that the SDK has got.
        if account.variables and scheme == "Bearer":
            account.tokens.add(token)

    connect_timeout_s = min(_MAX_CONNECT_S, account.timeout_s)
    timeout = httpx2.Timeout(account.timeout_s, connect=connect_timeout_s)
    max_connections = account.connections + _SPARE_CONNECTIONS
    client = sdk.DefaultAioHttpClient(
        timeout=timeout,
        limits=httpx2.Limits(
            max_connections=max_connections, max_keepalive_connections=max_connections
        ),
        verify=transport.tls_context(),
        follow_redirects=False,
        headers=UNCOMPRESSED,
        event_hooks={
            "request": [register_token],
            "response": [transport.limit_reply_size],
        },
    )
    user_headers = {
        name: value.get_secret_value() for name, value in account.headers.items()
    }
    return {
        "base_url": account.address.base_url,
        "default_headers": user_headers or None,
        "max_retries": 0,
        "timeout": timeout,
        "http_client": client,
    }


def key_of(account: Account) -> str:
    """The key for a client; the SDKs insist on one, even for a local server that needs
    none."""
    return account.key.get_secret_value() if account.key else "none"


async def result_or_error(
    sdk: Any, account: Account, call: Awaitable[_T]
) -> _T | Exception:
    """Await an SDK's `call`; return its result, or the error to raise in place of the
    SDK's.

    An SDK's error holds the request and with it the key. The caller raises the error
    that is returned outside the except block of the SDK's, which would become part of
    its traceback otherwise.
    """
    exchange_error: type[Exception]
    any_sdk_error: type[Exception]
    if sdk.__name__ == "openai":
        exchange_error = sdk.OAuthError
        any_sdk_error = sdk.OpenAIError
    else:
        exchange_error = sdk.WorkloadIdentityError
        any_sdk_error = sdk.AnthropicError
    try:
        return await call
    except (JudgeError, Fault) as error:  # from `job_token`, which the SDK calls
        return error
    except exchange_error as error:  # the job's identity got no token
        status: int | None = error.status_code  # type: ignore[attr-defined]
        reason = f"HTTP {status}: {error}"
        if status in _IDENTITY_REFUSED:
            return transport.refused_key_error(account, reason)
        return TemporaryFault(account.safe_line(reason))
    except sdk.APIStatusError as error:
        return transport.request_error(
            account, error.status_code, error.response.headers, error.body
        )
    # aiohttp's own error if the reply is not HTTP.
    except (sdk.APIConnectionError, aiohttp.ClientError) as error:
        return transport.connection_error(account, error)
    except any_sdk_error as error:
        return TemporaryFault(account.safe_line(error))
    except Exception as error:
        # A cloud's library signs in, and raises errors of its own.
        if account.provider.cloud is None:
            raise
        reason = f"can't sign in to {account.service}: {account.safe_line(error)}"
        return TemporaryFault(reason)


class SdkProvider(ABC):
    """A provider that is called with its SDK, with the features that its model
    accepts."""

    sdk: ModuleType

    def __init__(
        self,
        account: Account,
        client: Any,
        features: Sequence[Feature],
        parameters: Mapping[str, object],
    ) -> None:
        self.account = account
        self.client = client
        effort = account.provider.effort(account.model, parameters)
        self.features = Features(features, parameters, effort.parameter_sets)

    @property
    def notes(self) -> Sequence[str]:
        return tuple(self.features.notes)

    @abstractmethod
    def body(self, request: ChatRequest) -> Mapping[str, object]:
        """The request as JSON, with the features in use."""

    @abstractmethod
    def post(self, body: Mapping[str, object]) -> Awaitable[httpx2.Response]:
        """Send a request."""

    @abstractmethod
    def read(
        self, document: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ChatReply:
        """Parse a reply. Raises the fault that an error reply stands for, and TemporaryFault if
        it is no chat reply."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Send `request`, and send it again without the features that are refused.
        Raises a Fault or JudgeError."""
        while True:
            features_sent = self.features.in_use
            call = self.post(self.body(request))
            reply = await result_or_error(self.sdk, self.account, call)
            try:
                if isinstance(reply, Exception):
                    raise reply
                document = transport.parse_reply(reply.content)
                return self.read(document, reply.headers)
            except FeatureRefused as error:
                refused = error
            if not self.features.drop_refused(refused.error_text, features_sent):
                raise refused.error

    async def close(self) -> None:
        await self.client.close()
