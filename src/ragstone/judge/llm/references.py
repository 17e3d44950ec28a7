"""Judgements against a reference: its statements are extracted once and then judged by
id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    ReferenceMatch,
    Statement,
    Support,
    Verdict,
    context_id,
)
from ragstone.judge.llm import merging, reply_schemas
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.core import (
    Core,
    Values,
    context_blocks,
    texts_of,
    value_of,
)
from ragstone.judge.llm.replies import Field, document_of
from ragstone.judge.protocol import Call
from ragstone.judge.untrusted_text import Block, fenced, listed
from ragstone.system.response import Context

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
        self._known: dict[bytes, dict[str, list[str]]] = {}

    async def context_use(
        self,
        question: str,
        reference: str | None,
        answer: str,
        contexts: Sequence[Context],
        call: Call,
    ) -> ContextUse:
        """Against the answer if there is no reference."""
        core = self._core
        names = tuple(context_id(rank) for rank in range(len(contexts)))

        target, text, prompt = "answer", answer, "context_use_no_reference"
        if reference and reference.strip():
            target, text, prompt = "reference", reference, "context_use"
        against_reference = target == "reference"

        def form_of(listing: Given, names: tuple[str, ...]) -> Form:
            fields = reply_schemas.context_fields(names)
            if against_reference:
                fields += reply_schemas.attribution_fields(text, listing, names)
            return Form(core.prompts[prompt], fields)

        form = partial(form_of, names=names)

        async def ask(listing: Given) -> Values:
            statements_so_far, replies = listing, []
            fixed = [question, text, *(item.text for item in listing or ())]
            parts = core.context_parts(form(listing), contexts, fixed)
            for part in parts:
                blocks = [Block("question", question), Block(target, text)]
                data = partial(
                    _rendered, blocks, context_blocks(part), statements_so_far
                )
                part_form = form_of(statements_so_far, tuple(texts_of(part)))
                filled = await core.completer.fill(
                    part_form, data, call, part=len(parts) > 1
                )
                replies.append(reply_schemas.keyed(filled))
                if statements_so_far is None:
                    statements_so_far = reply_schemas.listed_statements(replies[0])
            return merging.contexts(replies)

        content = (question, text, "", *(context.text for context in contexts))
        if against_reference:
            task = _Task(question, text, content, form, ask)
            statements, values = await self._judged(task, call)
        else:
            asking = partial(ask, None)
            values = await core.cached(form(None), content, call, asking)
            statements = ()
        attributions = []
        for item in statements:
            where = value_of(values, *reply_schemas.REFERENCE, item.id)["found_in"]
            verdict = Verdict.SUPPORTED if where else Verdict.UNSUPPORTED
            attributions.append(reply_schemas.support_of(item.id, verdict, where))
        uses = {name: value_of(values, "contexts", name)["use"] for name in names}
        return ContextUse(
            contexts=tuple(
                ContextUsefulness(name, use == "useful") for name, use in uses.items()
            ),
            against_reference=against_reference,
            reference_statements=statements,
            attributions=tuple(attributions),
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

        def supports(
            group: str, items: Sequence[Statement], source: str
        ) -> tuple[Support, ...]:
            return tuple(
                reply_schemas.support_of(
                    item.id, value_of(values, group, item.id)["verdict"], [source]
                )
                for item in items
            )

        return ReferenceMatch(
            reference_statements,
            supports("answer_verdicts", statements, "reference"),
            supports(reply_schemas.REFERENCE[0], reference_statements, "answer"),
        )

    async def _judged(
        self, task: _Task, call: Call
    ) -> tuple[tuple[Statement, ...], Values]:
        """The reference's statements and the judgement on them, listing them first if
        needed."""
        key = self._core.keys.key(
            "reference statements 1", [task.question, task.reference]
        )
        async with self._core.alone(key):
            statements = _listed(self._known.get(key) or self._core.stored(key))
            if statements is None:
                # In one call; the result is cached as if the statements had been given,
                # for the next run.
                values = await task.ask(None)
                statements = reply_schemas.listed_statements(values)
                self._known[key] = {"statements": [item.text for item in statements]}
                self._core.store(key, self._known[key])
                digest = task.form(statements).digest
                content = _content(task, statements)
                own = self._core.keys.key(digest, content, repeat=call.repeat)
                self._core.store(own, document_of(values))
                return statements, values
        values = await self._core.cached(
            task.form(statements),
            _content(task, statements),
            call,
            partial(task.ask, statements),
        )
        return statements, values


def _listed(document: object) -> tuple[Statement, ...] | None:
    """The statements in a cache entry, if it is valid."""
    texts = document.get("statements") if isinstance(document, dict) else None
    if not isinstance(texts, list) or not 0 < len(texts) <= _MAX_STATEMENTS:
        return None
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return None
    readable = (text.encode("utf-8", "replace").decode() for text in texts)
    return tuple(Statement(f"r{at}", text) for at, text in enumerate(readable, start=1))


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
    own = [Block("reference statements", lines)] if lines else []
    return fenced([*blocks, *own, *contexts])
