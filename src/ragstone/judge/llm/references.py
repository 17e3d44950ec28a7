"""Judgements against a reference, whose statements are listed once and then judged by
their ids."""

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
from ragstone.judge.llm.form_filler import (
    FormFiller,
    context_blocks,
    texts_of,
    value_of,
)
from ragstone.judge.llm.replies import Field, Values, document_of, read_document
from ragstone.judge.protocol import Call, Contexts
from ragstone.judge.untrusted_text import Block, render_blocks, render_list

KnownStatements = Statements | None
"""The statements of a reference; None if the model must list them first."""


class ReferenceJudging:
    """Judges context use and reference match.

    The first judgement of a reference lists the reference's statements and judges them
    in one call. The list is cached under a key of question and reference alone. Every
    later judgement uses these statements, so that every run and repeat counts the same
    ones.
    """

    def __init__(self, filler: FormFiller) -> None:
        self._filler = filler
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
        """The use of each context for the reference, or for the answer if there is no
        reference."""
        filler = self._filler
        all_ids = tuple(map(context_id, range(len(contexts))))
        target_name = "reference"
        target_text = reference or ""
        prompt = "context_use"
        against_reference = bool(target_text.strip())
        if not against_reference:
            target_name = "answer"
            target_text = answer
            prompt = "context_use_no_reference"

        def form(
            known_statements: KnownStatements, context_ids: tuple[str, ...] = all_ids
        ) -> Form:
            uses = reply_schemas.context_fields(context_ids)
            attributions = reply_schemas.attribution_fields(
                target_text, known_statements, context_ids
            )
            return Form(filler.prompts[prompt], uses + attributions)

        async def ask(known_statements: KnownStatements) -> Values:
            blocks = [Block("question", question), Block(target_name, target_text)]
            fixed = [question, target_text, *_texts(known_statements or ())]
            parts = filler.split_contexts(form(known_statements), contexts, fixed)
            is_part = len(parts) > 1
            replies = []
            for part in parts:
                part_form = form(known_statements, tuple(texts_of(part)))
                render_data = partial(
                    _render_data,
                    blocks,
                    context_blocks(part),
                    known_statements,
                )
                reply = await filler.completer.fill(
                    part_form, render_data, call, is_part=is_part
                )
                replies.append(reply_schemas.with_reference_by_id(reply))
                if known_statements is None:
                    # The first part lists the statements for all others.
                    known_statements = reply_schemas.listed_statements(replies[0])
            return merging.merge_context_use(replies)

        content = (question, target_text, "", *(context.text for context in contexts))
        statements: tuple[Statement, ...] = ()
        if against_reference:
            statements, values = await self._judge(content, form, ask, call)
        else:
            no_statements = ()
            values = await filler.get_or_ask(
                form(no_statements),
                content,
                call,
                partial(ask, no_statements),
            )
        attributions = []
        for item in statements:
            attribution = value_of(values, *reply_schemas.REFERENCE, item.id)
            found_in = attribution["found_in"]
            verdict = Verdict.SUPPORTED if found_in else Verdict.UNSUPPORTED
            attributions.append(reply_schemas.support_of(item.id, verdict, found_in))
        usefulness = []
        for name in all_ids:
            use = value_of(values, "contexts", name)["use"]
            usefulness.append(ContextUsefulness(name, useful=use == "useful"))
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
        """The comparison of `answer`, with its `statements`, and `reference`."""
        filler = self._filler
        prompt = filler.prompts["reference_match"]
        blocks = [
            Block("question", question),
            Block("reference", reference),
            Block("answer", answer),
            Block(
                "statements", render_list([(item.id, item.text) for item in statements])
            ),
        ]

        def form(known_statements: KnownStatements) -> Form:
            fields = reply_schemas.match_fields(statements, reference, known_statements)
            return Form(prompt, fields)

        async def ask(known_statements: KnownStatements) -> Values:
            filler.check_room(form(known_statements), [block.text for block in blocks])
            no_contexts: list[Block] = []
            render_data = partial(
                _render_data,
                blocks,
                no_contexts,
                known_statements,
            )
            reply = await filler.completer.fill(
                form(known_statements), render_data, call
            )
            return reply_schemas.with_reference_by_id(reply)

        answer_statements = [f"{item.id}:{item.text}" for item in statements]
        content = (question, reference, answer, *answer_statements)
        reference_statements, values = await self._judge(content, form, ask, call)
        return ReferenceMatch(
            reference_statements=reference_statements,
            answer_supports=_supports(
                values, "answer_verdicts", statements, source="reference"
            ),
            reference_supports=_supports(
                values,
                reply_schemas.REFERENCE[0],
                reference_statements,
                source="answer",
            ),
        )

    async def _judge(
        self,
        content: Sequence[str],
        form: Callable[[KnownStatements], Form],
        ask: Callable[[KnownStatements], Awaitable[Values]],
        call: Call,
    ) -> tuple[tuple[Statement, ...], Values]:
        """The reference's statements, and the values of the judgement on them.

        `content` are the texts that the judgement reads: the question, the reference,
        and others. `form` and `ask` are called with None if the statements are not
        known, so that the model lists them, too.
        """
        filler = self._filler
        question_and_reference = content[:2]
        list_key = filler.keys.key("reference statements 1", question_and_reference)
        async with filler.lock(list_key):
            statements = self._listed.get(list_key)
            if not statements:
                statements = _statements_in(filler.cache.get(list_key))
            if not statements:
                values = await ask(None)
                statements = reply_schemas.listed_statements(values)
                self._listed[list_key] = statements
                filler.cache.put(list_key, {"statements": _texts(statements)})
                # Cached under the key that the next run, which knows the statements,
                # looks for.
                key = filler.keys.key(
                    form(statements).digest,
                    _content_with(content, statements),
                    repeat=call.repeat,
                )
                filler.cache.put(key, document_of(values))
                return statements, values
        values = await filler.get_or_ask(
            form(statements),
            _content_with(content, statements),
            call,
            partial(ask, statements),
        )
        return statements, values


def _content_with(content: Sequence[str], statements: Statements) -> list[str]:
    return [*content, "", *_texts(statements)]


def _statements_in(document: object) -> tuple[Statement, ...]:
    """The statements in a cache entry; none if it is not valid."""
    values = read_document(document, [reply_schemas.STATEMENT_TEXTS])
    if not values:
        return ()
    texts = value_of(values, "statements")
    return tuple(
        Statement(f"r{number}", text) for number, text in enumerate(texts, start=1)
    )


def _texts(statements: Statements) -> list[str]:
    return [item.text for item in statements]


def _supports(
    values: Values, group: str, statements: Statements, *, source: str
) -> tuple[Support, ...]:
    """The supports of `statements` by the text called `source`."""
    supports = []
    for item in statements:
        verdict = value_of(values, group, item.id)["verdict"]
        supports.append(reply_schemas.support_of(item.id, verdict, [source]))
    return tuple(supports)


def _render_data(
    blocks: Sequence[Block],
    contexts: Sequence[Block],
    known_statements: KnownStatements,
    pending: Sequence[Field],
) -> str:
    """The data of a request for the `pending` fields, with those of `known_statements`
    that they are about."""
    group = reply_schemas.REFERENCE[0]
    pending_ids = {field.path[-1] for field in pending if field.path[0] == group}
    lines = [
        (item.id, item.text)
        for item in known_statements or ()
        if item.id in pending_ids
    ]
    statement_blocks = []
    if lines:
        statement_blocks.append(Block("reference statements", render_list(lines)))
    return render_blocks([*blocks, *statement_blocks, *contexts])
