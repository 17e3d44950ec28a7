"""Scores one case with one judge for one task: a number to rank by, and the judge's own yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import (
    ContextGrades,
    ContextUse,
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.metrics.answer_correctness import f1
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.system.response import Context, Response
from ragstone.tools.judging.metaeval.items import Case, EvalTask


@dataclass(frozen=True, slots=True)
class Opinion:
    """A judge's opinion of a case.

    `value` is the task's graded score in [0, 1] (for pairs and rankings). `strict` is the judge's probability that the
    whole case is good (for labels of the whole), `verdict` the decision at the judge's own threshold. For the task
    `statements`, `value` and `strict` are the number of statements.
    """

    value: float
    strict: float
    verdict: bool


@dataclass(frozen=True, slots=True)
class NoOpinion:
    """The judge gave no opinion: not applicable, or failed."""

    failed: bool
    reason: str


_METRIC = {
    EvalTask.FAITHFULNESS: METRICS["faithfulness"],
    EvalTask.ANSWER_RELEVANCY: METRICS["answer_relevancy"],
    EvalTask.CONTEXT_RELEVANCE: METRICS["context_relevance"],
    EvalTask.ANSWERABILITY: METRICS["context_relevance"],
    EvalTask.CONTEXT_USE: METRICS["context_precision"],
    EvalTask.CORRECTNESS: METRICS["answer_correctness"],
    EvalTask.COMPLETENESS: METRICS["answer_correctness"],
    EvalTask.OVERALL: METRICS["answer_correctness"],
}


async def opinion(judge: Judge, task: EvalTask, case: Case, case_id: str, ledger: Ledger) -> Opinion | NoOpinion:
    """The opinion of `judge` on `case`. Raises JudgeError if the judge fails as a whole."""
    sample = Sample(case_id, case.question, reference=case.reference)
    response = Response(case_id, case.answer, tuple(Context(text) for text in case.contexts))
    call = Call(case_id, ledger=ledger)
    if task is EvalTask.STATEMENTS:
        needs = frozenset({JudgementKind.STATEMENTS})
        return _count((await collect_judgements(judge, sample, response, needs, call)).statements)
    metric = _METRIC[task]
    judgements = await collect_judgements(judge, sample, response, metric.needs(sample), call)
    return read_opinion(task, metric, sample, response, judgements)


def _count(found: StatementList | JudgementFailure | None) -> Opinion | NoOpinion:
    if not isinstance(found, StatementList):
        return NoOpinion(found is None or not found.not_applicable, found.reason if found else "no statements")
    count = 0 if found.abstains else len(found.statements)
    return Opinion(count, count, count > 0)


def read_opinion(
    task: EvalTask, metric: Metric, sample: Sample, response: Response, judgements: Judgements
) -> Opinion | NoOpinion:
    """The opinion from `judgements`: the metric's score, refined by the judge's probabilities if it gives any."""
    score = metric.score(sample, response, judgements)
    if not isinstance(score, Scored):
        return NoOpinion(not isinstance(score, NotApplicable), score.reason)
    plain = Opinion(score.value, score.value, score.value >= _GOOD[task])
    if task is EvalTask.FAITHFULNESS and isinstance(judgements.support, SupportTable):
        supports = judgements.support.supports
        throughout = all(support.verdict is Verdict.SUPPORTED for support in supports)
        graded = judgements.support.probability is not None
        return Opinion(score.value, score.value if graded else min(map(_chance, supports)), throughout)
    if task in _SIDES and isinstance(judgements.reference_match, ReferenceMatch):
        value = _against_reference(task, judgements.reference_match)
        return Opinion(value, value, value >= _GOOD[task])
    if task is EvalTask.CONTEXT_USE and isinstance(judgements.context_use, ContextUse):
        return _usefulness(judgements.context_use)
    relevance = judgements.context_relevance
    if task is EvalTask.ANSWERABILITY and isinstance(relevance, ContextGrades) and relevance.probability is None:
        return _answerability(relevance)
    return plain


def _usefulness(found: ContextUse) -> Opinion:
    best = max(
        float(context.useful) if context.probability is None else context.probability for context in found.contexts
    )
    return Opinion(best, best, any(context.useful for context in found.contexts))


def _answerability(found: ContextGrades) -> Opinion:
    shares = [context.relevant / context.total if context.total else 0.0 for context in found.contexts]
    chances = [
        share if context.probability is None else context.probability
        for context, share in zip(found.contexts, shares, strict=True)
    ]
    best = max(chances, default=0.0)
    certain = all(context.probability is not None for context in found.contexts)
    return Opinion(best, best, best >= _GOOD[EvalTask.ANSWERABILITY] if certain else any(shares))


def _against_reference(task: EvalTask, match: ReferenceMatch) -> float:
    precision = _mean_chance(match.answer_supports) if match.answer_share is None else match.answer_share
    recall = _mean_chance(match.reference_supports) if match.reference_share is None else match.reference_share
    if task is EvalTask.CORRECTNESS:
        return precision
    return recall if task is EvalTask.COMPLETENESS else f1(precision, recall)


def _mean_chance(supports: Sequence[Support]) -> float:
    chances = [_chance(support) for support in supports]
    return sum(chances) / len(chances) if chances else 0.0


def _chance(support: Support) -> float:
    return float(support.verdict is Verdict.SUPPORTED) if support.probability is None else support.probability


_SIDES = frozenset({EvalTask.CORRECTNESS, EvalTask.COMPLETENESS, EvalTask.OVERALL})
_GOOD = {task: 1.0 if task is EvalTask.FAITHFULNESS else 0.5 for task in EvalTask}
"""The lowest score at which a case counts as good, if the judge gives no yes or no of its own."""
