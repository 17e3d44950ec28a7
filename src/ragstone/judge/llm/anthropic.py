"""Anthropic's Messages API, through the official SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2
from pydantic_core import from_json

from ragstone.judge.llm import transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.model_compat import AS_USUAL, Dialect, Outcome, Own, with_schema
from ragstone.judge.llm.provider import (
    Broken,
    ChatReply,
    ChatRequest,
    RateLimits,
    Stop,
    Usage,
)
from ragstone.judge.llm.sdk import SdkProvider, client_options, key_of
from ragstone.judge.llm.sign_in import job_token

_MESSAGES = "/v1/messages"
_STOPS = {
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
}


def make_client(account: Account) -> Any:
    """One client for the whole run, without tracing. For Bedrock and Vertex, the SDK's own clients.

    As a job, the SDK exchanges the job's ID token for one of its own.
    """
    options = client_options(anthropic, account) | {"open_telemetry": False}
    query = dict(account.address.query) or None
    key = account.key.get_secret_value() if account.key else None
    if account.service == "bedrock":
        return anthropic.AsyncAnthropicBedrock(
            api_key=key,
            aws_region=account.variable("AWS_REGION"),
            aws_access_key=account.variable("AWS_ACCESS_KEY_ID"),
            aws_secret_key=account.variable("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=account.variable("AWS_SESSION_TOKEN"),
            **options,
        )
    if account.service == "vertex":
        return anthropic.AsyncAnthropicVertex(
            access_token=key,
            region=account.variable("CLOUD_ML_REGION") or "",
            project_id=account.variable("ANTHROPIC_VERTEX_PROJECT_ID") or "",
            **options,
        )
    if account.as_job and account.provider.job_identity is not None:
        audience = account.provider.job_identity.audience
        exchange = httpx2.Client(
            verify=transport.tls_context(account.ca_bundle),
            timeout=account.timeout_s,
            limits=httpx2.Limits(max_keepalive_connections=0),  # nothing closes it
        )
        credentials = anthropic.WorkloadIdentityCredentials(
            identity_token_provider=lambda: job_token(account, audience),
            federation_rule_id=account.variable("ANTHROPIC_FEDERATION_RULE_ID") or "",
            organization_id=account.variable("ANTHROPIC_ORGANIZATION_ID") or "",
            service_account_id=account.variable("ANTHROPIC_SERVICE_ACCOUNT_ID"),
            workspace_id=account.variable("ANTHROPIC_WORKSPACE_ID"),
            http_client=exchange,
        )
        return anthropic.AsyncAnthropic(credentials=credentials, default_query=query, **options)
    return anthropic.AsyncAnthropic(api_key=key_of(account), default_query=query, **options)


class AnthropicProvider(SdkProvider):
    """Messages, with the static part of the prompt marked for the provider's prompt cache."""

    def __init__(self, account: Account, *, parameters: Mapping[str, object]) -> None:
        dialect = Dialect(modes=("json_schema", "tool", "prompt"))
        super().__init__(anthropic, account, make_client(account), dialect, parameters)

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

    def read(self, document: Mapping[str, Any], room: RateLimits | None, *, tool: str) -> ChatReply:
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
                if block.get("name") != tool:
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
            model=self.account.name(document.get("model")),
            fingerprint=self.account.name(document.get("system_fingerprint")),
            way=self._dialect.mode,
        )

    async def _send(self, body: Mapping[str, object]) -> Outcome[httpx2.Response]:
        content = transport.encoded(body)
        if self.account.provider.cloud is not None:
            # Those clients build the body themselves: the model becomes part of the path.
            post = self.client.post(_MESSAGES, body=from_json(content), cast_to=httpx2.Response)
        else:
            post = self.client.post(_MESSAGES, content=content, cast_to=httpx2.Response)
        return await self.outcome(post)
