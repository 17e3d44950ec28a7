"""Has the model fill in forms completely: asks, checks the reply, and asks once more
for what is missing."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.formatting import join_first
from ragstone.judge.cache import JudgementCache, NoCache
from ragstone.judge.llm.graded import GRADED, with_probabilities
from ragstone.judge.llm.paid_calls import PaidCalls
from ragstone.judge.llm.prompts import Layout, Prompt, request_line, schema_of
from ragstone.judge.llm.provider import (
    ChatReply,
    ChatRequest,
    Provider,
    Stop,
    Usage,
)
from ragstone.judge.llm.replies import (
    CacheKeys,
    Field,
    FieldPath,
    Fields,
    Values,
    document_of,
    read_document,
    read_reply,
)
from ragstone.judge.llm.windows import (
    MAX_OUTPUT_TOKENS,
    thinking_tokens,
    tokens_at_most,
)
from ragstone.judge.protocol import Call, JudgementFailed, ObservedJudge

BASE_OUTPUT_TOKENS = 512
"""Tokens of a reply besides the values of its fields."""
_TRUNCATED_FACTOR = 4
"""How many times as many output tokens are allowed after a reply that was cut off."""
_MAX_REPLIES = 2
"""How many replies a form gets: the second is asked for what the first one lacks."""
_REASONS = {
    Stop.TRUNCATED: "the judge's reply was cut off at its length limit",
    Stop.REFUSED: "the judge refused to judge this text",
    Stop.FILTERED: "the provider's content filter stopped the reply",
}
"""Why a reply has no values."""
_MAX_REPORTED_NAMES = 20
"""How many different models, or request modes, are remembered at most."""
_STATEMENT_GROUPS = frozenset({"verdicts", "answer_verdicts", "reference_statements"})
"""The groups of a reply that have one value for each statement."""


class Form(Struct, frozen=True):
    """What a reply must contain: the prompt, and the fields that it asks for."""

    prompt: Prompt
    fields: Fields

    @property
    def schema(self) -> dict[str, object]:
        """The JSON schema of the reply."""
        return schema_of(self.prompt.name)

    @property
    def digest(self) -> str:
        """The SHA-256 (hex) of the prompt, the schema and the ids: two forms with the
        same digest ask for the same."""
        return _digest(self.prompt, tuple(field.path for field in self.fields))

    @property
    def request(self) -> str:
        """The line that lists the requested ids, which the schema leaves open; empty if
        there are none."""
        groups: dict[str, list[str]] = {}
        for item in self.fields:
            groups.setdefault(item.path[0], []).extend(item.path[1:])
        properties: Mapping[str, Any] = self.schema["properties"]  # type: ignore[assignment]
        requested = []
        for name, ids in groups.items():
            if properties[name]["type"] == "array":
                items = ", ".join(ids) or "list them yourself, from r1"
                requested.append(f"{name}: {items}")
        if not requested:
            return ""
        empty = [f"{name}: none" for name in properties if name not in groups]
        return request_line("; ".join([*requested, *empty]))

    @property
    def output_tokens(self) -> int:
        """The usual upper limit of the reply's tokens, without the model's thoughts."""
        return BASE_OUTPUT_TOKENS + sum(field.max_tokens for field in self.fields)


@functools.lru_cache(maxsize=4_096)
def _digest(prompt: Prompt, paths: tuple[FieldPath, ...]) -> str:
    # Cached, because hashing takes longer than the rest of a cache hit, and many forms
    # have the same prompt and ids.
    text = json.dumps([prompt.digest, schema_of(prompt.name), paths])
    return hashlib.sha256(text.encode()).hexdigest()


_T = TypeVar("_T")


async def gather_all(calls: Iterable[Awaitable[_T]]) -> list[_T]:
    """Await `calls` concurrently, and return their results; after all have ended, raise
    the error of the first that failed."""
    awaitables = tuple(calls)
    if len(awaitables) == 1:
        # Not in a task of its own: if the run were stopped between the task's end and
        # the caller's next step, the reply would be lost.
        return [await awaitables[0]]
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


class Completer(Struct, eq=False, kw_only=True):
    """Sends forms to the provider, within the limits of the scheduler and the
    budget."""

    make_provider: Callable[[], Provider]
    """Called for the first request: a run that finds everything in the cache never
    imports an SDK."""
    calls: PaidCalls
    keys: CacheKeys
    cache: JudgementCache | NoCache
    layout: Layout
    window: int
    """The model's window, in tokens."""
    reasoning_tokens: int = 0
    """How many reasoning tokens are expected before each reply."""
    observed_judge: ObservedJudge = field(default_factory=ObservedJudge)
    """What the replies so far reported about the model behind the judge."""
    _provider: Provider | None = None

    @property
    def thinking_tokens(self) -> int:
        """Output tokens reserved for the model's thoughts before each reply."""
        return thinking_tokens(self.window)

    @property
    def notes(self) -> Sequence[str]:
        """The provider's notes for the report."""
        return self._provider.notes if self._provider is not None else ()

    def split_into_calls(self, fields: Sequence[Field]) -> list[Fields]:
        """`fields` in order, split so that no call asks about more statements than the
        layout allows."""
        calls: list[Fields] = []
        statement_count = 0
        for item in fields:
            if len(item.path) > 1 and item.path[0] in _STATEMENT_GROUPS:
                statement_count += 1
            if not calls or statement_count > self.layout.statements_per_call:
                calls.append(())
                statement_count = min(1, statement_count)
            calls[-1] += (item,)
        return calls

    async def fill(
        self,
        form: Form,
        render_data: Callable[[Sequence[Field]], str],
        call: Call,
        *,
        is_part: bool = False,
    ) -> Values:
        """The checked values of all fields of `form`, from one or more calls.

        `render_data` returns the data of a request for the given fields. The caller
        caches a judgement; a reply that is less than a judgement is cached here: one to
        a form that `is_part` of a judgement, one with fields missing, or one that comes
        after the caller was cancelled. Raises JudgementFailed, with the reason, if a
        field is still missing after the second reply.
        """
        fields_of_calls = self.split_into_calls(form.fields)
        is_part = is_part or len(fields_of_calls) > 1
        values_of_calls = await gather_all(
            self._fill_in_one_call(
                replace(form, fields=fields), render_data, call, is_part=is_part
            )
            for fields in fields_of_calls
        )
        all_values: Values = {}
        for values in values_of_calls:
            all_values.update(values)
        return all_values

    async def _fill_in_one_call(
        self,
        form: Form,
        render_data: Callable[[Sequence[Field]], str],
        call: Call,
        *,
        is_part: bool,
    ) -> Values:
        """The checked values of all fields of `form`, from one call, and a second one
        for those that it leaves missing."""
        values: Values = {}
        pending = form.fields
        hint = ""
        output_factor = 1
        stop = Stop.COMPLETE
        for _ in range(_MAX_REPLIES):
            pending_form = replace(form, fields=pending)
            output_tokens = pending_form.output_tokens + self.thinking_tokens
            request = ChatRequest(
                name=form.prompt.name,
                static=form.prompt.static,
                data=render_data(pending) + pending_form.request + hint,
                schema=pending_form.schema,
                is_cacheable=form.prompt.name in self.layout.cached_prompts,
                needs_breakpoint=self.layout.needs_breakpoints,
                needs_logprobs=form.prompt.name in GRADED,
                max_output_tokens=min(MAX_OUTPUT_TOKENS, output_tokens * output_factor),
            )
            key = self.keys.key(
                f"reply {pending_form.digest}", [request.data], repeat=call.repeat
            )
            cached_document = None if call.fresh else self.cache.get(key)
            new_values = read_document(cached_document, pending)
            if new_values:
                call.ledger.cached_calls += 1
            else:
                store = partial(self._store, key, pending, call)
                likely_tokens = pending_form.output_tokens + self.reasoning_tokens
                reply = await self._chat(request, likely_tokens, call, store)
                stop = reply.stop
                new_values = _values(reply, pending)
                if is_part or len(new_values) < len(pending):
                    store(reply)
            values |= new_values
            pending = tuple(field for field in form.fields if field.path not in values)
            if not pending:
                return values
            if stop is Stop.TRUNCATED:
                output_factor = _TRUNCATED_FACTOR
            hint = f"\n\nYour last reply held no valid value for: {_names(pending)}. Give these now, in the form asked."
            if form.prompt.name == "support":
                hint += " A supported statement needs evidence and a quote from it."
        reason = _REASONS.get(stop, "the judge gave no valid reply")
        raise JudgementFailed(f"{reason} ({_names(pending)}; asked twice)")

    def _store(
        self, key: bytes, fields: Sequence[Field], call: Call, reply: ChatReply
    ) -> None:
        """Cache the valid values of `fields` in a reply."""
        values = _values(reply, fields)
        if values and not call.fresh:
            self.cache.put(key, document_of(values))

    async def _chat(
        self,
        request: ChatRequest,
        output_tokens: int,
        call: Call,
        on_late: Callable[[ChatReply], None],
    ) -> ChatReply:
        """The reply to `request`, which is likely to have at most `output_tokens`.

        `on_late` is called with a reply that comes after the caller was cancelled.
        """
        max_usage = Usage(
            input_tokens=tokens_at_most(request.static) + tokens_at_most(request.data),
            output_tokens=output_tokens,
        )
        if self._provider is None:
            self._provider = self.make_provider()
        provider = self._provider

        async def attempt() -> ChatReply:
            reply = await provider.chat(request)
            self.calls.book(reply.usage, call)
            return reply

        reply = await self.calls.run(attempt, max_usage, on_late=on_late)
        for names, name in (
            (self.observed_judge.models, reply.model),
            (self.observed_judge.request_modes, reply.request_mode),
        ):
            if name and len(names) < _MAX_REPORTED_NAMES:
                names.add(name)
        return reply

    async def close(self) -> None:
        """Close the provider's connections."""
        if self._provider is not None:
            await self._provider.close()


def _values(reply: ChatReply, fields: Sequence[Field]) -> Values:
    """The valid values of `fields` in a reply, with the probabilities of verdicts."""
    return with_probabilities(read_reply(reply.text, reply.stop, fields), reply)


def _names(fields: Sequence[Field]) -> str:
    return join_first([field.path[-1] for field in fields], 8)
