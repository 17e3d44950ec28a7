"""One judging round: the judgements that a set of metrics needs, in dependency
order."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ragstone.golden.sample import Sample
from ragstone.judge.abilities import (
    NO_EMBEDDINGS,
    Embedding,
    NamesEntities,
    RatesRelevancy,
    WritesOutQuestions,
)
from ragstone.judge.citations import judge_citations
from ragstone.judge.judgements import (
    Grade,
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    StatementList,
    Support,
    Verdict,
)
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import Context, Response

Measure = Callable[[Judge, Sample, Response, Call], Awaitable[Grade]]
"""Grades one answer for a custom metric. Raises JudgementFailed."""

REVERSE_QUESTIONS = 3
"""How many reverse questions answer relevancy asks for (n in the RAGAS paper, section
3)."""


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
    """Ask `judge` for everything in `needs`; a judgement that fails is replaced by a
    JudgementFailure.

    `previous` is the previous response to the same question, if there is one to compare
    this one with. `custom` are the measures of custom metrics, by name. Support and
    matches wait for the statements; the others run concurrently. A judgement that can't
    apply (support without contexts or statements, reference match without a reference)
    stays None. Of several references, the best one counts (`best_match`). Raises
    JudgeError when the judge can't continue.
    """
    own = judge.judge if isinstance(judge, WithEarlierAnswers) else judge
    judged_sample = sample
    history = response.messages_before(sample)
    if history and (needs or custom):
        try:
            judged_sample = replace(
                sample,
                question=await asked_in_full(
                    own, replace(sample, history=history), call
                ),
            )
        except JudgementFailed as failed:
            failure = JudgementFailure(
                failed.reason, not_applicable=failed.not_applicable
            )
            kinds = needs - {JudgementKind.CUSTOM}
            return Judgements(
                **{str(kind): failure for kind in kinds},  # type: ignore[arg-type]
                custom=dict.fromkeys(custom or (), failure),
            )
    judging = _Round(own, judged_sample, response, call, previous)
    tasks: dict[JudgementKind, asyncio.Task[object]] = {}
    graded: dict[str, asyncio.Task[object]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            if needs & _FROM_STATEMENTS:
                tasks[JudgementKind.STATEMENTS] = group.create_task(
                    judging.statement_list(needs, group, tasks)
                )
            for kind, judgement in judging.independent():
                if kind in needs:
                    tasks[kind] = group.create_task(_outcome(judgement))
            if JudgementKind.PREFERENCE in needs and isinstance(
                judge, WithEarlierAnswers
            ):
                preference = partial(
                    judge.preference,
                    sample,
                    response,
                    question=judged_sample.question,
                    call=call,
                )
                tasks[JudgementKind.PREFERENCE] = group.create_task(
                    _outcome(preference)
                )
            for name, measure in (custom or {}).items():
                graded[name] = group.create_task(
                    _outcome(partial(measure, judge, judged_sample, response, call))
                )
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    judgements: dict[str, object] = {
        str(kind): task.result() for kind, task in tasks.items()
    }
    if judged_sample is not sample:
        judgements["standalone_question"] = judged_sample.question
    judgements["custom"] = {name: task.result() for name, task in graded.items()}
    return Judgements(**judgements)  # type: ignore[arg-type]


_FROM_STATEMENTS = {
    JudgementKind.STATEMENTS,
    JudgementKind.SUPPORT,
    JudgementKind.REFERENCE_MATCH,
    JudgementKind.PREVIOUS_MATCH,
}


@dataclass(frozen=True, slots=True)
class _Round:
    _judge: Judge
    _sample: Sample
    _response: Response
    _call: Call
    _previous: Response | None

    @property
    def _contexts(self) -> tuple[Context, ...]:
        """The contexts, if they have texts to judge."""
        return () if self._response.without_texts else self._response.contexts

    async def statement_list(
        self,
        needs: frozenset[JudgementKind],
        group: asyncio.TaskGroup,
        tasks: dict[JudgementKind, asyncio.Task[object]],
    ) -> object:
        """The answer's statements; starts the judgements in `needs` that wait for
        them."""
        answer, contexts, call = (
            self._response.answer,
            self._response.evidence,
            self._call,
        )
        result: object = StatementList(statements=(), abstains=True)
        if answer.strip():
            result = await _outcome(
                partial(
                    self._judge.statements, self._sample.question, answer, call=call
                )
            )
        if isinstance(result, StatementList):
            if JudgementKind.SUPPORT in needs and result.statements and contexts:
                support = partial(
                    self._judge.support, contexts, result.statements, call=call
                )
                tasks[JudgementKind.SUPPORT] = group.create_task(_outcome(support))
            if JudgementKind.REFERENCE_MATCH in needs and self._sample.reference:
                best = best_match(
                    self._sample.references,
                    answer,
                    partial(self._match, statement_list=result),
                )
                tasks[JudgementKind.REFERENCE_MATCH] = group.create_task(best)
            if (
                JudgementKind.PREVIOUS_MATCH in needs
                and self._previous is not None
                and not result.abstains
            ):
                before = self._previous.answer
                if before.strip() and before != answer:
                    tasks[JudgementKind.PREVIOUS_MATCH] = group.create_task(
                        self._match(before, result)
                    )
        return result

    def independent(
        self,
    ) -> Iterator[tuple[JudgementKind, Callable[[], Awaitable[object]]]]:
        """The judgements that apply and wait for no other one."""
        judge, question, answer, call = (
            self._judge,
            self._sample.question,
            self._response.answer,
            self._call,
        )
        contexts, references = self._contexts, self._sample.references
        if contexts:
            yield (
                JudgementKind.CONTEXT_USE,
                lambda: judge.context_use(
                    question, self._likely_reference(), answer, contexts, call=call
                ),
            )
        if answer.strip():
            yield JudgementKind.REVERSE_QUESTIONS, self._relevancy
        if contexts:
            yield (
                JudgementKind.CONTEXT_RELEVANCE,
                lambda: judge.context_relevance(question, contexts, call=call),
            )
        yield (
            JudgementKind.CITATIONS,
            lambda: judge_citations(judge, self._response, self._call),
        )
        yield JudgementKind.ANSWER_SIMILARITY, self._answer_similarity
        if references and isinstance(judge, NamesEntities):
            yield (
                JudgementKind.ENTITIES,
                lambda: judge.entities(str(self._likely_reference()), call=call),
            )

    async def _relevancy(self) -> object:
        judge, question, answer = (
            self._judge,
            self._sample.question,
            self._response.answer,
        )
        if isinstance(judge, RatesRelevancy):
            sources = self._contexts, self._sample.references
            return await judge.relevancy(question, answer, *sources, call=self._call)
        return await judge.reverse_questions(
            question, answer, n=REVERSE_QUESTIONS, call=self._call
        )

    async def _match(self, reference: str, statement_list: StatementList) -> object:
        question, answer = self._sample.question, self._response.answer
        return await _outcome(
            partial(
                self._judge.reference_match,
                question,
                reference,
                statement_list.statements,
                answer,
                call=self._call,
            )
        )

    async def _answer_similarity(self) -> object:
        if not isinstance(self._judge, Embedding):
            raise JudgementFailed(NO_EMBEDDINGS, not_applicable=True)
        references = (
            self._sample.references
            if self._sample.answerable and self._response.answer.strip()
            else ()
        )
        return await self._judge.answer_similarity(
            self._response.answer, references, call=self._call
        )

    def _likely_reference(self) -> str | None:
        return held_most(
            self._sample.references,
            [context.text for context in self._response.contexts],
        )


async def asked_in_full(judge: object, sample: Sample, call: Call) -> str:
    """The question of `sample` as it can be understood alone: written out by a judge
    that can do so.

    Otherwise the earlier question of the user is put before it: coarse, but the topic
    is there. All judgements of the sample are made with that question, so that their
    prompts are those of samples without a history. Raises JudgementFailed.
    """
    if not sample.history:
        return sample.question
    if isinstance(judge, WritesOutQuestions):
        return await judge.standalone_question(
            sample.history, sample.question, call=call
        )
    earlier = [turn.text for turn in sample.history if turn.role == "user"]
    return " ".join([*earlier[-1:], sample.question])


async def _outcome(judgement: Callable[[], Awaitable[object]]) -> object:
    try:
        return await judgement()
    except JudgementFailed as failure:
        return JudgementFailure(failure.reason, not_applicable=failure.not_applicable)


MAX_MATCHED = 3
"""How many references an answer is judged against at most."""

_WORD = re.compile(r"\w+")


def nearest_first(references: Sequence[str], answer: str) -> tuple[str, ...]:
    """`references`, that with the highest F1 of words with `answer` first; equal ones
    in their own order."""
    answer_words = _words(answer)

    def distance(reference: str) -> float:
        wanted = _words(reference)
        return (
            -2.0
            * (answer_words & wanted).total()
            / max(1, answer_words.total() + wanted.total())
        )

    return tuple(sorted(references, key=distance))


def held_most(references: Sequence[str], contexts: Sequence[str]) -> str | None:
    """The reference with the largest share of words that occur in `contexts`; of equal
    ones the first."""
    if len(references) < 2:
        return references[0] if references else None
    context_words = {word for context in contexts for word in _words(context)}

    def missing(reference: str) -> float:
        words = _words(reference)
        return sum(n for word, n in words.items() if word not in context_words) / max(
            1, words.total()
        )

    return min(references, key=missing)


async def best_match(
    references: Sequence[str], answer: str, match: Callable[[str], Awaitable[object]]
) -> ReferenceMatch | JudgementFailure | None:
    """The best of what `match` gives for the nearest references; no further ones are
    tried after a full match.

    If one of them could not be judged and none is matched in full, the whole has
    failed: that one may be the best.
    """
    best: ReferenceMatch | None = None
    failures: list[JudgementFailure] = []
    for reference in nearest_first(references, answer)[:MAX_MATCHED]:
        match_result = await match(reference)
        if isinstance(match_result, JudgementFailure):
            failures.append(match_result)
        elif isinstance(match_result, ReferenceMatch):
            if best is None or _agreement(match_result) > _agreement(best):
                best = match_result
            if all(
                support.verdict is Verdict.SUPPORTED
                for support in (
                    *match_result.answer_supports,
                    *match_result.reference_supports,
                )
            ):
                return match_result
    failed = next((failure for failure in failures if not failure.not_applicable), None)
    return failed or best or next(iter(failures), None)


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _agreement(match: ReferenceMatch) -> float:
    """Harmonic mean of the two shares, as in answer correctness."""
    precision = _share(match.answer_share, match.answer_supports)
    recall = _share(match.reference_share, match.reference_supports)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _share(graded: float | None, supports: Sequence[Support]) -> float:
    if graded is not None:
        return graded
    return sum(support.verdict is Verdict.SUPPORTED for support in supports) / max(
        1, len(supports)
    )
