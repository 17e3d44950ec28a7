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
    Feature,
    FeatureRefused,
    output_limit_feature,
    with_schema,
)
from ragstone.judge.llm.graded import ALTERNATIVES
from ragstone.judge.llm.provider import (
    ChatReply,
    ChatRequest,
    EmbedReply,
    Rejected,
    Stop,
    TemporaryFault,
    Usage,
)
from ragstone.judge.llm.sdk import SdkProvider, client_options, key_of, result_or_error
from ragstone.judge.llm.sign_in import job_token
from ragstone.judge.llm.windows import tokens_at_least

_STOPS = {
    **dict.fromkeys(
        ("length", "max_tokens", "model_length", "max_output_tokens"), Stop.TRUNCATED
    ),
    **dict.fromkeys(("content_filter", "safety"), Stop.FILTERED),
}
"""What each `finish_reason` means. ``model_length`` is Mistral's; others are those of
providers behind a gateway."""


def make_client(account: Account) -> openai.AsyncOpenAI:
    """A client for the whole run; Azure's if the address has an API version.

    If the account has a job identity, the SDK exchanges the job's ID tokens for
    OpenAI's.
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
    provider_variable, service_account_variable = identity.needed
    workload: openai.auth.WorkloadIdentity = {
        "identity_provider_id": account.required_variable(provider_variable),
        "service_account_id": account.required_variable(service_account_variable),
        "provider": {
            "token_type": "jwt",
            "get_token": partial(job_token, account, identity.audience),
        },
    }
    return openai.AsyncOpenAI(workload_identity=workload, **options)


class OpenAIProvider(SdkProvider):
    """Chat completions of OpenAI, or of a compatible server.

    A compatible server gets the schema in the prompt, too: many don't enforce it, and
    don't say so.
    """

    sdk = openai

    def __init__(self, account: Account, *, parameters: Mapping[str, object]) -> None:
        self._is_compatible = account.provider.api == "openai-compatible"
        self._limit_name = "max_completion_tokens"
        cache_features: tuple[Feature, ...] = (PROMPT_CACHE_OPTIONS, PROMPT_CACHE_KEY)
        if self._is_compatible:
            self._limit_name = "max_tokens"
            cache_features = ()
        features = (
            STRUCTURED,
            *cache_features,
            LOGPROBS,
            SYSTEM,
            output_limit_feature(self._limit_name),
        )
        super().__init__(
            account,
            make_client(account),
            features,
            parameters,
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        reply = await super().chat(request)
        tokens_read = reply.usage.all_input_tokens
        tokens_sent = tokens_at_least(request.static) + tokens_at_least(request.data)
        # Some servers, such as Ollama, cut requests off and don't say so.
        if self._is_compatible and 0 < tokens_read < tokens_sent:
            self.features.note(
                "the server cuts requests off at its own window: enlarge it, or set judge.context_window to its size"
            )
            raise Rejected(
                f"the server read only {tokens_read:,} tokens of a longer request: enlarge its window, or set "
                "judge.context_window to its size"
            )
        return reply

    def post(self, body: Mapping[str, object]) -> Awaitable[httpx2.Response]:
        return post(self.client, "/chat/completions", body)

    def body(self, request: ChatRequest) -> dict[str, object]:
        features = self.features.in_use
        data = request.data
        if self._is_compatible or SCHEMA not in features:
            data = with_schema(data, request.schema)
        body: dict[str, object] = {
            "model": self.account.model,
            "messages": self._messages(request, data),
        }
        if OUTPUT_LIMIT in features:
            body[self._limit_name] = request.max_output_tokens
        body |= self.features.parameters()
        if SCHEMA in features:
            json_schema = {
                "name": request.name,
                "schema": request.schema,
                "strict": True,
            }
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": json_schema,
            }
        if request.needs_logprobs and LOGPROBS.name in features:
            body |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
        if PROMPT_CACHE_KEY.name in features:
            body["prompt_cache_key"] = f"ragstone-{request.name}"
        if request.needs_breakpoint and PROMPT_CACHE_OPTIONS.name in features:
            # Otherwise the model caches up to the last message, which is never the same
            # twice, and bills that as a write to the cache.
            body["prompt_cache_options"] = {"mode": "explicit"}
        return body

    def _messages(self, request: ChatRequest, data: str) -> list[dict[str, object]]:
        features = self.features.in_use
        if SYSTEM_ROLE not in features:
            return [{"role": "user", "content": f"{request.static}\n\n{data}"}]
        static: object = request.static
        sets_breakpoint = request.is_cacheable and request.needs_breakpoint
        if sets_breakpoint and PROMPT_CACHE_OPTIONS.name in features:
            content_part = {
                "type": "text",
                "text": request.static,
                "prompt_cache_breakpoint": {"mode": "explicit"},
            }
            static = [content_part]
        return [
            {"role": "system", "content": static},
            {"role": "user", "content": data},
        ]

    def read(
        self, document: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ChatReply:
        choices = list_or_empty(document.get("choices"))
        choice = dict_or_empty(next(iter(choices), None))
        for possible_error in (document, choice):
            error = transport.body_error(self.account, possible_error)
            if error is not None:
                raise error
        message = choice.get("message")
        if not isinstance(message, dict):
            raise TemporaryFault("the reply is not a chat completion")
        reason = str(choice.get("finish_reason")).lower()
        stop = _STOPS.get(reason, Stop.COMPLETE)
        if message.get("refusal"):
            stop = Stop.REFUSED
        usage = self._usage(document.get("usage"))
        if self._is_compatible:
            usage = _with_cost(usage, headers.get("x-litellm-response-cost"))
        logprobs = dict_or_empty(choice.get("logprobs"))
        return ChatReply(
            self.account.remove_secrets(text_or_empty(message.get("content"))),
            stop,
            usage,
            model=self.account.reported_name(document.get("model")),
            request_mode=self.features.request_mode,
            tokens=list_or_empty(logprobs.get("content")),
        )

    def _usage(self, document: object) -> Usage:
        """The usage that a reply reports; zeros, with a note, if it reports none."""
        if not isinstance(document, dict):
            self.features.note(
                "the server does not report token usage; tokens and cost of its replies count as 0"
            )
            return Usage()
        details = dict_or_empty(document.get("prompt_tokens_details"))
        prompt_tokens = transport.token_count(document.get("prompt_tokens"))
        # The second is DeepSeek's.
        reported_hits = details.get(
            "cached_tokens", document.get("prompt_cache_hit_tokens")
        )
        cached = min(prompt_tokens, transport.token_count(reported_hits))
        reported_writes = transport.token_count(details.get("cache_write_tokens"))
        written = min(prompt_tokens - cached, reported_writes)
        usage = Usage(
            input_tokens=prompt_tokens - cached - written,
            cached_input_tokens=cached,
            cache_write_tokens=written,
            output_tokens=transport.token_count(document.get("completion_tokens")),
        )
        if self._is_compatible:
            return _with_cost(usage, document.get("cost"))
        return usage


class OpenAIEmbedder:
    """The embeddings of OpenAI, or of a compatible server."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._client = make_client(account)

    async def embed(self, texts: Sequence[str]) -> EmbedReply:
        """One embedding for each text, in order. Raises a Fault or JudgeError."""
        import numpy as np  # here, so that the first requests don't wait for it

        body: dict[str, object] = {"model": self._account.model, "input": list(texts)}
        call = post(self._client, "/embeddings", body)
        reply = await result_or_error(openai, self._account, call)
        if isinstance(reply, FeatureRefused):
            raise reply.error
        if isinstance(reply, Exception):
            raise reply
        document = transport.parse_reply(reply.content)
        data = list_or_empty(document.get("data"))
        if len(data) != len(texts):
            raise TemporaryFault("the reply does not contain one embedding per text")
        try:
            embeddings = {
                item.get("index", position): item["embedding"]
                for position, item in enumerate(data)
            }
            rows = [embeddings[position] for position in range(len(texts))]
            vectors = np.asarray(rows, dtype=np.float64)
        except (ValueError, TypeError, KeyError, AttributeError):
            vectors = np.empty(0)
        is_matrix = vectors.ndim == 2 and vectors.size > 0
        if not is_matrix or not np.isfinite(vectors).all():
            raise TemporaryFault(
                "the reply contains embeddings that are not vectors of numbers"
            )
        usage = dict_or_empty(document.get("usage"))
        return EmbedReply(vectors, transport.token_count(usage.get("prompt_tokens")))

    async def close(self) -> None:
        await self._client.close()


def post(
    client: openai.AsyncOpenAI, path: str, body: Mapping[str, object]
) -> Awaitable[httpx2.Response]:
    """Send `body` to `path` of the client's address."""
    content = transport.encode_request(body)
    return client.post(path, content=content, cast_to=httpx2.Response)


def _with_cost(usage: Usage, reported_usd: object) -> Usage:
    """`usage` with the cost that a gateway reports; as it is if that is no number of
    dollars."""
    if isinstance(reported_usd, bool):
        return usage
    try:
        cost_usd = float(reported_usd)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return usage
    return replace(usage, cost_usd=cost_usd) if 0.0 <= cost_usd < math.inf else usage
