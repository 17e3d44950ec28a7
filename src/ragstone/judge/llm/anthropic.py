"""Anthropic's Messages API, through the official SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

import anthropic
import httpx2
from pydantic_core import from_json

from ragstone.judge.llm import transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.any_json import dict_or_empty, text_or_empty
from ragstone.judge.llm.features import CACHE_CONTROL, SCHEMA, STRUCTURED, with_schema
from ragstone.judge.llm.provider import (
    ChatReply,
    ChatRequest,
    Stop,
    TemporaryFault,
    Usage,
)
from ragstone.judge.llm.sdk import SdkProvider, client_options, key_of
from ragstone.judge.llm.sign_in import job_token

_MESSAGES_PATH = "/v1/messages"
_STOPS = {
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
}
"""What each `stop_reason` means."""


def make_client(account: Account) -> Any:
    """A client for the whole run, without tracing: of Bedrock, of Vertex, or of
    Anthropic's own API.

    If the account has a job identity, the SDK exchanges the job's ID tokens for
    Anthropic's.
    """
    options = client_options(anthropic, account) | {"open_telemetry": False}
    query = dict(account.address.query) or None
    key = account.key.get_secret_value() if account.key else None
    if account.service == "bedrock":
        return anthropic.AsyncAnthropicBedrock(
            api_key=key,
            aws_region=account.required_variable("AWS_REGION"),
            aws_access_key=account.variable("AWS_ACCESS_KEY_ID"),
            aws_secret_key=account.variable("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=account.variable("AWS_SESSION_TOKEN"),
            **options,
        )
    if account.service == "vertex":
        return anthropic.AsyncAnthropicVertex(
            access_token=key,
            region=account.required_variable("CLOUD_ML_REGION"),
            project_id=account.required_variable("ANTHROPIC_VERTEX_PROJECT_ID"),
            **options,
        )
    if account.job_identity is not None:
        audience = account.job_identity.audience
        # Nothing closes this client, so it must not keep connections open.
        exchange_client = httpx2.Client(
            verify=transport.tls_context(),
            timeout=account.timeout_s,
            limits=httpx2.Limits(max_keepalive_connections=0),
        )
        credentials = anthropic.WorkloadIdentityCredentials(
            identity_token_provider=lambda: job_token(account, audience),
            federation_rule_id=account.required_variable(
                "ANTHROPIC_FEDERATION_RULE_ID"
            ),
            organization_id=account.required_variable("ANTHROPIC_ORGANIZATION_ID"),
            service_account_id=account.variable("ANTHROPIC_SERVICE_ACCOUNT_ID"),
            workspace_id=account.variable("ANTHROPIC_WORKSPACE_ID"),
            http_client=exchange_client,
        )
        return anthropic.AsyncAnthropic(
            credentials=credentials, default_query=query, **options
        )
    return anthropic.AsyncAnthropic(
        api_key=key_of(account), default_query=query, **options
    )


class AnthropicProvider(SdkProvider):
    """The Messages API. The static part of a request is marked for Anthropic's prompt
    cache."""

    sdk = anthropic

    def __init__(self, account: Account, *, parameters: Mapping[str, object]) -> None:
        super().__init__(
            account,
            make_client(account),
            (STRUCTURED, CACHE_CONTROL),
            parameters,
        )

    def body(self, request: ChatRequest) -> dict[str, object]:
        """The request as JSON, with the features in use."""
        features = self.features.in_use
        system_block: dict[str, object] = {"type": "text", "text": request.static}
        if CACHE_CONTROL.name in features:
            system_block["cache_control"] = {"type": "ephemeral"}
        parameters = self.features.parameters()
        # The effort is part of the object that also holds the schema.
        effort = parameters.pop("effort", None)
        output_config: dict[str, object] = {}
        if effort is not None:
            output_config["effort"] = effort
        data = request.data
        if SCHEMA in features:
            output_config["format"] = {"type": "json_schema", "schema": request.schema}
        else:
            data = with_schema(data, request.schema)
        body: dict[str, object] = {
            "model": self.account.model,
            "max_tokens": request.max_output_tokens,
            "system": [system_block],
            "messages": [{"role": "user", "content": data}],
            **parameters,
        }
        if output_config:
            body["output_config"] = output_config
        return body

    def read(
        self,
        document: Mapping[str, Any],
        headers: Mapping[str, str],  # noqa: ARG002
    ) -> ChatReply:
        error = transport.body_error(self.account, document)
        if error is not None:
            raise error
        content = document.get("content")
        if not isinstance(content, list):
            raise TemporaryFault("the reply is not a message")
        text = ""
        for block in map(dict_or_empty, content):
            if block.get("type") == "text":
                text += text_or_empty(block.get("text"))
        return ChatReply(
            self.account.remove_secrets(text),
            _STOPS.get(str(document.get("stop_reason")), Stop.COMPLETE),
            _usage(dict_or_empty(document.get("usage"))),
            model=self.account.reported_name(document.get("model")),
            request_mode=self.features.request_mode,
        )

    def post(self, body: Mapping[str, object]) -> Awaitable[httpx2.Response]:
        content: dict[str, Any] = {"content": transport.encode_request(body)}
        if self.account.provider.cloud is not None:
            # The clients of clouds need the body as an object: they move the model to
            # the path.
            content = {"body": from_json(content["content"])}
        call: Awaitable[httpx2.Response] = self.client.post(
            _MESSAGES_PATH, cast_to=httpx2.Response, **content
        )
        return call


def _usage(document: Mapping[str, Any]) -> Usage:
    count = transport.token_count
    return Usage(
        input_tokens=count(document.get("input_tokens")),
        cached_input_tokens=count(document.get("cache_read_input_tokens")),
        cache_write_tokens=count(document.get("cache_creation_input_tokens")),
        output_tokens=count(document.get("output_tokens")),
    )
