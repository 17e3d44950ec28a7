"""The LLM judge: each judgement is a form that the model fills in, usually in one chat
call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from ragstone.golden.sample import Message
from ragstone.judge.abilities import NO_EMBEDDINGS, AnswerWithContexts, Preference
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
from ragstone.judge.llm.any_json import list_or_empty
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.form_filler import (
    FormFiller,
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
    remove_hidden,
    render_blocks,
    render_list,
    render_numbered,
)

_SIMILARITIES = "similarities"


class LlmJudge:
    """One judge for all providers. Each judgement is one chat call, or several if its
    texts don't fit into one.

    A trusted baseline's judgements can be restored into `cache`.
    """

    def __init__(
        self,
        *,
        identity: JudgeIdentity,
        filler: FormFiller,
        similarity: Similarity,
        concurrency: int,
    ) -> None:
        self.identity = identity
        self.concurrency = concurrency
        self.cache = filler.cache
        self.budget = filler.completer.calls.budget
        self.observed_judge = filler.completer.observed_judge
        """What the replies so far reported about the model behind the judge."""
        self.filler = filler
        references = ReferenceJudging(filler)
        self.context_use = references.context_use
        self.reference_match = references.reference_match
        self._similarity = similarity

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report, such as that the model does not accept a parameter, or
        that texts were judged in parts."""
        return self.filler.notes

    async def statements(
        self, question: str, answer: str, *, call: Call
    ) -> StatementList:
        field = reply_schemas.answer_field(answer)
        blocks = [Block("question", question), Block("answer", answer)]
        reply = await self.filler.fill_field("statements", field, blocks, call)
        statements = [
            Statement(f"s{number}", text)
            for number, text in enumerate(reply["statements"], start=1)
        ]
        return StatementList(tuple(statements), abstains=reply["kind"] == "abstains")

    async def support(
        self,
        contexts: Contexts,
        statements: Statements,
        *,
        call: Call,
    ) -> SupportTable:
        context_texts = [context.text for context in contexts]
        named_texts = dict(named_contexts(context_texts))
        prompt = self.filler.prompts["support"]
        form = Form(prompt, reply_schemas.support_fields(statements, named_texts))
        statement_texts = {item.id: item.text for item in statements}

        async def ask(missing: Sequence[Field]) -> Values:
            missing_ids = [field.path[1] for field in missing]
            missing_statements = [
                Statement(name, statement_texts[name]) for name in missing_ids
            ]
            missing_texts = [item.text for item in missing_statements]
            parts = self.filler.split_contexts(form, contexts, missing_texts)
            is_part = len(parts) > 1
            replies = []
            for part in parts:
                fields = reply_schemas.support_fields(
                    missing_statements, texts_of(part), allow_misquotes=True
                )
                render_data = partial(
                    _render_support_data, context_blocks(part), statement_texts
                )
                reply = await self.filler.completer.fill(
                    Form(prompt, fields), render_data, call, is_part=is_part
                )
                replies.append(reply)
            return await self._ask_for_quotes(
                merging.merge_support(replies),
                missing_statements,
                named_texts,
                call,
            )

        # Each verdict is cached by itself: when one statement of an answer changes, the
        # verdicts on the others stay valid.
        field_texts = {
            field.path: statement_texts[field.path[1]] for field in form.fields
        }
        values = await self.filler.get_or_ask_each(
            form,
            field_texts,
            context_texts,
            call,
            ask,
        )
        supports = []
        for item in statements:
            verdict = value_of(values, "verdicts", item.id)
            supports.append(reply_schemas.support_of(item.id, **verdict))
        return SupportTable(tuple(supports))

    async def _ask_for_quotes(
        self,
        values: Values,
        statements: Statements,
        contexts: Mapping[str, str],
        call: Call,
    ) -> Values:
        """The verdicts in `values`; for those that quote what is in none of `contexts`,
        ask for a quote once more, in a call for quotes only.

        A verdict stays unquoted if the new quote is not in the contexts either.
        """
        unquoted: list[Statement] = []
        evidence: set[str] = set()
        for item in statements:
            verdict = value_of(values, "verdicts", item.id)
            if reply_schemas.UNQUOTED in verdict:
                unquoted.append(item)
                evidence.update(verdict["evidence"])
        if not unquoted:
            return values
        evidence_texts = {
            name: text for name, text in contexts.items() if name in evidence
        }
        fields = reply_schemas.quote_fields(unquoted, evidence_texts)
        form = Form(self.filler.prompts["quotes"], fields)
        statement_texts = {item.id: item.text for item in unquoted}
        try:
            self.filler.check_room(
                form, [*evidence_texts.values(), *statement_texts.values()]
            )
            blocks = context_blocks(list(evidence_texts.items()))
            render_data = partial(_render_support_data, blocks, statement_texts)
            quotes = await self.filler.completer.fill(form, render_data, call)
        except JudgementFailed:
            # The verdicts count without quotes, too.
            return values
        values_with_quotes = dict(values)
        for name in statement_texts:
            quote = value_of(quotes, "quotes", name)["quote"]
            if quote:
                verdict = {**value_of(values, "verdicts", name), "quote": quote}
                del verdict[reply_schemas.UNQUOTED]
                values_with_quotes["verdicts", name] = verdict
        return values_with_quotes

    async def reverse_questions(
        self, question: str, answer: str, *, n: int, call: Call
    ) -> ReverseQuestions:
        fields = tuple(
            Field(("questions", f"q{number}"), reply_schemas.check_text)
            for number in range(1, n + 1)
        )
        form = Form(self.filler.prompts["reverse_questions"], fields)
        values = await self.filler.fill_form(form, [Block("answer", answer)], call)
        questions = [str(value_of(values, *field.path)["text"]) for field in fields]
        cosines = await self._cosines(question, questions, call)
        return ReverseQuestions(tuple(questions), cosines)

    async def answer_similarity(
        self, answer: str, references: Sequence[str], *, call: Call
    ) -> AnswerSimilarity:
        if isinstance(self._similarity, LexicalSimilarity):
            reason = f"{NO_EMBEDDINGS}; set judge.embeddings"
            raise JudgementFailed(reason, not_applicable=True)
        if not references:
            return AnswerSimilarity(())
        return AnswerSimilarity(await self._cosines(answer, references, call))

    async def _cosines(self, text: str, texts: Sequence[str], call: Call) -> Cosines:
        """The cosine of `text` with each of `texts`, from the cache if it has all of
        them."""
        content = [self._similarity.label, text, *texts]
        key = self.filler.keys.key("similarity 1", content)
        async with self.filler.lock(key):
            field = Field((_SIMILARITIES,), partial(_check_cosines, count=len(texts)))
            cached_values = read_document(self.filler.cache.get(key), [field])
            if cached_values and not call.fresh:
                call.ledger.cached_calls += 1
                return cast(Cosines, cached_values[field.path])

            def store(cosines: Cosines) -> None:
                if not call.fresh:
                    self.filler.cache.put(key, {_SIMILARITIES: list(cosines)})

            return await self._similarity.cosines(
                text, texts, call=call, on_result=store
            )

    async def context_relevance(
        self, question: str, contexts: Contexts, *, call: Call
    ) -> ContextGrades:
        # The offline judge's splitter knows lists, tables and abbreviations; it is
        # imported only when needed.
        from ragstone.judge.sentences import split_sentences

        sentence_counts: dict[str, int] = {}
        blocks = [Block("question", question)]
        for name, text in named_contexts([context.text for context in contexts]):
            sentences = split_sentences(remove_hidden(text), "en")
            sentence_counts[name] = len(sentences)
            if sentences:
                blocks.append(Block(f"context {name}", render_numbered(sentences)))
        fields = reply_schemas.sentence_fields(sentence_counts)
        values: Values = {}
        if fields:
            form = Form(self.filler.prompts["context_relevance"], fields)
            values = await self.filler.fill_form(form, blocks, call)
        grades = []
        for name, count in sentence_counts.items():
            needed: Sequence[int] = ()
            if count:
                needed = value_of(values, "contexts", name)["needed"]
            grades.append(SentenceRelevance(name, relevant=len(needed), total=count))
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
        reply = await self.filler.fill_field(
            "direct_score", reply_schemas.GRADE, blocks, call
        )
        return float(reply["value"]) / 10.0

    async def direct_preference(
        self,
        quality: str,
        question: str,
        first: AnswerWithContexts,
        second: AnswerWithContexts,
        *,
        call: Call,
    ) -> Preference:
        blocks = [Block("quality", quality), Block("question", question)]
        for name, (answer, contexts) in (("first", first), ("second", second)):
            blocks.append(Block(f"{name} answer", answer))
            blocks.append(Block(f"{name} contexts", render_numbered(contexts)))
        reply = await self.filler.fill_field(
            "direct_preference", reply_schemas.BETTER, blocks, call
        )
        return Preference(reply["which"])

    async def grade(self, rubric: Rubric, texts: RubricTexts, *, call: Call) -> Grade:
        blocks = [
            Block("rubric", rubric.text),
            Block("levels", render_numbered(rubric.levels)),
        ]
        for name in ("question", "answer", "reference"):
            text: str | None = getattr(texts, name)
            if text is not None:
                blocks.append(Block(name, text))
        blocks += context_blocks(named_contexts(texts.contexts or ()))
        has_no_contexts = texts.contexts == ()
        if has_no_contexts:
            blocks.append(Block("contexts", "(none were retrieved)"))
        field = reply_schemas.level_field(len(rubric.levels))
        reply = await self.filler.fill_field(RUBRIC, field, blocks, call)
        grade = rubric.grade(reply["level"] - 1)
        return Grade(grade.value, f"{grade.note}. {reply['reason']}")

    async def entities(self, text: str, *, call: Call) -> EntityList:
        reply = await self.filler.fill_field(
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
            ("question",),
            reply_schemas.check_text,
            max_tokens=restated_tokens(question),
        )
        turns = render_list([(turn.role, turn.text) for turn in history])
        blocks = [Block("conversation", turns), Block("question", question)]
        reply = await self.filler.fill_field(STANDALONE, field, blocks, call)
        return str(reply["text"])

    async def close(self) -> None:
        """Wait a few seconds for calls in flight, so that their replies are cached,
        then close the connections and the cache."""
        try:
            await asyncio.gather(
                self.filler.completer.calls.scheduler.drain(), self._similarity.close()
            )
        finally:
            await self.filler.completer.close()
            self.filler.cache.close()


def _render_support_data(
    contexts: Sequence[Block], texts: dict[str, str], pending: Sequence[Field]
) -> str:
    """The data of a request for the `pending` fields: the contexts, and the texts of
    the statements that they are about."""
    pending_ids = [field.path[1] for field in pending]
    lines = render_list([(name, texts[name]) for name in pending_ids])
    return render_blocks([*contexts, Block("statements", lines)])


def _check_cosines(value: object, *, count: int) -> Cosines:
    """The cosines in a cache entry, if there are `count` of them. Raises ValueError."""
    cosines = list_or_empty(value)
    valid = [type(item) in (int, float) and -1 <= item <= 1 for item in cosines]
    if len(cosines) != count or not all(valid):
        raise ValueError("not the cosines of these texts")
    return tuple(map(float, cosines))
