"""Collects the judgements of an answer that a set of metrics needs, each after those
that it depends on."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from msgspec import Struct

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
    Statements,
    Support,
    Verdict,
)
from ragstone.judge.preference import WithEarlierAnswers
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import Response

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
    custom: Mapping[str, Measure] = MappingProxyType({}),
) -> Judgements:
    """The judgements of `response` in `needs`, and the grades by `custom`; one that
    fails is a JudgementFailure.

    `previous` is the previous response to the same question, if this one is to be
    compared with it. `custom` are the measures of custom metrics, by name. Support and
    matches wait for the statements; the others are made concurrently. A judgement that
    can't apply (support without contexts or statements, reference match without a
    reference) is None. Of several references, the best one counts (`best_match`).
    Raises JudgeError when the judge can't continue.
    """
    judge_alone = judge.judge if isinstance(judge, WithEarlierAnswers) else judge
    judged_sample = sample
    history = response.messages_before(sample)
    if history and (needs or custom):
        sample_with_history = replace(sample, history=history)
        question = await _result_or_failure(
            partial(standalone_question, judge_alone, sample_with_history, call)
        )
        if isinstance(question, JudgementFailure):
            return _fail_all(question, needs, custom)
        judged_sample = replace(sample, question=str(question))
    judging = _Round(
        judge_alone,
        judged_sample,
        response,
        call,
        previous,
    )
    grades: dict[str, asyncio.Task[object]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            # First, because others wait for them.
            if needs & NEEDING_STATEMENTS:
                judging.start(group, JudgementKind.STATEMENTS)
            # In an order that doesn't change from process to process.
            for kind in sorted(needs - _STARTED_SEPARATELY):
                judging.start(group, kind)
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
                judging.tasks[JudgementKind.PREFERENCE] = group.create_task(
                    _result_or_failure(preference)
                )
            for name, measure in custom.items():
                grade = partial(
                    measure,
                    judge,
                    judged_sample,
                    response,
                    call,
                )
                grades[name] = group.create_task(_result_or_failure(grade))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    judgements = _results(judging.tasks)
    judgements["custom"] = _results(grades)
    if judged_sample is not sample:
        judgements["standalone_question"] = judged_sample.question
    return Judgements(**judgements)  # type: ignore[arg-type]


def _fail_all(
    failure: JudgementFailure,
    needs: frozenset[JudgementKind],
    custom: Mapping[str, Measure],
) -> Judgements:
    """Judgements in which `failure` takes the place of each that was requested."""
    kinds = map(str, needs - {JudgementKind.CUSTOM})
    return Judgements(
        **dict.fromkeys(kinds, failure),  # type: ignore[arg-type]
        custom=dict.fromkeys(custom, failure),
    )


def _results(tasks: Mapping[str, asyncio.Task[object]]) -> dict[str, object]:
    return {str(name): task.result() for name, task in tasks.items()}


_MADE_FROM_STATEMENTS = {
    JudgementKind.SUPPORT,
    JudgementKind.REFERENCE_MATCH,
    JudgementKind.PREVIOUS_MATCH,
}
NEEDING_STATEMENTS = {JudgementKind.STATEMENTS, *_MADE_FROM_STATEMENTS}
_STARTED_SEPARATELY = {
    JudgementKind.STATEMENTS,
    JudgementKind.PREFERENCE,
    JudgementKind.CUSTOM,
}


class _Round(Struct):
    """The judgements of one response, each made in a task."""

    judge: Judge
    sample: Sample
    response: Response
    call: Call
    previous: Response | None
    tasks: dict[str, asyncio.Task[object]] = {}
    """The judgements that were started, by kind."""

    def start(self, group: asyncio.TaskGroup, kind: JudgementKind) -> None:
        """Make the judgement of this kind in a task of `group`."""
        judgement = partial(self.judge_kind, kind)
        self.tasks[kind] = group.create_task(_result_or_failure(judgement))

    async def judge_kind(self, kind: JudgementKind) -> object:
        """The judgement of this kind; None if it can't apply.

        Support and matches wait for the statements. Raises JudgementFailed.
        """
        judge = self.judge
        sample = self.sample
        call = self.call
        question = sample.question
        references = sample.references
        response = self.response
        answer = response.answer
        contexts = () if response.lacks_texts else response.contexts
        statement_list = StatementList(statements=(), abstains=True)
        if kind in _MADE_FROM_STATEMENTS:
            result = await self.tasks[JudgementKind.STATEMENTS]
            if not isinstance(result, StatementList):
                return None
            statement_list = result
        statements = statement_list.statements
        abstains = statement_list.abstains
        match kind:
            case JudgementKind.STATEMENTS if answer.strip():
                return await judge.statements(question, answer, call=call)
            case JudgementKind.STATEMENTS:
                # An empty answer abstains.
                return statement_list
            case JudgementKind.SUPPORT if statements and response.evidence:
                return await judge.support(response.evidence, statements, call=call)
            case JudgementKind.REFERENCE_MATCH if sample.reference:
                compare = partial(self._compare, statements)
                return await best_match(references, answer, compare)
            case JudgementKind.PREVIOUS_MATCH if self.previous and not abstains:
                previous_answer = self.previous.answer
                if previous_answer.strip() and previous_answer != answer:
                    return await self._compare(statements, previous_answer)
            case JudgementKind.CONTEXT_USE if contexts:
                return await judge.context_use(
                    question,
                    self._best_covered_reference(),
                    answer,
                    contexts,
                    call=call,
                )
            case JudgementKind.REVERSE_QUESTIONS if answer.strip():
                if isinstance(judge, RatesRelevancy):
                    return await judge.relevancy(
                        question,
                        answer,
                        contexts,
                        references,
                        call=call,
                    )
                return await judge.reverse_questions(
                    question, answer, n=REVERSE_QUESTIONS, call=call
                )
            case JudgementKind.CONTEXT_RELEVANCE if contexts:
                return await judge.context_relevance(question, contexts, call=call)
            case JudgementKind.CITATIONS:
                return await judge_citations(judge, response, call)
            case JudgementKind.ANSWER_SIMILARITY:
                if not isinstance(judge, Embedding):
                    raise JudgementFailed(NO_EMBEDDINGS, not_applicable=True)
                # An answer to an unanswerable question has nothing to be compared with.
                is_comparable = sample.answerable and answer.strip()
                compared = references if is_comparable else ()
                return await judge.answer_similarity(answer, compared, call=call)
            case JudgementKind.ENTITIES if isinstance(judge, NamesEntities):
                reference = self._best_covered_reference()
                if reference is not None:
                    return await judge.entities(reference, call=call)
        return None

    async def _compare(self, statements: Statements, reference: str) -> object:
        """The comparison of the answer, with its `statements`, and `reference`, or the
        JudgementFailure."""
        match = partial(
            self.judge.reference_match,
            self.sample.question,
            reference,
            statements,
            self.response.answer,
            call=self.call,
        )
        return await _result_or_failure(match)

    def _best_covered_reference(self) -> str | None:
        contexts = [context.text for context in self.response.contexts]
        return best_covered(self.sample.references, contexts)


async def standalone_question(judge: object, sample: Sample, call: Call) -> str:
    """The question of `sample` so that it can be understood without the conversation.

    A judge that can do so writes it out. Otherwise the last question of the user before
    it is put in front, which at least names the topic. All judgements of the sample are
    made with that question, so that they need no history. Raises JudgementFailed.
    """
    if isinstance(judge, WritesOutQuestions):
        return await judge.standalone_question(
            sample.history, sample.question, call=call
        )
    earlier_questions = [turn.text for turn in sample.history if turn.role == "user"]
    return " ".join([*earlier_questions[-1:], sample.question])


async def _result_or_failure(judgement: Callable[[], Awaitable[object]]) -> object:
    """The result of a judgement, or the JudgementFailure that takes its place."""
    try:
        return await judgement()
    except JudgementFailed as failure:
        return JudgementFailure(failure.reason, not_applicable=failure.not_applicable)


MAX_MATCHED = 3
"""How many references an answer is compared with at most."""

_WORD = re.compile(r"\w+")


def _most_similar_first(references: Sequence[str], answer: str) -> list[str]:
    """`references` by the F1 of their words with those of `answer`, the highest first;
    equal ones in their own order."""
    answer_words = _words(answer)

    def negative_f1(reference: str) -> float:
        reference_words = _words(reference)
        shared = (answer_words & reference_words).total()
        total = answer_words.total() + reference_words.total()
        return -2.0 * shared / max(1, total)

    return sorted(references, key=negative_f1)


def best_covered(references: Sequence[str], contexts: Sequence[str]) -> str | None:
    """The reference with the largest share of words that occur in `contexts`; of equal
    ones the first. None if there are no references."""
    if len(references) < 2:
        return next(iter(references), None)
    context_words = _words(" ".join(contexts)).keys()

    def share_missing(reference: str) -> float:
        words = _words(reference)
        covered = sum(words[word] for word in words.keys() & context_words)
        return (words.total() - covered) / max(1, words.total())

    return min(references, key=share_missing)


async def best_match(
    references: Sequence[str], answer: str, compare: Callable[[str], Awaitable[object]]
) -> ReferenceMatch | JudgementFailure | None:
    """The best result of `compare` for the references most similar to `answer`, up to
    the first that matches in full. None if there are no references.

    If a comparison fails and no other matches in full, the failure is returned: that
    reference may be the best.
    """
    best: ReferenceMatch | None = None
    not_applicable: JudgementFailure | None = None
    failure: JudgementFailure | None = None
    for reference in _most_similar_first(references, answer)[:MAX_MATCHED]:
        result = await compare(reference)
        match result:
            case ReferenceMatch():
                supports = (*result.answer_supports, *result.reference_supports)
                verdicts = {support.verdict for support in supports}
                if verdicts <= {Verdict.SUPPORTED}:
                    return result
                best = max(best or result, result, key=_agreement)
            case JudgementFailure(not_applicable=True):
                not_applicable = not_applicable or result
            case JudgementFailure():
                failure = failure or result
    return failure or best or not_applicable


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _agreement(match: ReferenceMatch) -> float:
    """The harmonic mean of the two shares, as in answer correctness."""
    precision = _share(match.answer_share, match.answer_supports)
    recall = _share(match.reference_share, match.reference_supports)
    if not precision + recall:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def _share(judged_share: float | None, supports: Sequence[Support]) -> float:
    """The judge's own share, else the share of the supported statements."""
    if judged_share is not None:
        return judged_share
    supported = sum(support.verdict is Verdict.SUPPORTED for support in supports)
    return supported / max(1, len(supports))
