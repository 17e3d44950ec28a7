"""What a judge says of labelled cases, and how well that agrees with people."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from labelled_sets import Case, EvalTask, Item, Pairwise, Pointwise

from ragstone.golden.sample import GoldenSet, Sample
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
from ragstone.tools.judging.measures import Floats, Measure, Measurement, auroc, estimate, pairwise_accuracy


def balanced_accuracy(verdicts: Floats, labels: Floats) -> float:
    """Mean of the shares of positives and of negatives that are judged correctly, in [0, 1]."""
    positive = labels > 0.5
    if positive.all() or not positive.any():
        return float("nan")
    said = verdicts > 0.5
    return float((said[positive].mean() + (~said[~positive]).mean()) / 2)


def exact(scores: Floats, labels: Floats) -> float:
    """Share of cases in which the judge's number equals people's, in [0, 1]."""
    return float(np.mean(scores == labels))


def pearson(scores: Floats, labels: Floats) -> float:
    """Pearson's correlation, in [-1, 1]; NaN if one side is constant."""
    if scores.size < 2 or np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return float("nan")
    return float(np.corrcoef(scores, labels)[0, 1])


def calibration_error(probabilities: Floats, labels: Floats, bins: int = 10) -> float:
    """Expected calibration error: mean gap between probability and share of positives, over equal-frequency bins."""
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, bins) if part.size]
    gaps = [abs(probabilities[part].mean() - labels[part].mean()) * part.size for part in parts]
    return float(sum(gaps) / probabilities.size)


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
        return NoOpinion(found is None or not found.not_applicable)
    count = 0 if found.abstains else len(found.statements)
    return Opinion(count, count, count > 0)


def read_opinion(
    task: EvalTask, metric: Metric, sample: Sample, response: Response, judgements: Judgements
) -> Opinion | NoOpinion:
    """The opinion from `judgements`: the metric's score, refined by the judge's probabilities if it gives any."""
    score = metric.score(sample, response, judgements)
    if not isinstance(score, Scored):
        return NoOpinion(not isinstance(score, NotApplicable))
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """One item and the judge's opinions: one for a pointwise item, two for a pair."""

    item: Item
    opinions: tuple[Opinion | NoOpinion, ...]

    @property
    def scored(self) -> bool:
        return all(isinstance(one, Opinion) for one in self.opinions)

    @property
    def right(self) -> bool:
        """Whether the judge decides as people did; not without an opinion, nor if it holds a pair for equally good."""
        match self.item, self.opinions:
            case Pairwise(preference=preference), (Opinion(value=first), Opinion(value=second)):
                return (second - first) * preference > 0
            case Pointwise(task=EvalTask.STATEMENTS, label=count), (Opinion(value=value),):
                return value == count
            case Pointwise(label=label), (Opinion(verdict=verdict),):
                return verdict == (label > 0.5)
        return False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The results for one task. `measures` maps a measure's name to its estimate; undefined ones are left out."""

    task: EvalTask
    kind: str
    items: int
    scored: int
    failed: int
    measures: dict[str, Measurement]


async def run_judge(judge: Judge, items: Sequence[Item], ledger: Ledger | None = None) -> list[Outcome]:
    """Outcomes of `judge` for each item, in order. Raises JudgeError if it fails as a whole."""
    calls = ledger if ledger is not None else Ledger()
    limit = asyncio.Semaphore(max(1, judge.concurrency))

    async def outcome(item: Item) -> Outcome:
        async with limit:
            return Outcome(item, await _opinions(judge, item, calls))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(item)) for item in items]
    return [task.result() for task in tasks]


def as_golden_set(items: Sequence[Item]) -> GoldenSet:
    """The questions and references of `items`, for a judge that is fitted to the golden set."""
    samples: dict[tuple[str, str | None], Sample] = {}
    for item in items:
        case = item.first if isinstance(item, Pairwise) else item.case
        key = (case.question, case.reference)
        samples.setdefault(key, Sample(item.id, case.question, reference=case.reference))
    return GoldenSet(tuple(samples.values()))


def summarise(outcomes: Iterable[Outcome]) -> tuple[TaskResult, ...]:
    """The measures of each task, in order of first appearance."""
    by_task: dict[tuple[EvalTask, str], list[Outcome]] = {}
    for outcome in outcomes:
        kind = "pairwise" if isinstance(outcome.item, Pairwise) else "pointwise"
        by_task.setdefault((outcome.item.task, kind), []).append(outcome)
    return tuple(_result(task, kind, found) for (task, kind), found in by_task.items())


def _result(task: EvalTask, kind: str, outcomes: Sequence[Outcome]) -> TaskResult:
    scored = [outcome for outcome in outcomes if outcome.scored]
    failed = sum(any(isinstance(one, NoOpinion) and one.failed for one in outcome.opinions) for outcome in outcomes)
    measures: dict[str, Measurement] = {}
    if scored:
        groups = [outcome.item.group for outcome in scored]
        rows = _pairwise_rows(scored) if kind == "pairwise" else _pointwise_rows(scored)
        for name, measure, scores, labels in rows:
            measured = estimate(measure, scores, labels, groups)
            if math.isfinite(measured.value):
                measures[name] = measured
    return TaskResult(task, kind, len(outcomes), len(scored), failed, measures)


_Rows = list[tuple[str, Measure, Floats, Floats]]


def _pointwise_rows(outcomes: Sequence[Outcome]) -> _Rows:
    labels = np.array([outcome.item.label for outcome in outcomes if isinstance(outcome.item, Pointwise)])
    opinions = [one for outcome in outcomes for one in outcome.opinions if isinstance(one, Opinion)]
    strict = np.array([one.strict for one in opinions])
    verdicts = np.array([float(one.verdict) for one in opinions])
    rows: _Rows = []
    if outcomes[0].item.task is EvalTask.STATEMENTS:
        rows.append(("exact", exact, strict, labels))
    elif set(np.unique(labels)) <= {0.0, 1.0}:
        rows += [
            ("auroc", auroc, strict, labels),
            ("balanced_accuracy", balanced_accuracy, verdicts, labels),
            ("calibration_error", calibration_error, strict, labels),
        ]
    return [*rows, ("pearson", pearson, strict, labels)]


def _pairwise_rows(outcomes: Sequence[Outcome]) -> _Rows:
    preferences = np.array([outcome.item.preference for outcome in outcomes if isinstance(outcome.item, Pairwise)])
    values = [[one.value for one in outcome.opinions if isinstance(one, Opinion)] for outcome in outcomes]
    differences = np.array([second - first for first, second in values])
    return [
        ("pairwise_accuracy", pairwise_accuracy, differences, preferences),
        ("pearson", pearson, differences, preferences),
    ]


async def _opinions(judge: Judge, item: Item, ledger: Ledger) -> tuple[Opinion | NoOpinion, ...]:
    if isinstance(item, Pointwise):
        return (await opinion(judge, item.task, item.case, item.id, ledger),)
    return (
        await opinion(judge, item.task, item.first, f"{item.id}/first", ledger),
        await opinion(judge, item.task, item.second, f"{item.id}/second", ledger),
    )
