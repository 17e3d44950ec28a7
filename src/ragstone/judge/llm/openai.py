"""OpenAI's chat and embeddings, and any compatible server, through the official SDK."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any

import httpx2
import openai
from msgspec.structs import replace

from ragstone.judge.llm import transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.any_json import dict_or_empty, list_or_empty, text_or_empty
from ragstone.judge.llm.features import (
    LOGPROBS,
    OUTPUT_LIMIT,
    PROMPT_CACHE_KEY,
    PROMPT_CACHE_OPTIONS,
    SCHEMA,
    STRUCTURED,
    SYSTEM,
    SYSTEM_ROLE,
    FeatureRefused,
    output_limit,
    with_schema,
)
from ragstone.judge.llm.graded import ALTERNATIVES
from ragstone.judge.llm.provider import (
    Broken,
    ChatReply,
    ChatRequest,
    EmbedReply,
    Rejected,
    Stop,
    Usage,
)
from ragstone.judge.llm.sdk import SdkProvider, client_options, key_of, outcome
from ragstone.judge.llm.sign_in import job_token
from ragstone.judge.llm.windows import tokens_at_least

# "model_length" is Mistral's; the others are passed through by gateways from other
# providers.
_STOPS = {
    **dict.fromkeys(
        ("length", "max_tokens", "model_length", "max_output_tokens"), Stop.TRUNCATED
    ),
    **dict.fromkeys(("content_filter", "safety"), Stop.FILTERED),
}


def make_client(account: Account) -> openai.AsyncOpenAI:
    """One client for the whole run; Azure's if the address has an API version.

    As a job, the SDK exchanges the job's ID token for one of its own.
    """
    options = client_options(openai, account)
    query = dict(account.address.query)
    options["default_query"] = query or None
    if "api-version" in query:
        version = query["api-version"]
        return openai.AsyncAzureOpenAI(
            api_key=key_of(account), api_version=version, **options
        )
    identity = account.job_identity
    if identity is None:
        return openai.AsyncOpenAI(api_key=key_of(account), **options)
    provider_id, service_id = map(account.needed, identity.needed)
    workload: openai.auth.WorkloadIdentity = {
        "identity_provider_id": provider_id,
        "service_account_id": service_id,
        "provider": {
            "token_type": "jwt",
            "get_token": partial(job_token, account, identity.audience),
        },
    }
    return openai.AsyncOpenAI(workload_identity=workload, **options)


class OpenAIProvider(SdkProvider):
    """Chat completions. Compatible servers also get the schema as text: many ignore the
    mode without a word."""

    sdk = openai

    def __init__(self, account: Account, *, parameters: Mapping[str, object]) -> None:
        self._compatible = account.provider.api == "openai-compatible"
        self._limit_name = "max_tokens" if self._compatible else "max_completion_tokens"
        caching = () if self._compatible else (PROMPT_CACHE_OPTIONS, PROMPT_CACHE_KEY)
        features = (
            STRUCTURED,
            *caching,
            LOGPROBS,
            SYSTEM,
            output_limit(self._limit_name),
        )
        super().__init__(
            account,
            make_client(account),
            features,
            parameters,
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        reply = await super().chat(request)
        read = reply.usage.all_input_tokens
        sent = tokens_at_least(request.static) + tokens_at_least(request.data)
        if self._compatible and 0 < read < sent:  # Ollama truncates silently
            self.features.note(
                "the server cuts requests off at its own window: enlarge it, or set judge.context_window"
            )
            raise Rejected(
                f"the server read only {read:,} tokens of a longer request: its window is smaller than judge.context_window"
            )
        return reply

    def post(self, body: Mapping[str, object]) -> Awaitable[httpx2.Response]:
        return post(self.client, "/chat/completions", body)

    def body(self, request: ChatRequest) -> dict[str, object]:
        used = self.features.in_use
        data = request.data
        if self._compatible or SCHEMA not in used:
            data = with_schema(data, request.schema)
        body: dict[str, object] = {
            "model": self.account.model,
            "messages": self._messages(request, data),
        }
        if OUTPUT_LIMIT in used:
            body[self._limit_name] = request.max_output_tokens
        body |= self.features.parameters()
        if SCHEMA in used:
            form = {"name": request.name, "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if request.graded and LOGPROBS.name in used:
            body |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
        if PROMPT_CACHE_KEY.name in used:
            body["prompt_cache_key"] = f"ragstone-{request.name}"
        if request.breakpoint and PROMPT_CACHE_OPTIONS.name in used:
            # Without this the model marks the last message, which is never the same
            # twice, and bills it as a write.
            body["prompt_cache_options"] = {"mode": "explicit"}
        return body

    def _messages(self, request: ChatRequest, data: str) -> list[dict[str, object]]:
        used = self.features.in_use
        if SYSTEM_ROLE not in used:
            return [{"role": "user", "content": f"{request.static}\n\n{data}"}]
        static: object = request.static
        marks_the_end = request.cached and request.breakpoint
        if marks_the_end and PROMPT_CACHE_OPTIONS.name in used:
            part = {
                "type": "text",
                "text": request.static,
                "prompt_cache_breakpoint": {"mode": "explicit"},
            }
            static = [part]
        return [
            {"role": "system", "content": static},
            {"role": "user", "content": data},
        ]

    def read(
        self, document: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ChatReply:
        choices = list_or_empty(document.get("choices"))
        choice = dict_or_empty(next(iter(choices), None))
        for place in (document, choice):
            error = transport.body_error(self.account, place)
            if error is not None:
                raise error
        message = choice.get("message")
        if not isinstance(message, dict):
            raise Broken("the reply is not a chat completion")
        reason = str(choice.get("finish_reason")).lower()
        stop = _STOPS.get(reason, Stop.COMPLETE)
        if message.get("refusal"):
            stop = Stop.REFUSED
        usage = self._usage(document.get("usage"))
        if self._compatible:
            usage = _with_cost(usage, headers.get("x-litellm-response-cost"))
        logprobs = dict_or_empty(choice.get("logprobs"))
        return ChatReply(
            self.account.echo(text_or_empty(message.get("content"))),
            stop,
            usage,
            model=self.account.name(document.get("model")),
            way=self.features.way,
            tokens=list_or_empty(logprobs.get("content")),
        )

    def _usage(self, usage: object) -> Usage:
        if not isinstance(usage, dict):
            self.features.note(
                "the server does not report token usage; tokens and cost of its replies count as 0"
            )
            return Usage()
        details = dict_or_empty(usage.get("prompt_tokens_details"))
        prompt = transport.count(usage.get("prompt_tokens"))
        hits = details.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
        cached = min(prompt, transport.count(hits))
        writes = transport.count(details.get("cache_write_tokens"))
        written = min(prompt - cached, writes)
        output = transport.count(usage.get("completion_tokens"))
        counted = Usage(
            prompt - cached - written,
            cached,
            written,
            output,
        )
        return _with_cost(counted, usage.get("cost")) if self._compatible else counted


class OpenAIEmbedder:
    """The embeddings endpoint."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._client = make_client(account)

    async def embed(self, texts: Sequence[str]) -> EmbedReply:
        import numpy as np  # here, so that the first requests don't wait for it

        body: dict[str, object] = {"model": self._account.model, "input": list(texts)}
        sent = post(self._client, "/embeddings", body)
        reply = await outcome(openai, self._account, sent)
        if isinstance(reply, FeatureRefused):
            raise reply.error
        if isinstance(reply, Exception):
            raise reply
        document = transport.parsed(reply.content)
        data = list_or_empty(document.get("data"))
        if len(data) != len(texts):
            raise Broken("the reply does not contain one embedding per text")
        try:
            rows = {
                item.get("index", at): item["embedding"] for at, item in enumerate(data)
            }
            vectors = np.asarray(
                [rows[at] for at in range(len(texts))], dtype=np.float64
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            vectors = np.empty(0)
        is_table = vectors.ndim == 2 and vectors.size > 0
        if not is_table or not np.isfinite(vectors).all():
            raise Broken("the reply contains embeddings that are no vectors of numbers")
        usage = dict_or_empty(document.get("usage"))
        return EmbedReply(vectors, transport.count(usage.get("prompt_tokens")))

    async def close(self) -> None:
        await self._client.close()


def post(
    client: openai.AsyncOpenAI, path: str, body: Mapping[str, object]
) -> Awaitable[httpx2.Response]:
    content = transport.encoded(body)
    return client.post(path, content=content, cast_to=httpx2.Response)


def _with_cost(usage: Usage, cost_usd: object) -> Usage:
    try:
        cost = -1.0 if isinstance(cost_usd, bool) else float(cost_usd)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return usage
    return replace(usage, cost_usd=cost) if 0.0 <= cost < math.inf else usage
