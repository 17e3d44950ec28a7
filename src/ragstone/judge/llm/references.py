"""Judgements against a reference: its statements are extracted once and then judged by
id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    ReferenceMatch,
    Statement,
    Statements,
    Support,
    Verdict,
    context_id,
)
from ragstone.judge.llm import merging, reply_schemas
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.core import (
    Core,
    context_blocks,
    texts_of,
    value_of,
)
from ragstone.judge.llm.replies import Field, Values, document_of, read_document
from ragstone.judge.protocol import Call, Contexts
from ragstone.judge.untrusted_text import Block, fenced, listed

Listing = Statements | None
"""The statements of a reference; None if they are to be listed first."""


class ReferenceJudging:
    """Context use and reference match.

    The first judgement of a reference lists the reference's statements and judges them
    in one call. The list is cached under a key of question and reference alone. Every
    later judgement uses these statements, so that denominators are the same in every
    run and repeat.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._listed: dict[bytes, tuple[Statement, ...]] = {}

    async def context_use(
        self,
        question: str,
        reference: str | None,
        answer: str,
        contexts: Contexts,
        *,
        call: Call,
    ) -> ContextUse:
        """Against the answer if there is no reference."""
        core = self._core
        all_names = tuple(map(context_id, range(len(contexts))))
        target, text, prompt = "reference", reference or "", "context_use"
        against_reference = bool(text.strip())
        if not against_reference:
            target, text, prompt = "answer", answer, "context_use_no_reference"

        def form(listing: Listing, names: tuple[str, ...] = all_names) -> Form:
            uses = reply_schemas.context_fields(names)
            attributions = reply_schemas.attribution_fields(text, listing, names)
            return Form(core.prompts[prompt], uses + attributions)

        async def ask(listing: Listing) -> Values:
            blocks = [Block("question", question), Block(target, text)]
            fixed = [question, text, *_texts(listing or ())]
            parts = core.context_parts(form(listing), contexts, fixed)
            is_part = len(parts) > 1
            replies = []
            for part in parts:
                part_form = form(listing, tuple(texts_of(part)))
                data = partial(
                    _rendered,
                    blocks,
                    context_blocks(part),
                    listing,
                )
                reply = await core.completer.fill(part_form, data, call, part=is_part)
                replies.append(reply_schemas.keyed(reply))
                if listing is None:
                    listing = reply_schemas.listed_statements(replies[0])
            return merging.contexts(replies)

        content = (question, text, "", *(context.text for context in contexts))
        statements: tuple[Statement, ...] = ()
        if against_reference:
            statements, values = await self._judged(content, form, ask, call)
        else:
            values = await core.cached(
                form(()),
                content,
                call,
                partial(ask, ()),
            )
        attributions = []
        for item in statements:
            contexts_with_it = value_of(values, *reply_schemas.REFERENCE, item.id)
            names = contexts_with_it["found_in"]
            verdict = Verdict.SUPPORTED if names else Verdict.UNSUPPORTED
            attributions.append(reply_schemas.support_of(item.id, verdict, names))
        usefulness = []
        for name in all_names:
            use = value_of(values, "contexts", name)["use"]
            usefulness.append(ContextUsefulness(name, use == "useful"))
        return ContextUse(
            contexts=tuple(usefulness),
            against_reference=against_reference,
            reference_statements=statements,
            attributions=tuple(attributions),
        )

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Statements,
        answer: str,
        *,
        call: Call,
    ) -> ReferenceMatch:
        core, prompt = self._core, self._core.prompts["reference_match"]
        blocks = [
            Block("question", question),
            Block("reference", reference),
            Block("answer", answer),
            Block("statements", listed([(item.id, item.text) for item in statements])),
        ]

        def form(listing: Listing) -> Form:
            fields = reply_schemas.match_fields(statements, reference, listing)
            return Form(prompt, fields)

        async def ask(listing: Listing) -> Values:
            core.check_room(form(listing), [block.text for block in blocks])
            data = partial(
                _rendered,
                blocks,
                [],
                listing,
            )
            reply = await core.completer.fill(form(listing), data, call)
            return reply_schemas.keyed(reply)

        own = [f"{item.id}:{item.text}" for item in statements]
        content = (question, reference, answer, *own)
        expected, values = await self._judged(content, form, ask, call)
        group = reply_schemas.REFERENCE[0]
        return ReferenceMatch(
            reference_statements=expected,
            answer_supports=_supports(
                values, "answer_verdicts", statements, "reference"
            ),
            reference_supports=_supports(values, group, expected, "answer"),
        )

    async def _judged(
        self,
        content: Sequence[str],
        form: Callable[[Listing], Form],
        ask: Callable[[Listing], Awaitable[Values]],
        call: Call,
    ) -> tuple[tuple[Statement, ...], Values]:
        """The reference's statements and the judgement on them, listing them first if
        needed. `content` are the texts that it reads: the question, the reference, and
        others."""
        core = self._core
        key = core.keys.key("reference statements 1", content[:2])
        async with core.alone(key):
            statements = self._listed.get(key) or _stored(core.cache.get(key))
            if not statements:
                # In one call; the result is cached as if the statements had been given,
                # for the next run.
                values = await ask(None)
                statements = reply_schemas.listed_statements(values)
                self._listed[key] = statements
                core.cache.put(key, {"statements": _texts(statements)})
                whole = [*content, "", *_texts(statements)]
                digest = form(statements).digest
                own_key = core.keys.key(digest, whole, repeat=call.repeat)
                core.cache.put(own_key, document_of(values))
                return statements, values
        whole = [*content, "", *_texts(statements)]
        asking = partial(ask, statements)
        return statements, await core.cached(
            form(statements),
            whole,
            call,
            asking,
        )


def _stored(document: object) -> tuple[Statement, ...]:
    """The statements in a cache entry; none if it is not valid."""
    values = read_document(document, [reply_schemas.STATEMENT_TEXTS])
    statements = []
    for at, text in enumerate(value_of(values, "statements") if values else (), 1):
        statements.append(Statement(f"r{at}", text))
    return tuple(statements)


def _texts(statements: Statements) -> list[str]:
    return [item.text for item in statements]


def _supports(
    values: Values, group: str, statements: Statements, source: str
) -> tuple[Support, ...]:
    supports = []
    for item in statements:
        verdict = value_of(values, group, item.id)["verdict"]
        supports.append(reply_schemas.support_of(item.id, verdict, [source]))
    return tuple(supports)


def _rendered(
    blocks: Sequence[Block],
    contexts: Sequence[Block],
    listing: Listing,
    pending: Sequence[Field],
) -> str:
    """Data for a form: only those of the given statements that are still requested."""
    group = reply_schemas.REFERENCE[0]
    wanted = {field.path[-1] for field in pending if field.path[0] == group}
    lines = [(item.id, item.text) for item in listing or () if item.id in wanted]
    own = [Block("reference statements", listed(lines))] if lines else []
    return fenced([*blocks, *own, *contexts])
