"""One judging round: the judgements that a set of metrics needs, in dependency order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from ragstone.golden.sample import Sample
from ragstone.judge.best_reference import best_match, held_most
from ragstone.judge.conversation import asked_in_full
from ragstone.judge.entities import NamesEntities
from ragstone.judge.judgements import Grade, JudgementFailure, JudgementKind, Judgements, StatementList
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.judge.similarity import NO_EMBEDDINGS, Embedding
from ragstone.system.response import Response

Measure = Callable[[Judge, Sample, Response, Call], Awaitable[Grade]]
"""Grades one answer for a custom metric. Raises JudgementFailed."""

REVERSE_QUESTIONS = 3
"""How many reverse questions answer relevancy asks for (n in the RAGAS paper, section 3)."""


async def collect_judgements(
    judge: Judge,
    sample: Sample,
    response: Response,
    needs: frozenset[JudgementKind],
    call: Call,
    *,
    previous: Response | None = None,
    custom: Mapping[str, Measure] | None = None,
) -> Judgements:
    """Ask `judge` for everything in `needs`; a judgement that fails is replaced by a JudgementFailure.

    `previous` is the previous response to the same question, if there is one to compare this one with. `custom` are the
    measures of custom metrics, by name. Support and
    matches wait for the statements; the others run concurrently. A judgement that can't apply
    (support without contexts or statements, reference match without a reference) stays None. Raises JudgeError when the
    judge can't continue. Of several references, the best one counts (`best_reference.py`).
    """
    own = judge.judge if isinstance(judge, WithEarlierAnswers) else judge
    asked = sample
    if sample.history and (needs or custom):
        try:
            asked = replace(sample, question=await asked_in_full(own, sample, call))
        except JudgementFailed as failed:
            failure = JudgementFailure(failed.reason, not_applicable=failed.not_applicable)
            kinds = needs - {JudgementKind.CUSTOM}
            return Judgements(**{str(kind): failure for kind in kinds}, custom=dict.fromkeys(custom or (), failure))  # type: ignore[arg-type]
    judging = _Round(judge, asked, response, call, previous)
    tasks: dict[JudgementKind, asyncio.Task[object]] = {}
    graded: dict[str, asyncio.Task[object]] = {}
    needs_statements = needs & {
        JudgementKind.STATEMENTS,
        JudgementKind.SUPPORT,
        JudgementKind.REFERENCE_MATCH,
        JudgementKind.PREVIOUS_MATCH,
    }
    try:
        async with asyncio.TaskGroup() as group:
            if needs_statements:
                tasks[JudgementKind.STATEMENTS] = group.create_task(judging.statement_list(needs, group, tasks))
            if JudgementKind.CONTEXT_USE in needs and response.contexts:
                tasks[JudgementKind.CONTEXT_USE] = group.create_task(judging.context_use())
            if JudgementKind.REVERSE_QUESTIONS in needs and response.answer.strip():
                tasks[JudgementKind.REVERSE_QUESTIONS] = group.create_task(judging.reverse_questions())
            if JudgementKind.CONTEXT_RELEVANCE in needs and response.contexts:
                tasks[JudgementKind.CONTEXT_RELEVANCE] = group.create_task(judging.context_relevance())
            if JudgementKind.ANSWER_SIMILARITY in needs and sample.references and response.answer.strip():
                tasks[JudgementKind.ANSWER_SIMILARITY] = group.create_task(judging.answer_similarity())
            if JudgementKind.ENTITIES in needs and sample.references:
                tasks[JudgementKind.ENTITIES] = group.create_task(judging.entities())
            if JudgementKind.PREFERENCE in needs:
                tasks[JudgementKind.PREFERENCE] = group.create_task(judging.preference(sample))
            for name, measure in (custom or {}).items():
                graded[name] = group.create_task(_outcome(measure(judge, asked, response, call)))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    found: dict[str, object] = {str(kind): task.result() for kind, task in tasks.items()}
    if asked is not sample:
        found["standalone_question"] = asked.question
    found["custom"] = {name: task.result() for name, task in graded.items()}
    return Judgements(**found)  # type: ignore[arg-type]


class _Round:
    def __init__(self, judge: Judge, sample: Sample, response: Response, call: Call, previous: Response | None) -> None:
        self._judge = judge
        self._sample = sample
        self._response = response
        self._call = call
        self._previous = previous

    async def statement_list(
        self,
        needs: frozenset[JudgementKind],
        group: asyncio.TaskGroup,
        tasks: dict[JudgementKind, asyncio.Task[object]],
    ) -> object:
        answer = self._response.answer
        if not answer.strip():
            result: object = StatementList(statements=(), abstains=True)
        else:
            result = await _outcome(self._judge.statements(self._sample.question, answer, call=self._call))
        if isinstance(result, StatementList):
            if JudgementKind.SUPPORT in needs and result.statements and self._response.contexts:
                tasks[JudgementKind.SUPPORT] = group.create_task(self._support(result))
            if JudgementKind.REFERENCE_MATCH in needs and self._sample.reference:
                best = best_match(self._sample.references, answer, partial(self._match, found=result))
                tasks[JudgementKind.REFERENCE_MATCH] = group.create_task(best)
            if JudgementKind.PREVIOUS_MATCH in needs and self._previous is not None and not result.abstains:
                before = self._previous.answer
                if before.strip() and before != answer:
                    tasks[JudgementKind.PREVIOUS_MATCH] = group.create_task(self._match(before, result))
        return result

    async def _support(self, found: StatementList) -> object:
        return await _outcome(self._judge.support(self._response.contexts, found.statements, call=self._call))

    async def _match(self, reference: str, found: StatementList) -> object:
        return await _outcome(
            self._judge.reference_match(
                self._sample.question, reference, found.statements, self._response.answer, call=self._call
            )
        )

    async def preference(self, sample: Sample) -> object:
        if not isinstance(self._judge, WithEarlierAnswers):
            return None
        asked = self._sample.question
        return await _outcome(self._judge.preference(sample, self._response, question=asked, call=self._call))

    async def entities(self) -> object:
        judge = self._own_judge
        reference = self._likely_reference()
        if reference is None or not isinstance(judge, NamesEntities):
            return None
        return await _outcome(judge.entities(reference, call=self._call))

    @property
    def _own_judge(self) -> object:
        return self._judge.judge if isinstance(self._judge, WithEarlierAnswers) else self._judge

    def _likely_reference(self) -> str | None:
        return held_most(self._sample.references, [context.text for context in self._response.contexts])

    async def answer_similarity(self) -> object:
        judge = self._own_judge
        if not isinstance(judge, Embedding):
            return JudgementFailure(NO_EMBEDDINGS, not_applicable=True)
        return await _outcome(judge.answer_similarity(self._response.answer, self._sample.references, call=self._call))

    async def context_use(self) -> object:
        return await _outcome(
            self._judge.context_use(
                self._sample.question,
                self._likely_reference(),
                self._response.answer,
                self._response.contexts,
                call=self._call,
            )
        )

    async def reverse_questions(self) -> object:
        return await _outcome(
            self._judge.reverse_questions(
                self._sample.question, self._response.answer, n=REVERSE_QUESTIONS, call=self._call
            )
        )

    async def context_relevance(self) -> object:
        return await _outcome(
            self._judge.context_relevance(self._sample.question, self._response.contexts, call=self._call)
        )


async def _outcome(judgement: Awaitable[object]) -> object:
    try:
        return await judgement
    except JudgementFailed as failure:
        return JudgementFailure(failure.reason, not_applicable=failure.not_applicable)
