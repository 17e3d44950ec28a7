"""Scores one case with one judge for one task: a number to rank by, and the judge's own yes or no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

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
from ragstone.tools.judging.metaeval.load import Case, EvalTask

Floats = NDArray[np.float64]
Measure = Callable[[Floats, Floats], float]

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure with its 95 % percentile-bootstrap interval; `low` and `high` are None if it has none."""

    value: float
    low: float | None
    high: float | None


def auroc(scores: Floats, labels: Floats) -> float:
    """Probability that a random positive scores above a random negative, ties counting half, in [0, 1].

    Mann-Whitney U ÷ (n₁ n₀). NaN without both classes.
    """
    positive = labels > 0.5
    n1 = int(positive.sum())
    n0 = positive.size - n1
    if not n1 or not n0:
        return float("nan")
    ranks = stats.rankdata(scores)
    return float((ranks[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def balanced_accuracy(verdicts: Floats, labels: Floats) -> float:
    """Mean of the shares of positives and of negatives that are judged correctly, in [0, 1]."""
    positive = labels > 0.5
    if positive.all() or not positive.any():
        return float("nan")
    said = verdicts > 0.5
    return float((said[positive].mean() + (~said[~positive]).mean()) / 2)


def f1_score(verdicts: Floats, labels: Floats) -> float:
    """F1 of the positive class, in [0, 1]; 0 if nothing is judged positive."""
    said, positive = verdicts > 0.5, labels > 0.5
    both = int((said & positive).sum())
    total = int(said.sum() + positive.sum())
    return 2 * both / total if total else float("nan")


def exact(scores: Floats, labels: Floats) -> float:
    """Share of cases in which the judge's number equals people's, in [0, 1]."""
    return float(np.mean(scores == labels))


def pearson(scores: Floats, labels: Floats) -> float:
    """Pearson's correlation, in [-1, 1]; NaN if one side is constant."""
    if scores.size < 2 or np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return float("nan")
    return float(np.corrcoef(scores, labels)[0, 1])


def spearman(scores: Floats, labels: Floats) -> float:
    """Pearson's correlation of the ranks, ties sharing their mean rank, in [-1, 1]."""
    return pearson(stats.rankdata(scores), stats.rankdata(labels))


def pairwise_accuracy(differences: Floats, preferences: Floats) -> float:
    """Share of pairs in which the judge's difference has the sign of people's preference; a judge's tie counts half.
    Pairs without a human preference are left out.
    """
    decided = preferences != 0
    if not decided.any():
        return float("nan")
    agreement = np.sign(differences[decided]) * np.sign(preferences[decided])
    return float(np.mean((agreement + 1) / 2))


def brier(probabilities: Floats, labels: Floats) -> float:
    """Mean squared difference of probability and label (Brier 1950); 0 is best."""
    return float(np.mean((probabilities - labels) ** 2))


def calibration_error(probabilities: Floats, labels: Floats, bins: int = 10) -> float:
    """Expected calibration error: mean gap between probability and share of positives, over equal-frequency bins."""
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, bins) if part.size]
    gaps = [abs(probabilities[part].mean() - labels[part].mean()) * part.size for part in parts]
    return float(sum(gaps) / probabilities.size)


def estimate(measure: Measure, scores: Floats, labels: Floats, groups: Sequence[str], *, seed: int = 0) -> Measured:
    """`measure` of all rows, with an interval from resampling whole groups (Field & Welsh 2007)."""
    value = measure(scores, labels)
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if names.size < 2 or not np.isfinite(value):
        return Measured(value, None, None)
    order = np.argsort(members, kind="stable")
    starts = np.searchsorted(members[order], np.arange(names.size + 1))
    rows = [order[starts[group] : starts[group + 1]] for group in range(names.size)]
    random = np.random.default_rng(seed)
    draws = []
    for _ in range(RESAMPLES):
        picked = np.concatenate([rows[group] for group in random.integers(0, names.size, names.size)])
        draws.append(measure(scores[picked], labels[picked]))
    finite = np.asarray([draw for draw in draws if np.isfinite(draw)])
    if finite.size < RESAMPLES // 2:
        return Measured(value, None, None)
    low, high = np.quantile(finite, [0.025, 0.975])
    return Measured(value, float(low), float(high))


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
        whole = judgements.support.all_supported
        return Opinion(score.value, min(one.chance for one in supports) if whole is None else whole, throughout)
    if task in _SIDES and isinstance(judgements.reference_match, ReferenceMatch):
        value = _against_reference(task, judgements.reference_match)
        return Opinion(value, value, value >= _GOOD[task])
    if task is EvalTask.CONTEXT_USE and isinstance(judgements.context_use, ContextUse):
        return _usefulness(judgements.context_use)
    relevance = judgements.context_relevance
    if task is EvalTask.ANSWERABILITY and isinstance(relevance, ContextGrades):
        found = _answerability(relevance)
        return found if relevance.probability is None else replace(plain, verdict=found.verdict)
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
    chances = [support.chance for support in supports]
    return sum(chances) / len(chances) if chances else 0.0


_SIDES = frozenset({EvalTask.CORRECTNESS, EvalTask.COMPLETENESS, EvalTask.OVERALL})
_GOOD = {task: 1.0 if task is EvalTask.FAITHFULNESS else 0.5 for task in EvalTask}
"""The lowest score at which a case counts as good, if the judge gives no yes or no of its own."""
