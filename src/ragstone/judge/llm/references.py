"""Judgements against a reference: its statements are extracted once and then judged by
id."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ragstone.judge.judgements import ContextUse, ReferenceMatch, Statement, Verdict
from ragstone.judge.llm import merging, reply_schemas
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.core import (
    Core,
    Values,
    context_blocks,
    context_names,
    part_names,
    usefulness,
    value_of,
)
from ragstone.judge.llm.replies import Field, document_of
from ragstone.judge.protocol import Call
from ragstone.judge.untrusted_text import Block, fenced, listed
from ragstone.system.response import Context

_MAX_REFERENCES = 4_096
_MAX_STATEMENTS = 400

Given = Sequence[Statement] | None


@dataclass(frozen=True, slots=True)
class _Task:
    """A judgement against a reference: its form, how it is requested, and the other
    texts that it reads."""

    question: str
    reference: str
    content: tuple[str, ...]
    form: Callable[[Given], Form]
    ask: Callable[[Given], Awaitable[Values]]


class ReferenceJudging:
    """Context use and reference match.

    The first judgement of a reference lists the reference's statements and judges them
    in one call. The list is cached under a key of question and reference alone. Every
    later judgement uses these statements, so that denominators are the same in every
    run and repeat.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._listing: dict[bytes, asyncio.Future[tuple[Statement, ...]]] = {}
        self._known: OrderedDict[bytes, tuple[Statement, ...]] = OrderedDict()

    async def context_use(
        self, question: str, reference: str, contexts: Sequence[Context], call: Call
    ) -> ContextUse:
        core, names, prompt = (
            self._core,
            context_names(contexts),
            self._core.prompts["context_use"],
        )

        def form_of(listing: Given, names: tuple[str, ...]) -> Form:
            fields = (
                *reply_schemas.context_fields(names),
                *reply_schemas.attribution_fields(reference, listing, names),
            )
            return Form(prompt, fields)

        form = partial(form_of, names=names)

        async def ask(listing: Given) -> Values:
            statements_so_far, replies = listing, []
            fixed = [question, reference, *(item.text for item in listing or ())]
            parts = core.context_parts(form(listing), contexts, fixed)
            for part in parts:
                blocks = [Block("question", question), Block("reference", reference)]
                data = partial(
                    _rendered, blocks, context_blocks(part), statements_so_far
                )
                part_form = form_of(statements_so_far, part_names(part))
                reply = reply_schemas.keyed(
                    await core.completer.fill(
                        part_form, data, call, part=len(parts) > 1
                    )
                )
                replies.append(reply)
                statements_so_far = (
                    reply_schemas.listed_statements(reply)
                    if statements_so_far is None
                    else statements_so_far
                )
            return merging.contexts(replies)

        content = (question, reference, "", *(context.text for context in contexts))
        statements, values = await self._judged(
            _Task(question, reference, content, form, ask), call
        )
        sources = {
            item.id: list(
                value_of(values, *reply_schemas.REFERENCE, item.id)["found_in"]
            )
            for item in statements
        }
        return ContextUse(
            contexts=usefulness(values, names),
            against_reference=True,
            reference_statements=statements,
            attributions=tuple(
                reply_schemas.support_of(
                    name, Verdict.SUPPORTED if where else Verdict.UNSUPPORTED, where
                )
                for name, where in sources.items()
            ),
        )

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Sequence[Statement],
        answer: str,
        call: Call,
    ) -> ReferenceMatch:
        core, prompt = self._core, self._core.prompts["reference_match"]
        own = listed([(item.id, item.text) for item in statements])

        def form(listing: Given) -> Form:
            return Form(
                prompt, reply_schemas.match_fields(statements, reference, listing)
            )

        async def ask(listing: Given) -> Values:
            core.check_room(form(listing), [question, reference, answer, own])
            blocks = [
                Block("question", question),
                Block("reference", reference),
                Block("answer", answer),
            ]
            data = partial(_rendered, [*blocks, Block("statements", own)], [], listing)
            return reply_schemas.keyed(
                await core.completer.fill(form(listing), data, call)
            )

        content = (
            question,
            reference,
            answer,
            *(f"{item.id}:{item.text}" for item in statements),
        )
        reference_statements, values = await self._judged(
            _Task(question, reference, content, form, ask), call
        )
        return ReferenceMatch(
            reference_statements=reference_statements,
            answer_supports=tuple(
                reply_schemas.support_of(
                    item.id,
                    value_of(values, "answer_verdicts", item.id)["verdict"],
                    ["reference"],
                )
                for item in statements
            ),
            reference_supports=tuple(
                reply_schemas.support_of(
                    item.id,
                    value_of(values, *reply_schemas.REFERENCE, item.id)["verdict"],
                    ["answer"],
                )
                for item in reference_statements
            ),
        )

    async def _judged(
        self, task: _Task, call: Call
    ) -> tuple[tuple[Statement, ...], Values]:
        """The reference's statements and the judgement on them, listing them first if
        needed."""
        key = self._core.keys.key(
            "reference statements 1", [task.question, task.reference]
        )
        while True:
            listed_before = self._find(key)
            if listed_before is not None:
                content = _content(task, listed_before)
                return listed_before, await self._core.cached(
                    task.form(listed_before),
                    content,
                    call,
                    partial(task.ask, listed_before),
                )
            running = self._listing.get(key)
            if running is None:
                return await self._list(task, key, call)
            await asyncio.wait([running])

    async def _list(
        self, task: _Task, key: bytes, call: Call
    ) -> tuple[tuple[Statement, ...], Values]:
        """List and judge in one call; the result is cached as if the statements had
        been given, for the next run."""
        self._listing[key] = asyncio.get_running_loop().create_future()
        try:
            values = await task.ask(None)
            statements = reply_schemas.listed_statements(values)
            self._remember(key, statements)
            self._core.store(key, {"statements": [item.text for item in statements]})
            own = self._core.keys.key(
                task.form(statements).digest,
                _content(task, statements),
                repeat=call.repeat,
            )
            self._core.store(own, document_of(values))
            return statements, values
        finally:
            # The waiting calls check again; if this one failed, the first of them lists
            # the statements itself.
            self._listing.pop(key).cancel()

    def _find(self, key: bytes) -> tuple[Statement, ...] | None:
        if key in self._known:
            return self._known[key]
        stored = self._core.stored(key)
        texts = stored.get("statements") if isinstance(stored, dict) else None
        if not isinstance(texts, list) or not 0 < len(texts) <= _MAX_STATEMENTS:
            return None
        statements = []
        for at, text in enumerate(texts, start=1):
            if not isinstance(text, str) or not text.strip():
                return None
            statements.append(
                Statement(f"r{at}", text.encode("utf-8", "replace").decode())
            )
        return self._remember(key, tuple(statements))

    def _remember(
        self, key: bytes, statements: tuple[Statement, ...]
    ) -> tuple[Statement, ...]:
        self._known[key] = statements
        if len(self._known) > _MAX_REFERENCES:
            self._known.popitem(last=False)
        return statements


def _content(task: _Task, statements: Sequence[Statement]) -> list[str]:
    return [*task.content, "", *(item.text for item in statements)]


def _rendered(
    blocks: Sequence[Block],
    contexts: Sequence[Block],
    listing: Given,
    pending: Sequence[Field],
) -> str:
    """Data for a form: only those of the given statements that are still requested."""
    if listing is None:
        return fenced([*blocks, *contexts])
    wanted = {
        field.path[1]
        for field in pending
        if field.path[0] == reply_schemas.REFERENCE[0]
    }
    lines = listed([(item.id, item.text) for item in listing if item.id in wanted])
    return fenced(
        [*blocks, *([Block("reference statements", lines)] if lines else []), *contexts]
    )
