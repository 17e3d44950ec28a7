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
    EntityList,
    Grade,
    ReverseQuestions,
    SentenceRelevance,
    Statement,
    StatementList,
    Statements,
    SupportTable,
)
from ragstone.judge.llm import merging, reply_schemas
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.core import (
    Core,
    context_blocks,
    named_contexts,
    texts_of,
    value_of,
)
from ragstone.judge.llm.prompts import ENTITIES, RUBRIC, STANDALONE
from ragstone.judge.llm.references import ReferenceJudging
from ragstone.judge.llm.replies import Field, Values, read_document
from ragstone.judge.llm.windows import restated_tokens
from ragstone.judge.protocol import Call, Contexts, JudgeIdentity, JudgementFailed
from ragstone.judge.rubric import Rubric, RubricTexts
from ragstone.judge.similarity import Cosines, LexicalSimilarity, Similarity
from ragstone.judge.untrusted_text import (
    Block,
    cleaned,
    fenced,
    listed,
    numbered,
)

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
        self.budget = core.completer.calls.budget
        self.sightings = core.completer.sightings
        self.core = core
        references = ReferenceJudging(core)
        self.context_use = references.context_use
        self.reference_match = references.reference_match
        self._similarity = similarity

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report: parameters that the model does not accept, texts judged
        in parts."""
        return self.core.notes

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList:
        field = reply_schemas.answer_field(answer)
        blocks = [Block("question", question), Block("answer", answer)]
        reply = await self.core.one("statements", field, blocks, call)
        statements = []
        for at, text in enumerate(reply["statements"], start=1):
            name = f"s{at}"
            statements.append(Statement(name, text))
        return StatementList(tuple(statements), abstains=reply["kind"] == "abstains")

    async def support(
        self,
        contexts: Contexts,
        statements: Statements,
        *,
        call: Call,
    ) -> SupportTable:
        shown = [context.text for context in contexts]
        whole = dict(named_contexts(shown))
        prompt = self.core.prompts["support"]
        form = Form(prompt, reply_schemas.support_fields(statements, whole))
        texts = {item.id: item.text for item in statements}

        async def ask(missing: Sequence[Field]) -> Values:
            names = [field.path[1] for field in missing]
            chunk = [Statement(name, texts[name]) for name in names]
            chunk_texts = [item.text for item in chunk]
            parts = self.core.context_parts(form, contexts, chunk_texts)
            is_part = len(parts) > 1
            replies = []
            for part in parts:
                part_texts = texts_of(part)
                fields = reply_schemas.support_fields(chunk, part_texts, misquotes=True)
                data = partial(_support_data, context_blocks(part), texts)
                part_form = Form(prompt, fields)
                fill = self.core.completer.fill
                reply = await fill(part_form, data, call, part=is_part)
                replies.append(reply)
            return await self._quoted(
                merging.support(replies),
                chunk,
                whole,
                call,
            )

        # By statement: when one statement of an answer changes, the verdicts on the
        # others stay valid.
        own = {field.path: texts[field.path[1]] for field in form.fields}
        values = await self.core.cached_each(
            form,
            own,
            shown,
            call,
            ask,
        )
        supports = []
        for item in statements:
            verdict = value_of(values, "verdicts", item.id)
            supports.append(reply_schemas.support_of(item.id, **verdict))
        return SupportTable(tuple(supports))

    async def _quoted(
        self,
        values: Values,
        statements: Statements,
        contexts: Mapping[str, str],
        call: Call,
    ) -> Values:
        """`values` of support, with the quotes that were not in the contexts asked for
        once more, alone."""
        unquoted: list[Statement] = []
        evidence: set[str] = set()
        for item in statements:
            verdict = value_of(values, "verdicts", item.id)
            if reply_schemas.UNQUOTED in verdict:
                unquoted.append(item)
                evidence.update(verdict["evidence"])
        if not unquoted:
            return values
        shown = {name: text for name, text in contexts.items() if name in evidence}
        fields = reply_schemas.quote_fields(unquoted, shown)
        form = Form(self.core.prompts["quotes"], fields)
        texts = {item.id: item.text for item in unquoted}
        try:
            self.core.check_room(form, [*shown.values(), *texts.values()])
            data = partial(_support_data, context_blocks(list(shown.items())), texts)
            quotes = await self.core.completer.fill(form, data, call)
        except JudgementFailed:
            return values
        quoted = dict(values)
        for name in texts:
            quote = value_of(quotes, "quotes", name)["quote"]
            if quote:
                verdict = {**value_of(values, "verdicts", name), "quote": quote}
                del verdict[reply_schemas.UNQUOTED]
                quoted["verdicts", name] = verdict
        return quoted

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
            stored = read_document(self.core.cache.get(key), [field])
            if stored and not call.fresh:
                call.ledger.cached_calls += 1
                return cast(Cosines, stored[field.path])

            def keep(cosines: Cosines) -> None:
                if not call.fresh:
                    self.core.cache.put(key, {_SIMILARITIES: list(cosines)})

            return await self._similarity.similarities(
                text, texts, call=call, keep=keep
            )

    async def context_relevance(
        self, question: str, contexts: Contexts, *, call: Call
    ) -> ContextGrades:
        # The offline judge's splitter knows lists, tables and abbreviations; it is
        # imported only when needed.
        from ragstone.judge.sentences import split_sentences

        counts: dict[str, int] = {}
        blocks = [Block("question", question)]
        for name, text in named_contexts([context.text for context in contexts]):
            sentences = split_sentences(cleaned(text), "en")
            counts[name] = len(sentences)
            if sentences:
                blocks.append(Block(f"context {name}", numbered(sentences)))
        fields = reply_schemas.sentence_fields(counts)
        values: Values = {}
        if fields:
            form = Form(self.core.prompts["context_relevance"], fields)
            values = await self.core.filled(form, blocks, call)
        grades = []
        for name, count in counts.items():
            needed = value_of(values, "contexts", name)["needed"] if count else ()
            grades.append(SentenceRelevance(name, len(needed), count))
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
            *context_blocks(named_contexts(contexts)),
        ]
        reply = await self.core.one("direct_score", reply_schemas.GRADE, blocks, call)
        return float(reply["value"]) / 10.0

    async def direct_preference(
        self, quality: str, question: str, first: Shown, second: Shown, *, call: Call
    ) -> Preference:
        blocks = [Block("quality", quality), Block("question", question)]
        for name, (answer, contexts) in (("first", first), ("second", second)):
            blocks.append(Block(f"{name} answer", answer))
            blocks.append(Block(f"{name} contexts", numbered(contexts)))
        reply = await self.core.one(
            "direct_preference", reply_schemas.BETTER, blocks, call
        )
        return Preference(reply["which"])

    async def grade(self, rubric: Rubric, shown: RubricTexts, *, call: Call) -> Grade:
        blocks = [
            Block("rubric", rubric.text),
            Block("levels", numbered(rubric.levels)),
        ]
        for name in ("question", "answer", "reference"):
            text: str | None = getattr(shown, name)
            if text is not None:
                blocks.append(Block(name, text))
        blocks += context_blocks(named_contexts(shown.contexts or ()))
        if shown.contexts == ():
            blocks.append(Block("contexts", "(none were retrieved)"))
        field = reply_schemas.level_field(len(rubric.levels))
        reply = await self.core.one(RUBRIC, field, blocks, call)
        grade = rubric.grade(reply["level"] - 1)
        return Grade(grade.value, f"{grade.note}. {reply['reason']}")

    async def entities(self, text: str, *, call: Call) -> EntityList:
        reply = await self.core.one(
            ENTITIES,
            reply_schemas.entities_field(text),
            [Block("text", text)],
            call,
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
                self.core.completer.calls.scheduler.drain(), self._similarity.close()
            )
        finally:
            await self.core.completer.close()
            self.core.cache.close()


def _support_data(
    contexts: Sequence[Block], texts: dict[str, str], pending: Sequence[Field]
) -> str:
    names = [field.path[1] for field in pending]
    lines = listed([(name, texts[name]) for name in names])
    return fenced([*contexts, Block("statements", lines)])


def _cosines(values: object, *, count: int) -> Cosines:
    """The similarities of a cache entry. Raises ValueError."""
    cosines = values if isinstance(values, list) else []
    valid = [type(value) in (int, float) and -1 <= value <= 1 for value in cosines]
    if len(cosines) != count or not all(valid):
        raise ValueError("not similarities")
    return tuple(map(float, cosines))
