"""The LLM judge: each judgement is a form that the model fills in, usually in one chat
call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from ragstone.golden.sample import Message
from ragstone.judge.abilities import NO_EMBEDDINGS, Preference, Shown
from ragstone.judge.judgements import (
    AnswerSimilarity,
    ContextGrades,
    ContextUse,
    EntityList,
    Grade,
    ReferenceMatch,
    ReverseQuestions,
    SentenceRelevance,
    Statement,
    StatementList,
    SupportTable,
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
from ragstone.judge.llm.prompts import ENTITIES, RUBRIC, STANDALONE
from ragstone.judge.llm.references import ReferenceJudging
from ragstone.judge.llm.replies import Field, Path, read_document
from ragstone.judge.llm.windows import restated_tokens
from ragstone.judge.protocol import Call, JudgeIdentity, JudgementFailed
from ragstone.judge.rubric import Rubric, RubricTexts
from ragstone.judge.similarity import Cosines, LexicalSimilarity, Similarity
from ragstone.judge.untrusted_text import Block, cleaned, fenced, listed
from ragstone.system.response import Context

_SIMILARITIES = "similarities"


class LlmJudge:
    """One judge for all providers. Each judgement is one chat call, or several if its
    texts don't fit into one.

    A trusted baseline's judgements can be restored into `cache`; `sightings` is what
    the replies so far reported about the model that wrote them.
    """

    def __init__(
        self,
        *,
        identity: JudgeIdentity,
        core: Core,
        similarity: Similarity,
        concurrency: int,
    ) -> None:
        self.identity = identity
        self.concurrency = concurrency
        self.cache = core.cache
        self.budget = core.completer.budget
        self.sightings = core.completer.sightings
        self.core = core
        self._references = ReferenceJudging(core)
        self._similarity = similarity

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report: parameters that the model does not accept, texts judged
        in parts."""
        return self.core.notes

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList:
        form = Form(
            self.core.prompts["statements"], (reply_schemas.answer_field(answer),)
        )
        values = await self.core.filled(
            form, [Block("question", question), Block("answer", answer)], call
        )
        reply = value_of(values, *reply_schemas.ANSWER)
        texts = enumerate(reply["statements"], start=1)
        statements = tuple(Statement(f"s{at}", text) for at, text in texts)
        return StatementList(statements, abstains=reply["kind"] == "abstains")

    async def support(
        self,
        contexts: Sequence[Context],
        statements: Sequence[Statement],
        *,
        call: Call,
    ) -> SupportTable:
        whole = {context_id(at): item.text for at, item in enumerate(contexts)}
        form = Form(
            self.core.prompts["support"],
            reply_schemas.support_fields(statements, whole),
        )
        texts = {item.id: item.text for item in statements}

        async def ask(missing: Sequence[Field]) -> Values:
            replies = []
            chunk = [
                Statement(name, texts[name])
                for _, name in (field.path for field in missing)
            ]
            parts = self.core.context_parts(
                form, contexts, [item.text for item in chunk]
            )
            for part in parts:
                fields = reply_schemas.support_fields(
                    chunk, texts_of(part), misquotes=True
                )
                part_form = Form(form.prompt, fields)
                data = partial(_support_data, context_blocks(part), texts)
                replies += [
                    await self.core.completer.fill(
                        part_form, data, call, part=len(parts) > 1
                    )
                ]
            return await self._quoted(merging.support(replies), chunk, whole, call)

        # By statement: when one statement of an answer changes, the verdicts on the
        # others stay valid.
        own = {field.path: texts[field.path[1]] for field in form.fields}
        values = await self.core.cached_each(
            form, own, [context.text for context in contexts], call, ask
        )
        supports = [
            reply_schemas.support_of(item.id, **value_of(values, "verdicts", item.id))
            for item in statements
        ]
        return SupportTable(tuple(supports))

    async def _quoted(
        self,
        values: dict[Path, object],
        statements: Sequence[Statement],
        contexts: Mapping[str, str],
        call: Call,
    ) -> Values:
        """`values` of support, with the quotes that were not in the contexts asked for
        once more, alone."""
        unquoted = [
            item
            for item in statements
            if reply_schemas.UNQUOTED in value_of(values, "verdicts", item.id)
        ]
        if not unquoted:
            return values
        named = [value_of(values, "verdicts", item.id)["evidence"] for item in unquoted]
        evidence = set().union(*named)
        shown = {name: text for name, text in contexts.items() if name in evidence}
        form = Form(
            self.core.prompts["quotes"], reply_schemas.quote_fields(unquoted, shown)
        )
        texts = {item.id: item.text for item in unquoted}
        try:
            self.core.check_room(form, [*shown.values(), *texts.values()])
            data = partial(_support_data, context_blocks(list(shown.items())), texts)
            quotes = await self.core.completer.fill(form, data, call)
        except JudgementFailed:
            return values
        quoted = dict(values)
        for item in unquoted:
            value = value_of(values, "verdicts", item.id)
            quote = value_of(quotes, "quotes", item.id)["quote"]
            if quote:
                value = {**value, "quote": quote}
                del value[reply_schemas.UNQUOTED]
                quoted["verdicts", item.id] = value
        return quoted

    async def context_use(
        self,
        question: str,
        reference: str | None,
        answer: str,
        contexts: Sequence[Context],
        *,
        call: Call,
    ) -> ContextUse:
        return await self._references.context_use(
            question, reference, answer, contexts, call
        )

    async def reverse_questions(
        self, question: str, answer: str, *, n: int, call: Call
    ) -> ReverseQuestions:
        fields = tuple(
            Field(("questions", f"q{number}"), reply_schemas.with_text)
            for number in range(1, n + 1)
        )
        form = Form(self.core.prompts["reverse_questions"], fields)
        values = await self.core.filled(form, [Block("answer", answer)], call)
        questions = [str(value_of(values, *field.path)["text"]) for field in fields]
        cosines = await self._compared(question, questions, call)
        return ReverseQuestions(tuple(questions), cosines)

    async def answer_similarity(
        self, answer: str, references: Sequence[str], *, call: Call
    ) -> AnswerSimilarity:
        if isinstance(self._similarity, LexicalSimilarity):
            reason = f"{NO_EMBEDDINGS}; set judge.embeddings"
            raise JudgementFailed(reason, not_applicable=True)
        if not references:
            return AnswerSimilarity(())
        return AnswerSimilarity(await self._compared(answer, references, call))

    async def _compared(self, text: str, texts: Sequence[str], call: Call) -> Cosines:
        """The similarity of `text` to each of `texts`, from the cache if it has all."""
        content = [self._similarity.label, text, *texts]
        key = self.core.keys.key("similarity 1", content)
        async with self.core.alone(key):
            field = Field((_SIMILARITIES,), partial(_cosines, count=len(texts)))
            stored = read_document(self.core.stored(key), [field])
            if stored and not call.fresh:
                call.ledger.cached_calls += 1
                return cast(Cosines, stored[field.path])

            def keep(cosines: Cosines) -> None:
                if not call.fresh:
                    self.core.store(key, {_SIMILARITIES: list(cosines)})

            return await self._similarity.similarities(
                text, texts, call=call, keep=keep
            )

    async def reference_match(
        self,
        question: str,
        reference: str,
        statements: Sequence[Statement],
        answer: str,
        *,
        call: Call,
    ) -> ReferenceMatch:
        return await self._references.reference_match(
            question, reference, statements, answer, call
        )

    async def context_relevance(
        self, question: str, contexts: Sequence[Context], *, call: Call
    ) -> ContextGrades:
        # The offline judge's splitter knows lists, tables and abbreviations; it is
        # imported only when needed.
        from ragstone.judge.sentences import split_sentences

        sentences = {
            context_id(at): split_sentences(cleaned(context.text), "en")
            for at, context in enumerate(contexts)
        }
        counts = {name: len(parts) for name, parts in sentences.items() if parts}
        if not counts:
            empty = [SentenceRelevance(name, 0, 0) for name in sentences]
            return ContextGrades(tuple(empty))
        form = Form(
            self.core.prompts["context_relevance"],
            reply_schemas.sentence_fields(counts),
        )
        blocks = [Block("question", question)]
        for name in counts:
            lines = listed(
                [(str(at), text) for at, text in enumerate(sentences[name], start=1)]
            )
            blocks.append(Block(f"context {name}", lines))
        values = await self.core.filled(form, blocks, call)
        grades = []
        for name, parts in sentences.items():
            needed = value_of(values, "contexts", name)["needed"] if parts else ()
            grades.append(SentenceRelevance(name, len(needed), len(parts)))
        return ContextGrades(tuple(grades))

    async def direct_score(
        self,
        quality: str,
        question: str,
        answer: str,
        contexts: Sequence[str],
        *,
        call: Call,
    ) -> float:
        blocks = [
            Block("quality", quality),
            Block("question", question),
            Block("answer", answer),
        ]
        for at, text in enumerate(contexts):
            blocks.append(Block(f"context {context_id(at)}", text))
        reply = await self.core.one("direct_score", reply_schemas.GRADE, blocks, call)
        return float(reply["value"]) / 10.0

    async def direct_preference(
        self, quality: str, question: str, first: Shown, second: Shown, *, call: Call
    ) -> Preference:
        blocks = [Block("quality", quality), Block("question", question)]
        for name, (answer, contexts) in (("first", first), ("second", second)):
            numbered = listed(
                [(str(at), text) for at, text in enumerate(contexts, start=1)]
            )
            blocks += [
                Block(f"{name} answer", answer),
                Block(f"{name} contexts", numbered),
            ]
        reply = await self.core.one(
            "direct_preference", reply_schemas.BETTER, blocks, call
        )
        return Preference(reply["which"])

    async def grade(self, rubric: Rubric, shown: RubricTexts, *, call: Call) -> Grade:
        levels = listed(
            [(str(at), text) for at, text in enumerate(rubric.levels, start=1)]
        )
        blocks = [Block("rubric", rubric.text), Block("levels", levels)]
        texts = (
            ("question", shown.question),
            ("answer", shown.answer),
            ("reference", shown.reference),
        )
        blocks += [Block(name, text) for name, text in texts if text is not None]
        for at, text in enumerate(shown.contexts or ()):
            blocks.append(Block(f"context {context_id(at)}", text))
        if shown.contexts == ():
            blocks.append(Block("contexts", "(none were retrieved)"))
        reply = await self.core.one(
            RUBRIC, reply_schemas.level_field(len(rubric.levels)), blocks, call
        )
        grade = rubric.grade(reply["level"] - 1)
        return Grade(grade.value, f"{grade.note}. {reply['reason']}")

    async def entities(self, text: str, *, call: Call) -> EntityList:
        reply = await self.core.one(
            ENTITIES, reply_schemas.entities_field(text), [Block("text", text)], call
        )
        return EntityList(tuple(reply["names"]))

    async def standalone_question(
        self, history: Sequence[Message], question: str, *, call: Call
    ) -> str:
        field = Field(
            ("question",), reply_schemas.with_text, tokens=restated_tokens(question)
        )
        turns = listed([(turn.role, turn.text) for turn in history])
        blocks = [Block("conversation", turns), Block("question", question)]
        return str((await self.core.one(STANDALONE, field, blocks, call))["text"])

    async def close(self) -> None:
        """Store what calls that were sent still bring within seconds, close
        connections, and the cache as one file."""
        try:
            await asyncio.gather(
                self.core.completer.scheduler.drain(), self._similarity.close()
            )
        finally:
            await self.core.completer.close()
            if self.core.cache is not None:
                self.core.cache.close()


def _support_data(
    contexts: Sequence[Block], texts: dict[str, str], pending: Sequence[Field]
) -> str:
    lines = listed([(field.path[1], texts[field.path[1]]) for field in pending])
    return fenced([*contexts, Block("statements", lines)])


def _cosines(values: object, *, count: int) -> Cosines:
    """The similarities of a cache entry. Raises ValueError."""
    cosines = values if isinstance(values, list) else []
    valid = [type(value) in (int, float) and -1 <= value <= 1 for value in cosines]
    if len(cosines) != count or not all(valid):
        raise ValueError("not similarities")
    return tuple(map(float, cosines))
