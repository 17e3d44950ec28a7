"""Anthropic's Messages API, through the official SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp
import anthropic
import httpx2
from pydantic_core import from_json

from ragstone.judge.llm import platforms, transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.model_compat import AS_USUAL, Adapter, BadRequest, Dialect, Outcome, Own, with_schema
from ragstone.judge.llm.provider import (
    Broken,
    ChatReply,
    ChatRequest,
    RateLimits,
    Rejected,
    Stop,
    Usage,
)
from ragstone.system.bounded_http import ACCEPTED

_T = TypeVar("_T")
_MESSAGES = "/v1/messages"
TOKEN_BETA = "oauth-2025-04-20"  # noqa: S105 - the flag that lets a token take a key's place, as the SDK sends it
_STOPS = {
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
}


def make_client(account: Account) -> anthropic.AsyncAnthropic:
    """One client for the whole run: aiohttp transport, no retries (the scheduler retries), proxies from the
    environment, no tracing. For Bedrock and Vertex, the SDK's own clients, which have no batches."""
    timeout = httpx2.Timeout(account.timeout_s, connect=min(30.0, account.timeout_s))
    http_client = anthropic.DefaultAioHttpClient(
        timeout=timeout,
        limits=httpx2.Limits(
            max_connections=account.connections + 8, max_keepalive_connections=account.connections + 8
        ),
        verify=transport.tls_context(account.ca_bundle),
        follow_redirects=False,
        auth=_federated(account),
        headers=ACCEPTED,
        event_hooks={"response": [transport.bound]},
    )
    if account.platform is not None:
        client: anthropic.AsyncAnthropic = platforms.make_client(account, account.platform, http_client, timeout)
        return client
    return anthropic.AsyncAnthropic(
        api_key=account.key.get_secret_value() if account.key else "none",
        base_url=account.address.base_url,
        default_query=dict(account.address.query) or None,
        default_headers={name: value.get_secret_value() for name, value in account.headers.items()} or None,
        max_retries=0,
        timeout=timeout,
        open_telemetry=False,
        http_client=http_client,
    )


def _federated(account: Account) -> httpx2.Auth | None:
    if account.federation is None or account.platform is not None:
        return None
    from ragstone.judge.llm.exchange import AnthropicExchange, FederatedAuth

    tokens = AnthropicExchange(account.federation, account.address.base_url, transport.tls_context(account.ca_bundle))
    return FederatedAuth(account.federation, tokens, beta=TOKEN_BETA)


class AnthropicProvider:
    """Messages, with the static part of the prompt marked for the provider's prompt cache."""

    def __init__(
        self,
        account: Account,
        *,
        parameters: Mapping[str, object],
        client: anthropic.AsyncAnthropic | None = None,
    ) -> None:
        self._account = account
        self._client = client or make_client(account)
        self._identity = platforms.identity_of(account)
        self._dialect = Dialect(modes=("json_schema", "tool", "prompt"))
        self._adapter = Adapter(self._dialect, parameters)

    @property
    def notes(self) -> Sequence[str]:
        return tuple(self._dialect.notes)

    @property
    def client(self) -> anthropic.AsyncAnthropic:
        return self._client

    async def chat(self, request: ChatRequest) -> ChatReply:
        response = await self._adapter.accepted(lambda own: self.body(request, own), self._send)
        return self.read(transport.parsed(response.content), transport.room_of(response.headers))

    def body(self, request: ChatRequest, own: Own = AS_USUAL) -> dict[str, object]:
        """The request's JSON, in the dialect known so far. The system prompt, the same for all samples, is cached."""
        mode = own.mode or self._dialect.mode
        given = self._adapter.given()
        effort = given.pop("effort", None)
        static: dict[str, object] = {"type": "text", "text": request.static}
        if "cache_control" not in self._dialect.dropped:
            static["cache_control"] = {"type": "ephemeral"}
        data = with_schema(request.data, request.schema) if mode == "prompt" else request.data
        body: dict[str, object] = {
            "model": self._account.model,
            "max_tokens": self._dialect.limit(request.max_output_tokens, own),
            "system": [static],
            "messages": [{"role": "user", "content": data}],
            **given,
        }
        output: dict[str, object] = {} if effort is None else {"effort": effort}
        if mode == "json_schema":
            output["format"] = {"type": "json_schema", "schema": request.schema}
        elif mode == "tool":
            description = "Give the judgement."
            body["tools"] = [{"name": request.name, "description": description, "input_schema": request.schema}]
            body["tool_choice"] = {"type": "tool", "name": request.name}
        if output:
            body["output_config"] = output
        return body

    def read(self, document: Mapping[str, Any], room: RateLimits | None = None, *, batched: bool = False) -> ChatReply:
        """A message as a ChatReply. Raises Broken for anything else."""
        error = transport.body_error(self._account, document, room)
        if error is not None:
            raise error
        content = document.get("content")
        if not isinstance(content, list):
            raise Broken("the reply is no message")
        text = ""
        stop = _STOPS.get(str(document.get("stop_reason")), Stop.COMPLETE)
        for block in content:
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
                # The API closes what is open in a tool call that was cut off, so what is missing can't be seen.
                text = "" if stop is Stop.TRUNCATED else transport.encoded(block["input"]).decode()
                break
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                text += block["text"]
        usage = document.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        counted = Usage(
            input_tokens=transport.count(usage.get("input_tokens")),
            cached_input_tokens=transport.count(usage.get("cache_read_input_tokens")),
            cache_write_tokens=transport.count(usage.get("cache_creation_input_tokens")),
            output_tokens=transport.count(usage.get("output_tokens")),
        )
        return ChatReply(
            self._account.without_secrets(text),
            stop,
            counted,
            room,
            batched,
            model=transport.name(document.get("model")),
            fingerprint=transport.name(document.get("system_fingerprint")),
            way=self._dialect.mode,
        )

    async def _send(self, body: Mapping[str, object]) -> Outcome[httpx2.Response]:
        """One POST."""
        content = transport.encoded(body)
        if self._account.platform is not None:
            if self._identity is not None:
                await self._identity.hand_to(self._client)
            # Those clients build the body themselves: the model becomes part of the path.
            post = self._client.post(_MESSAGES, body=from_json(content), cast_to=httpx2.Response)
        else:
            post = self._client.post(_MESSAGES, content=content, cast_to=httpx2.Response)
        return await outcome(self._account, post)

    async def close(self) -> None:
        await self._client.close()


async def outcome(account: Account, call: Awaitable[_T]) -> Outcome[_T]:
    """The result of an SDK call, or the error to raise in place of the SDK's."""
    try:
        return await call, None
    except anthropic.APIStatusError as error:
        headers = error.response.headers
        found = transport.status_error(account, error.status_code, headers, error.body, transport.room_of(headers))
        if isinstance(found, Rejected) and error.status_code in (400, 422) and found.stop is None:
            return None, BadRequest(found, transport.complaint(error.body))
        return None, found
    except (anthropic.APIConnectionError, aiohttp.ClientError) as error:  # the latter if the reply is not HTTP
        return None, transport.connection_error(account, error)
    except anthropic.AnthropicError as error:
        return None, Broken(account.scrubbed(error))
    except Exception as error:
        if account.platform is None:
            raise
        return None, platforms.credentials_error(account, error)
