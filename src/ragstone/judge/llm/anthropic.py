"""Anthropic's Messages API, through the official SDK."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import anthropic
import httpx2
from pydantic_core import from_json

from ragstone.judge.llm import clouds, transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.model_compat import AS_USUAL, Dialect, Outcome, Own, with_schema
from ragstone.judge.llm.provider import (
    BatchState,
    Broken,
    ChatReply,
    ChatRequest,
    RateLimits,
    Stop,
    Usage,
)
from ragstone.judge.llm.sdk import SdkProvider, client_options, key_of, read_results

_MESSAGES = "/v1/messages"
TOKEN_BETA = "oauth-2025-04-20"  # noqa: S105 - the flag that lets a token take a key's place, as the SDK sends it
_BATCHES = "/v1/messages/batches"
_FRESH_S = 3600
_BATCH_STATUS = {"invalid_request_error": 400, "rate_limit_error": 429, "overloaded_error": 529, "api_error": 500}
_STOPS = {
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
}


def make_client(account: Account) -> anthropic.AsyncAnthropic:
    """One client for the whole run, without tracing. For Bedrock and Vertex, the SDK's own clients."""
    options = client_options(anthropic, account, _federated(account)) | {"open_telemetry": False}
    if account.cloud is not None:
        client: anthropic.AsyncAnthropic = clouds.make_client(account, account.cloud, options)
        return client
    return anthropic.AsyncAnthropic(
        api_key=key_of(account), default_query=dict(account.address.query) or None, **options
    )


def _federated(account: Account) -> httpx2.Auth | None:
    if account.federation is None or account.cloud is not None:
        return None
    from ragstone.judge.llm.exchange import AnthropicExchange, FederatedAuth

    tokens = AnthropicExchange(account.federation, account.address.base_url, transport.tls_context(account.ca_bundle))
    return FederatedAuth(account.federation, tokens, beta=TOKEN_BETA)


class AnthropicProvider(SdkProvider):
    """Messages, with the static part of the prompt marked for the provider's prompt cache."""

    def __init__(self, account: Account, *, parameters: Mapping[str, object]) -> None:
        dialect = Dialect(modes=("json_schema", "tool", "prompt"))
        super().__init__(anthropic, account, make_client(account), dialect, parameters)
        self._identity = None
        if account.federation is not None and account.cloud is not None:
            from ragstone.judge.llm.exchange import AwsIdentity

            self._identity = AwsIdentity(account.federation, account.cloud.region)

    async def chat(self, request: ChatRequest) -> ChatReply:
        response = await self._adapter.accepted(lambda own: self.body(request, own), self._send)
        document, room = transport.parsed(response.content), transport.room_of(response.headers)
        return self.read(document, room, tool=request.name)

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
            "model": self.account.model,
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

    def read(
        self,
        document: Mapping[str, Any],
        room: RateLimits | None = None,
        *,
        tool: str | None = None,
        batched: bool = False,
    ) -> ChatReply:
        """A message as a ChatReply. Raises Broken for anything else. A call of another tool than `tool` is left out."""
        error = transport.body_error(self.account, document, room)
        if error is not None:
            raise error
        content = document.get("content")
        if not isinstance(content, list):
            raise Broken("the reply is not a message")
        text = ""
        stop = _STOPS.get(str(document.get("stop_reason")), Stop.COMPLETE)
        for block in content:
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
                if tool not in (None, block.get("name")):
                    continue
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
            self.account.echo(text),
            stop,
            counted,
            room,
            batched,
            model=self.account.name(document.get("model")),
            fingerprint=self.account.name(document.get("system_fingerprint")),
            way=self._dialect.mode,
        )

    async def _send(self, body: Mapping[str, object]) -> Outcome[httpx2.Response]:
        content = transport.encoded(body)
        if self.account.cloud is not None:
            if self._identity is not None:
                await self._identity.hand_to(self.client)
            # Those clients build the body themselves: the model becomes part of the path.
            post = self.client.post(_MESSAGES, body=from_json(content), cast_to=httpx2.Response)
        else:
            post = self.client.post(_MESSAGES, content=content, cast_to=httpx2.Response)
        return await self.outcome(post)

    async def submit(self, requests: Mapping[str, ChatRequest]) -> str:
        entries = [{"custom_id": name, "params": self.body(request)} for name, request in requests.items()]
        content = transport.encoded({"requests": entries})
        response = await self.done(self.client.post(_BATCHES, content=content, cast_to=httpx2.Response))
        batch_id = transport.parsed(response.content).get("id")
        if not isinstance(batch_id, str) or not batch_id.replace("_", "").replace("-", "").isalnum():
            raise Broken("the batch has no id")
        return batch_id

    async def find(self, requests: Collection[str], known: Collection[str]) -> str | None:
        # There is no metadata to search for. A batch of others is harmless: it has no reply to these requests.
        response = await self.done(self.client.get(f"{_BATCHES}?limit=100", cast_to=httpx2.Response))
        listed = transport.parsed(response.content).get("data")
        for one in listed if isinstance(listed, list) else ():
            with suppress(TypeError, KeyError, ValueError, AttributeError):  # of an entry in another form
                age_s = time.time() - datetime.fromisoformat(one["created_at"]).timestamp()
                size = sum(map(transport.count, one["request_counts"].values()))
                if age_s < _FRESH_S and size == len(requests) and one["id"] not in known:
                    return str(one["id"])
        return None

    async def progress(self, batch_id: str) -> BatchState:
        response = await self._get(f"{_BATCHES}/{batch_id}")
        return "ended" if transport.parsed(response.content).get("processing_status") == "ended" else "running"

    async def results(self, batch_id: str) -> Mapping[str, ChatReply | Exception]:
        return read_results((await self._get(f"{_BATCHES}/{batch_id}/results")).content, self._batched)

    def _batched(self, entry: dict[str, Any]) -> ChatReply:
        result = entry.get("result")
        if not isinstance(result, dict):
            raise Broken("the batch gave no reply")
        if result.get("type") == "succeeded" and isinstance(result.get("message"), dict):
            return self.read(result["message"], batched=True)
        error = result.get("error")
        inner = error.get("error", error) if isinstance(error, dict) else {}
        kind = str(inner.get("type")) if isinstance(inner, dict) else ""
        if kind in _BATCH_STATUS:
            raise transport.status_error(self.account, _BATCH_STATUS[kind], {}, error, None)
        raise Broken(f"the batch gave no reply ({self.account.scrubbed(result.get('type'))})")

    async def _get(self, path: str) -> httpx2.Response:
        found: httpx2.Response = await self.about_batch(self.client.get(path, cast_to=httpx2.Response))
        return found
