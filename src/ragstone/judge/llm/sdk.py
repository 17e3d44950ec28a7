"""What both providers' SDKs share: one client for the whole run, and the outcome of one call."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

import aiohttp
import httpx2

from ragstone.errors import JudgeError
from ragstone.judge.llm import transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.model_compat import Adapter, BadRequest, Dialect, Outcome
from ragstone.judge.llm.provider import Broken, Fault, Rejected
from ragstone.system.bounded_http import ACCEPTED

_T = TypeVar("_T")
_REFUSED = frozenset((400, 401, 403, 404))


def client_options(sdk: ModuleType, account: Account) -> dict[str, Any]:
    """How every client is made: aiohttp, no retries (the scheduler retries), proxies from the environment."""

    async def note_token(request: httpx2.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if account.variables and scheme == "Bearer":  # the SDK got it
            account.tokens.add(token)

    timeout = httpx2.Timeout(account.timeout_s, connect=min(30.0, account.timeout_s))
    connections = account.connections + 8
    return {
        "base_url": account.address.base_url,
        "default_headers": {name: value.get_secret_value() for name, value in account.headers.items()} or None,
        "max_retries": 0,
        "timeout": timeout,
        "http_client": sdk.DefaultAioHttpClient(
            timeout=timeout,
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
            verify=transport.tls_context(account.ca_bundle),
            follow_redirects=False,
            headers=ACCEPTED,
            event_hooks={"request": [note_token], "response": [transport.bound]},
        ),
    }


def key_of(account: Account) -> str:
    """The key for a client; the SDKs insist on one, even for a local server that needs none."""
    return account.key.get_secret_value() if account.key else "none"


async def outcome(sdk: Any, account: Account, call: Awaitable[_T]) -> Outcome[_T]:
    """The result of an SDK call, or the error to raise in place of the SDK's."""
    refusals = getattr(sdk, "OAuthError", None) or sdk.WorkloadIdentityError  # to exchange the job's identity
    try:
        return await call, None
    except (JudgeError, Fault) as error:  # raised while the SDK got a token
        return None, error
    except refusals as error:
        refused = error.status_code in _REFUSED
        reason = f"HTTP {error.status_code}: {error}"
        return None, transport.refused_key(account, reason) if refused else Broken(account.scrubbed(reason))
    except sdk.APIStatusError as error:
        headers = error.response.headers
        found = transport.status_error(account, error.status_code, headers, error.body, transport.room_of(headers))
        if isinstance(found, Rejected) and error.status_code in (400, 403, 422) and found.stop is None:
            return None, BadRequest(found, transport.complaint(error.body))
        return None, found
    except (sdk.APIConnectionError, aiohttp.ClientError) as error:  # the latter if the reply is not HTTP
        return None, transport.connection_error(account, error)
    except Exception as error:
        if isinstance(error, getattr(sdk, "OpenAIError", None) or sdk.AnthropicError):
            return None, Broken(account.scrubbed(error))
        if account.provider.cloud is None:
            raise
        return None, Broken(f"can't sign in to {account.service}: {account.scrubbed(error)}")


class SdkProvider:
    """A provider behind the client of its SDK."""

    def __init__(
        self, sdk: ModuleType, account: Account, client: Any, dialect: Dialect, parameters: Mapping[str, object]
    ) -> None:
        self._sdk = sdk
        self.account = account
        self.client = client
        self._dialect = dialect
        self._adapter = Adapter(dialect, parameters)

    @property
    def notes(self) -> Sequence[str]:
        return tuple(self._dialect.notes)

    async def outcome(self, call: Awaitable[_T]) -> Outcome[_T]:
        """The result of an SDK call, or the error to raise in place of the SDK's."""
        return await outcome(self._sdk, self.account, call)

    async def close(self) -> None:
        await self.client.close()
