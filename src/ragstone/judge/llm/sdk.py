"""What both providers' SDKs share: one client for the whole run, and the outcome of one
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
from ragstone.judge.llm.provider import Broken, ChatReply, ChatRequest, Fault
from ragstone.system.bounded_http import UNCOMPRESSED

_T = TypeVar("_T")
_REFUSED = frozenset((400, 401, 403, 404))


def client_options(sdk: ModuleType, account: Account) -> dict[str, Any]:
    """How every client is made: aiohttp, no retries (the scheduler retries), proxies
    from the environment."""

    async def note_token(request: httpx2.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if account.variables and scheme == "Bearer":  # the SDK got it
            account.tokens.add(token)

    timeout = httpx2.Timeout(account.timeout_s, connect=min(30.0, account.timeout_s))
    connections = account.connections + 8
    client = sdk.DefaultAioHttpClient(
        timeout=timeout,
        limits=httpx2.Limits(
            max_connections=connections, max_keepalive_connections=connections
        ),
        verify=transport.tls_context(),
        follow_redirects=False,
        headers=UNCOMPRESSED,
        event_hooks={"request": [note_token], "response": [transport.bound]},
    )
    own = {name: value.get_secret_value() for name, value in account.headers.items()}
    return {
        "base_url": account.address.base_url,
        "default_headers": own or None,
        "max_retries": 0,
        "timeout": timeout,
        "http_client": client,
    }


def key_of(account: Account) -> str:
    """The key for a client; the SDKs insist on one, even for a local server that needs
    none."""
    return account.key.get_secret_value() if account.key else "none"


async def outcome(sdk: Any, account: Account, call: Awaitable[_T]) -> _T | Exception:
    """The result of an SDK call, or the error to raise in place of the SDK's.

    It is raised outside the SDK's except block, so that no SDK error, which holds the
    request and with it the key, becomes part of its chain.
    """
    if sdk.__name__ == "openai":
        exchange_error, any_error = sdk.OAuthError, sdk.OpenAIError
    else:
        exchange_error, any_error = sdk.WorkloadIdentityError, sdk.AnthropicError
    try:
        return await call
    except (JudgeError, Fault) as error:  # raised while the SDK got a token
        return error
    except exchange_error as error:  # of the job's identity for a token
        reason = f"HTTP {error.status_code}: {error}"
        if error.status_code in _REFUSED:
            return transport.refused_key(account, reason)
        return Broken(account.scrubbed(reason))
    except sdk.APIStatusError as error:
        status, headers = error.status_code, error.response.headers
        return transport.refusal(account, status, headers, error.body)
    except (sdk.APIConnectionError, aiohttp.ClientError) as error:
        # The latter if the reply is not HTTP.
        return transport.connection_error(account, error)
    except any_error as error:
        return Broken(account.scrubbed(error))
    except Exception as error:
        if account.provider.cloud is None:
            raise
        reason = f"can't sign in to {account.service}: {account.scrubbed(error)}"
        return Broken(reason)


class SdkProvider(ABC):
    """A provider behind the client of its SDK, asked with the features that its model
    takes."""

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
        self.features = Features(features, parameters, effort.ways)

    @property
    def notes(self) -> Sequence[str]:
        return tuple(self.features.notes)

    @abstractmethod
    def body(self, request: ChatRequest) -> Mapping[str, object]:
        """The request's JSON, with the features in use."""

    @abstractmethod
    def post(self, body: Mapping[str, object]) -> Awaitable[httpx2.Response]:
        """Send a request."""

    @abstractmethod
    def read(
        self, document: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ChatReply:
        """A reply as a ChatReply. Raises the matching fault for an error reply, Broken
        for anything else."""

    async def chat(self, request: ChatRequest) -> ChatReply:
        """The first reply that is no refusal of a feature. Raises a fault of the
        call."""
        while True:
            sent = self.features.in_use
            post = self.post(self.body(request))
            reply = await outcome(self.sdk, self.account, post)
            try:
                if isinstance(reply, Exception):
                    raise reply
                return self.read(transport.parsed(reply.content), reply.headers)
            except FeatureRefused as error:
                refused = error
            if not self.features.step_down(refused.complaint, sent):
                raise refused.error

    async def close(self) -> None:
        await self.client.close()
