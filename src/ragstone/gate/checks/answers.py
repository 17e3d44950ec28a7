"""Does the system answer at all? A guard that applies with any judge and any policy.

An empty answer makes no claims, so it is never unfaithful; a constant one can be
faithful to a constant context; and a floor may only warn. So every finished run is
checked for three things: empty answers, the same answer to everything, and retrieval
that finds almost nothing.
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

_HALF = 0.5
_UNFLOORED = {"answer_relevancy": 0.4, "answer_correctness": 0.3}
"""Twice a mean that no system has whose answers are answers, of metrics without a
default floor."""

MIN_ALIKE = 2
"""The same answer to this many questions with different references counts as one answer
to everything."""
MIN_ALIKE_UNREFERENCED = 5
"""Five if there are no references: fewer questions may all be answered "Yes."."""


class Answers(Checker):
    """Of the answerable samples of a finished run, too many empty answers, or the same
    answer to all.

    Unanswerable samples don't count here: the same answer to each of them, or none, is
    right. Nor do the answers of a system that only retrieves: it gives none.
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
            name: run.system.answers.get(name, ())
            for name, facts in run.samples.items()
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
        elif _all_alike(run, texts_by_sample):
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
    """An error if the system under test failed on every sample of a finished run: then
    nothing else can be checked."""

    is_final = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        failures = run.system.failures
        if run.is_unanswered and evidence.is_finished:
            n = len(run.samples)
            samples = counted(n, "sample")
            why = usual_reason(failures[sample_id] for sample_id in run.samples)
            yield Check(
                "system.answers",
                CheckKind.ANSWERS,
                Status.ERROR,
                Action.BLOCK,
                f"the system under test failed on all of {samples}: {why}.",
                n=n,
            )


class Collapsed(Answers):
    """A headline metric that is shown to be below half of its floor, in the policy or
    by default, whatever its action: no judge is believed that far."""

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        if not evidence.is_finished or not run.system.answers:
            return
        floors = {
            metric: default.min or _UNFLOORED[metric]
            for metric, default in DEFAULT_METRICS.items()
        }
        for rule in evidence.rules:
            if rule.slice is None and rule.min is not None and rule.metric in floors:
                floors[rule.metric] = rule.min
        for metric, floor in floors.items():
            measured = run.scores_of(metric)
            line = _HALF * floor
            if measured.mean is None or measured.mean >= line:
                continue
            ids = sorted(measured.values)
            scores = [measured.values[sample_id] for sample_id in ids]
            confidence = evidence.policy.gate.confidence
            mean = mean_of(run, ids, scores, confidence=confidence)
            if mean.high >= line:
                continue
            estimate = figure(mean.estimate)
            samples = counted(mean.n, "sample")
            reason = (
                f"{metric} is {estimate} on {samples}: shown to be less than "
                f"{figure(line)}, which fails with any judge."
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
                threshold=line,
                current=mean.estimate,
                n=mean.n,
            )


def _all_alike(run: RunScores, texts_by_sample: Mapping[str, Sequence[str]]) -> bool:
    """Whether one answer was given to most samples, and they are no questions that all
    have it."""
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
        return len(questions) >= MIN_ALIKE_UNREFERENCED
    return len(references) > 1 and len(questions) >= MIN_ALIKE
