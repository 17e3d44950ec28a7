"""Gets a form filled in completely: ask, check, ask once more for what is missing, then
give up."""

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

from ragstone.formatting import some
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
    Fields,
    Path,
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
from ragstone.judge.protocol import Call, JudgementFailed, Sightings

BASE_OUTPUT_TOKENS = 512
_MORE_ROOM = 4
_WHY = {
    Stop.TRUNCATED: "the judge's reply was cut off at its length limit",
    Stop.REFUSED: "the judge refused to judge this text",
    Stop.FILTERED: "the provider's content filter stopped the reply",
}
_MAX_SIGHTINGS = 20
_OF_STATEMENTS = frozenset({"verdicts", "answer_verdicts", "reference_statements"})


class Form(Struct, frozen=True):
    """A request: the prompt, and the fields."""

    prompt: Prompt
    fields: Fields

    @property
    def schema(self) -> dict[str, object]:
        return schema_of(self.prompt.name)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over the prompt, the schema and the ids: two forms with the
        same digest ask the same."""
        return _digest(self.prompt, tuple(field.path for field in self.fields))

    @property
    def request(self) -> str:
        """The line that lists the requested items: the schema is the same for all."""
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
        """The usual upper limit of the filled-in form's tokens, without the thinking
        before it."""
        return BASE_OUTPUT_TOKENS + sum(field.tokens for field in self.fields)


@functools.lru_cache(maxsize=4_096)
def _digest(prompt: Prompt, paths: tuple[Path, ...]) -> str:
    # Hashing costs more than the rest of a cache hit, and equal numbers of statements
    # and contexts share it.
    text = json.dumps([prompt.digest, schema_of(prompt.name), paths])
    return hashlib.sha256(text.encode()).hexdigest()


_T = TypeVar("_T")


async def all_of(calls: Iterable[Awaitable[_T]]) -> list[_T]:
    """What `calls`, made at the same time, return. Raises what the first that fails
    raises, when all are done."""
    awaitables = tuple(calls)
    if (
        len(awaitables) == 1
    ):  # without a task: a stop between its end and the caller's next step would lose the reply
        return [await awaitables[0]]
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


class Completer(Struct, eq=False, kw_only=True):
    """Sends forms to the provider within the limits of the scheduler and the budget,
    and books their cost.

    `make_provider` is called on the first request: a run that finds everything in the
    cache never loads an SDK. `window` is the model's, in tokens: a small one leaves
    less for thinking.
    `reasoning_tokens` are expected before each reply.
    """

    make_provider: Callable[[], Provider]
    calls: PaidCalls
    keys: CacheKeys
    cache: JudgementCache | NoCache
    layout: Layout
    window: int
    reasoning_tokens: int = 0
    sightings: Sightings = field(default_factory=Sightings)
    _provider: Provider | None = None

    @property
    def thinking_tokens(self) -> int:
        """Output tokens reserved for thinking before each reply."""
        return thinking_tokens(self.window)

    @property
    def notes(self) -> Sequence[str]:
        return self._provider.notes if self._provider is not None else ()

    def in_calls(self, fields: Sequence[Field]) -> list[Fields]:
        """`fields` in order, as one call each may ask for them: not too many that are
        by statement."""
        calls: list[Fields] = []
        statements = 0
        for item in fields:
            if len(item.path) > 1 and item.path[0] in _OF_STATEMENTS:
                statements += 1
            if not calls or statements > self.layout.statements:
                calls.append(())
                statements = min(1, statements)
            calls[-1] += (item,)
        return calls

    async def fill(
        self,
        form: Form,
        data: Callable[[Sequence[Field]], str],
        call: Call,
        *,
        part: bool = False,
    ) -> Values:
        """All fields of `form`, checked. `data` renders the data for judging the given
        fields.

        A reply that is not yet a whole judgement is stored by itself: of a `part`,
        without all fields, or to a call that was stopped. Raises JudgementFailed, with
        the reason, if a field is still missing after the second reply.
        """
        calls = self.in_calls(form.fields)
        part = part or len(calls) > 1
        forms = [replace(form, fields=fields) for fields in calls]
        filled: Values = {}
        for values in await all_of(
            self._fill(each, data, call, part) for each in forms
        ):
            filled.update(values)
        return filled

    async def _fill(
        self, form: Form, data: Callable[[Sequence[Field]], str], call: Call, part: bool
    ) -> Values:
        values: Values = {}
        pending = form.fields
        hint = ""
        room = 1
        stop = Stop.COMPLETE
        for _ in range(2):
            pending_form = replace(form, fields=pending)
            request = ChatRequest(
                name=form.prompt.name,
                static=form.prompt.static,
                data=data(pending) + pending_form.request + hint,
                schema=pending_form.schema,
                cached=form.prompt.name in self.layout.cached,
                breakpoint=self.layout.breakpoints,
                graded=form.prompt.name in GRADED,
                max_output_tokens=min(
                    MAX_OUTPUT_TOKENS,
                    (pending_form.output_tokens + self.thinking_tokens) * room,
                ),
            )
            key = self.keys.key(
                f"reply {pending_form.digest}", [request.data], repeat=call.repeat
            )
            stored = None if call.fresh else self.cache.get(key)
            filled = read_document(stored, pending)
            call.ledger.cached_calls += bool(filled)
            if not filled:
                keep = partial(self._keep, key, pending, call)
                likely_tokens = pending_form.output_tokens + self.reasoning_tokens
                reply = await self._chat(request, likely_tokens, call, keep)
                stop, filled = reply.stop, _values(reply, pending)
                if part or len(filled) < len(pending):
                    keep(reply)
            values |= filled
            pending = tuple(field for field in form.fields if field.path not in values)
            if not pending:
                return values
            if stop is Stop.TRUNCATED:
                room = _MORE_ROOM
            hint = f"\n\nYour last reply held no valid value for: {_names(pending)}. Give these now, in the form asked."
            if form.prompt.name == "support":
                hint += " A supported statement needs evidence and a quote from it."
        why = _WHY.get(stop, "the judge gave no valid reply")
        raise JudgementFailed(f"{why} ({_names(pending)}; asked twice)")

    def _keep(
        self, key: bytes, fields: Sequence[Field], call: Call, reply: ChatReply
    ) -> None:
        """Store what a reply holds of the values asked for."""
        filled = _values(reply, fields)
        if filled and not call.fresh:
            self.cache.put(key, document_of(filled))

    async def _chat(
        self,
        request: ChatRequest,
        output_tokens: int,
        call: Call,
        late: Callable[[ChatReply], None],
    ) -> ChatReply:
        """The reply to `request`, which is likely to have at most `output_tokens`."""
        likely = Usage(
            input_tokens=tokens_at_most(request.static) + tokens_at_most(request.data),
            output_tokens=output_tokens,
        )
        provider = self._provider = self._provider or self.make_provider()

        async def attempt() -> ChatReply:
            reply = await provider.chat(request)
            self.calls.book(reply.usage, call)
            return reply

        reply = await self.calls.run(attempt, likely, late=late)
        models, ways = self.sightings.models, self.sightings.ways
        for names, name in ((models, reply.model), (ways, reply.way)):
            if name and len(names) < _MAX_SIGHTINGS:
                names.add(name)
        return reply

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()


def _values(reply: ChatReply, fields: Sequence[Field]) -> Values:
    return with_probabilities(read_reply(reply.text, reply.stop, fields), reply)


def _names(fields: Sequence[Field]) -> str:
    return some([field.path[-1] for field in fields], 8)
