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
from ragstone.judge.llm.provider import Broken, ChatReply, ChatRequest, Stop, Usage
from ragstone.judge.llm.sdk import SdkProvider, client_options, key_of
from ragstone.judge.llm.sign_in import job_token

_MESSAGES = "/v1/messages"
_USAGE = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
"""In the order of a Usage."""
_STOPS = {
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
}


def make_client(account: Account) -> Any:
    """One client for the whole run, without tracing. For Bedrock and Vertex, the SDK's
    own clients.

    As a job, the SDK exchanges the job's ID token for one of its own.
    """
    options = client_options(anthropic, account) | {"open_telemetry": False}
    query = dict(account.address.query) or None
    key = account.key.get_secret_value() if account.key else None
    if account.service == "bedrock":
        return anthropic.AsyncAnthropicBedrock(
            api_key=key,
            aws_region=account.needed("AWS_REGION"),
            aws_access_key=account.variable("AWS_ACCESS_KEY_ID"),
            aws_secret_key=account.variable("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=account.variable("AWS_SESSION_TOKEN"),
            **options,
        )
    if account.service == "vertex":
        return anthropic.AsyncAnthropicVertex(
            access_token=key,
            region=account.needed("CLOUD_ML_REGION"),
            project_id=account.needed("ANTHROPIC_VERTEX_PROJECT_ID"),
            **options,
        )
    if account.job_identity is not None:
        audience = account.job_identity.audience
        exchange = httpx2.Client(
            verify=transport.tls_context(),
            timeout=account.timeout_s,
            limits=httpx2.Limits(max_keepalive_connections=0),  # nothing closes it
        )
        credentials = anthropic.WorkloadIdentityCredentials(
            identity_token_provider=lambda: job_token(account, audience),
            federation_rule_id=account.needed("ANTHROPIC_FEDERATION_RULE_ID"),
            organization_id=account.needed("ANTHROPIC_ORGANIZATION_ID"),
            service_account_id=account.variable("ANTHROPIC_SERVICE_ACCOUNT_ID"),
            workspace_id=account.variable("ANTHROPIC_WORKSPACE_ID"),
            http_client=exchange,
        )
        return anthropic.AsyncAnthropic(
            credentials=credentials, default_query=query, **options
        )
    return anthropic.AsyncAnthropic(
        api_key=key_of(account), default_query=query, **options
    )


class AnthropicProvider(SdkProvider):
    """Messages, with the static part of the prompt marked for the provider's prompt
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
        """As in SdkProvider. The system prompt, the same for all samples, is cached."""
        used = self.features.in_use
        static: dict[str, object] = {"type": "text", "text": request.static}
        if CACHE_CONTROL.name in used:
            static["cache_control"] = {"type": "ephemeral"}
        parameters = self.features.parameters()
        effort = parameters.pop("effort", None)
        output: dict[str, object] = {}
        if effort is not None:
            output["effort"] = effort
        data = request.data
        if SCHEMA in used:
            output["format"] = {"type": "json_schema", "schema": request.schema}
        else:
            data = with_schema(data, request.schema)
        body: dict[str, object] = {
            "model": self.account.model,
            "max_tokens": request.max_output_tokens,
            "system": [static],
            "messages": [{"role": "user", "content": data}],
            **parameters,
        }
        return body | {"output_config": output} if output else body

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
            raise Broken("the reply is not a message")
        text = ""
        for block in map(dict_or_empty, content):
            if block.get("type") == "text":
                text += text_or_empty(block.get("text"))
        usage = dict_or_empty(document.get("usage"))
        counts = [transport.count(usage.get(name)) for name in _USAGE]
        return ChatReply(
            self.account.echo(text),
            _STOPS.get(str(document.get("stop_reason")), Stop.COMPLETE),
            Usage(*counts),
            model=self.account.name(document.get("model")),
            way=self.features.way,
        )

    def post(self, body: Mapping[str, object]) -> Awaitable[httpx2.Response]:
        content: dict[str, Any] = {"content": transport.encoded(body)}
        if self.account.provider.cloud is not None:
            # Those clients build the body themselves: the model becomes part of the
            # path.
            content = {"body": from_json(content["content"])}
        sent: Awaitable[httpx2.Response] = self.client.post(
            _MESSAGES, cast_to=httpx2.Response, **content
        )
        return sent
