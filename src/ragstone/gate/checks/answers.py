"""Does the system answer at all? This is checked with any judge and any policy.

An empty answer makes no claims, so it is never unfaithful. A constant answer can be
faithful to a constant context. And floors may only warn. So every finished run is
checked for empty answers, for the same answer to everything, and for means far below
their floors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, figure, percent, usual_reason
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker, Format, limit_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.policy_table import DEFAULT_METRICS
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.system.response import RETRIEVAL

_COLLAPSED_SHARE = 0.5
"""A mean below this share of its floor has collapsed."""
_ASSUMED_FLOORS = {"answer_relevancy": 0.4, "answer_correctness": 0.3}
"""Floors of metrics without a default floor. No system that answers its questions has a
mean of half as much."""

MIN_ALIKE_QUESTIONS = 2
"""The same answer to at least this many questions with different references counts as
one answer to everything."""
MIN_ALIKE_QUESTIONS_UNREFERENCED = 5
"""Without references, one answer to at least this many questions counts as one to
everything: fewer questions may all be answered "Yes."."""


class Answers(Checker):
    """Fails if too many answers of a finished run are empty, or all are the same.

    Only answerable samples count: to the others, the same answer or none is right. A
    system that only retrieves gives no answers, so it is not checked.
    """

    kinds = (CheckKind.ANSWERS,)
    policy_key = ("system", "max_empty")
    comparison = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        is_known = evidence.is_finished and bool(run.system.answers)
        if not is_known or run.part == RETRIEVAL:
            return
        texts_by_sample = {
            sample_id: run.system.answers.get(sample_id, ())
            for sample_id, facts in run.samples.items()
            if facts.answerable
        }
        n = len(texts_by_sample)
        if n == 0:
            return
        allowed = evidence.policy.system.max_empty
        answers = n * answers_per_sample(run)
        empty = sum(texts.count("") for texts in texts_by_sample.values())
        share = empty / answers
        reason = f"{empty:,} of {answers:,} answers to answerable questions are empty"
        status = Status.FAIL
        if share > allowed:
            reason += f", more than the {percent(allowed)} allowed."
        elif _are_all_alike(run, texts_by_sample):
            questions = counted(n, "answerable question")
            reason = f"the system gave the same answer to each of {questions}."
        else:
            status = Status.PASS
            reason += ", and they are not all the same."
        yield limit_check(
            "system.answers",
            CheckKind.ANSWERS,
            status,
            reason,
            value=share,
            limit=allowed,
            n=n,
        )

    def unit(self, check: Check) -> Format | None:
        return percent if check.metric is None else None


class NoAnswer(Answers):
    """An error if the system under test failed on every sample of a finished run, so
    that nothing else can be checked."""

    is_final = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        failures = run.system.failures
        if run.is_unanswered and evidence.is_finished:
            n = len(run.samples)
            samples = counted(n, "sample")
            most_often = usual_reason(failures[sample_id] for sample_id in run.samples)
            yield Check(
                "system.answers",
                CheckKind.ANSWERS,
                Status.ERROR,
                Action.BLOCK,
                f"the system under test failed on all of {samples}: {most_often}.",
                n=n,
            )


class Collapsed(Answers):
    """Fails if a headline metric is shown to be below half of its floor, even if the
    floor only warns: no judge errs that far.

    The floor is that of the policy, else the default one.
    """

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        if not evidence.is_finished or not run.system.answers:
            return
        floors = {
            metric: default.min or _ASSUMED_FLOORS[metric]
            for metric, default in DEFAULT_METRICS.items()
        }
        for rule in evidence.rules:
            if rule.slice is None and rule.min is not None and rule.metric in floors:
                floors[rule.metric] = rule.min
        for metric, floor in floors.items():
            measured = run.scores_of(metric)
            limit = _COLLAPSED_SHARE * floor
            if measured.mean is None or measured.mean >= limit:
                continue
            ids = sorted(measured.values)
            scores = [measured.values[sample_id] for sample_id in ids]
            confidence = evidence.policy.gate.confidence
            mean = mean_of(run, ids, scores, confidence=confidence)
            if mean.high >= limit:
                continue
            estimate = figure(mean.estimate)
            samples = counted(mean.n, "sample")
            reason = (
                f"{metric} is {estimate} on {samples}: shown to be less than "
                f"{figure(limit)}, which fails with any judge."
            )
            yield Check(
                f"{metric}.answers",
                CheckKind.ANSWERS,
                Status.FAIL,
                Action.BLOCK,
                reason,
                metric,
                estimate=mean.estimate,
                interval=Interval.of(mean),
                threshold=limit,
                current=mean.estimate,
                n=mean.n,
            )


def _are_all_alike(
    run: RunScores, texts_by_sample: Mapping[str, Sequence[str]]
) -> bool:
    """Whether the system gave one and the same answer, to most samples, and it can't be
    right for all of them."""
    answered = [sample_id for sample_id, texts in texts_by_sample.items() if any(texts)]
    texts_of_answered = [texts_by_sample[sample_id] for sample_id in answered]
    answers = set().union(*texts_of_answered)
    is_most = 2 * len(answered) > len(texts_by_sample)
    if len(answers) != 1 or not is_most:
        return False
    questions = {run.samples[sample_id].question for sample_id in answered}
    references = {run.samples[sample_id].reference for sample_id in answered}
    references.discard(None)
    if not references:
        return len(questions) >= MIN_ALIKE_QUESTIONS_UNREFERENCED
    return len(references) > 1 and len(questions) >= MIN_ALIKE_QUESTIONS
