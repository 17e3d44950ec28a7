"""Does the system answer at all? A guard that applies with any judge and any policy.

An empty answer makes no claims, so it is never unfaithful; a constant one can be faithful to a constant context; and a
floor may only warn. So every finished run is checked for three things: empty answers, the same answer to everything,
and retrieval that finds almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import alike, clipped, counted, figure, most_common, percent
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import mean_of
from ragstone.gate.policy_table import DEFAULT_METRICS
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.system.response import RETRIEVAL

_HALF = 0.5
_LINES: Mapping[str, float] = {"answer_relevancy": 0.2, "answer_correctness": 0.15}
"""Of a metric without a floor: a mean that no system has whose answers are answers."""

MIN_ALIKE = 2
"""The same answer to this many questions with different references counts as one answer to everything."""
MIN_ALIKE_UNREFERENCED = 5
"""Five if there are no references: fewer questions may all be answered "Yes."."""


class Answers(Checker):
    """Of the answerable samples of a finished run, too many empty answers, or the same answer to all.

    Unanswerable samples don't count here: the same answer to each of them, or none, is right. Nor do the answers of a
    system that only retrieves: it gives none.
    """

    kinds = (CheckKind.ANSWERS,)
    policy_key = ("system", "max_empty")

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run, manifest = evidence.current, evidence.current.manifest
        asked = [sample_id for sample_id, facts in run.samples.items() if facts.answerable]
        if manifest is None or not evidence.finished or not run.system.answers:
            return
        if not asked or manifest.system.part == RETRIEVAL:
            return
        allowed, each = evidence.policy.system.max_empty, answers_per_sample(run)
        n = counted(len(asked), "answerable sample")
        empty = sum(run.system.answers.get(sample_id, ()).count("") for sample_id in asked)
        share = empty / (len(asked) * each)
        found = f"an empty answer to {empty} of {n}"
        if each > 1:
            found = f"{counted(empty, 'empty answer')} to {n}, each asked {each} times"
        status = Status.FAIL
        if share > allowed:
            reason = f"the system gave {found}, more than the {percent(allowed)} allowed."
        elif _all_alike(run, asked):
            reason = f"the system gave the same answer to each of {n}."
        else:
            status = Status.PASS
            reason = f"the system gave {found}, and not the same answer to all."
        yield Check(
            name="system.answers",
            kind=CheckKind.ANSWERS,
            status=status,
            action=Action.BLOCK,
            reason=reason,
            estimate=share,
            threshold=allowed,
            current=share,
            n=len(asked),
        )

    def found(self, check: Check) -> str:
        if check.estimate is None or check.metric is not None:
            return super().found(check)
        return f"{percent(check.estimate)} empty"

    def wanted(self, check: Check) -> str:
        if check.threshold is None or check.metric is not None:
            return super().wanted(check)
        return f"at most {percent(check.threshold)}"


class NoAnswer(Answers):
    """An error if the system under test failed on every sample of a finished run: then nothing else can be checked."""

    final = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run, failures = evidence.current, evidence.current.system.failures
        answered = any(run.system.answers.values()) or not failures.keys() >= run.samples.keys()
        if not evidence.finished or not run.samples or answered:
            return
        reasons = [failures[sample_id].rstrip(".") for sample_id in run.samples]
        often = "" if len(set(map(alike, reasons))) == 1 else ", most often"
        n = len(run.samples)
        why = f"{counted(n, 'sample')}{often}: {clipped(most_common(reasons))}"
        reason = f"the system under test failed on all of {why}."
        yield Check("system.answers", CheckKind.ANSWERS, Status.ERROR, Action.BLOCK, reason, n=n)


class Collapsed(Answers):
    """A headline metric that is shown to be below the line from which any judge is believed, whatever its action.

    That is half of its floor, in the policy or by default; for one without a floor, a line of its own.
    """

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        if not evidence.finished or not evidence.current.system.answers:
            return
        floors = {rule.metric: rule.min for rule in evidence.rules if rule.slice is None}
        for metric, default in DEFAULT_METRICS.items():
            floor = default.min if floors.get(metric) is None else floors[metric]
            line = _LINES[metric] if floor is None else _HALF * floor
            less = figure(line) if floor is None else f"half of its floor of {figure(floor)}"
            yield from _collapsed(metric, line, less, evidence)


def _collapsed(metric: str, line: float, less: str, evidence: Evidence) -> Iterator[Check]:
    run = evidence.current
    if metric not in run.metrics or not (ids := sorted(run.metrics[metric].values)):
        return
    values = [run.metrics[metric].values[sample_id] for sample_id in ids]
    found = mean_of(run, ids, values, confidence=evidence.policy.gate.confidence)
    if found.high >= line:
        return
    hint = "" if any(values) or metric != "context_recall" else " Does the entrypoint return the contexts?"
    yield Check(
        name=f"{metric}.answers",
        kind=CheckKind.ANSWERS,
        status=Status.FAIL,
        action=Action.BLOCK,
        reason=f"{metric} is {figure(found.estimate)} on {counted(found.n, 'sample')}: shown to be less than {less}, "
        f"which fails with any judge.{hint}",
        metric=metric,
        estimate=found.estimate,
        interval=Interval.of(found),
        threshold=line,
        current=found.estimate,
        n=found.n,
    )


def _all_alike(run: RunScores, asked: Sequence[str]) -> bool:
    given = [sample_id for sample_id in asked if any(run.system.answers.get(sample_id, ()))]
    answers = (answer for sample_id in given for answer in run.system.answers[sample_id])
    first = next(answers, None)
    if first is None or any(answer != first for answer in answers) or 2 * len(given) <= len(asked):
        return False
    questions = len({run.samples[sample_id].question for sample_id in given})
    references = {run.samples[sample_id].reference for sample_id in given} - {None}
    if not references:
        return questions >= MIN_ALIKE_UNREFERENCED
    return len(references) > 1 and questions >= MIN_ALIKE
