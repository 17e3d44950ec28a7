"""Did the samples pass that must always pass?

Each answer to such a sample is compared with what it must reach. Of a system that was asked several times, the majority
decides, so that a flaky answer is no failure; a failure of the first answers is asked again before the run fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import clipped, counted, figure, some, threshold
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import same_question
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import metrics_of
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.golden.sample import Bound
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS

_SAME = 1e-9
"""Scores that differ by no more are equal: 0.1 + 0.2 is at most 0.3."""

Required = Mapping[tuple[str, Direction], float]
"""What the scores of a sample must reach, as they are reported: by metric, and whether less is better."""


@dataclass(frozen=True, slots=True)
class Result:
    """Whether a sample passed, and why not. `unsettled`: more answers could settle it."""

    status: Status
    why: str = ""
    unsettled: bool = False


class MustPass(Checker):
    """One check for each must-pass sample that did not pass, and one that counts those that did.

    A sample with bounds of its own is one of them; for a metric that has both, its own count. Where every sample must
    pass, those without a score to compare are counted, and left to the check of coverage. With ``baseline``, all
    samples that passed in every known run of the baseline are must-pass samples.
    """

    kinds = (CheckKind.MUST_PASS,)
    policy_key = ("must_pass",)

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        samples = evidence.current.samples
        required = must_pass_samples(evidence)
        named = {*evidence.policy.must_pass.ids, *(name for name, facts in samples.items() if facts.bounds)}
        passed = 0
        not_compared = list[str]()
        for name, bounds in required.items():
            result = _result(evidence, name, bounds)
            if result.status is Status.PASS:
                passed += 1
            elif result.status is Status.ERROR and name not in named:
                not_compared.append(f"{name}: {result.why}")
            else:
                yield _check(evidence, result, f"must-pass sample {name}: {result.why}.", 1, name)
        total = len(required)
        if passed or 0 < total == len(not_compared):
            aside = f" Not compared: {some(not_compared)}." if not_compared else ""
            reason = f"{passed} of {counted(total, 'must-pass sample')} passed.{aside}"
            status = Status.PASS if passed else Status.ERROR
            yield _check(evidence, Result(status, f"{passed:,} of {counted(total, 'sample')}"), reason, passed)

    def found(self, check: Check) -> str:
        if check.status is Status.PASS:
            return (check.short_reason or "").rstrip(".")
        return "failed"


def must_pass_samples(evidence: Evidence) -> dict[str, Required]:
    """The must-pass samples, those that the policy names first, and what each must reach."""
    must = evidence.policy.must_pass
    samples = evidence.current.samples
    floors = _floors(evidence)
    every = samples if must.every else ()
    passed_before = _passed_in_baseline(evidence, floors) if must.baseline else ()
    required: dict[str, Required] = dict.fromkeys((*must.ids, *every, *passed_before), floors)
    for sample_id, facts in samples.items():
        if facts.bounds:
            required[sample_id] = {**required.get(sample_id, {}), **_own(evidence.current, facts.bounds)}
    return required


def shortfalls(evidence: Evidence) -> dict[str, dict[str, float]]:
    """By how much must-pass samples miss what they must reach, by metric and sample id."""
    short: dict[str, dict[str, float]] = {}
    for sample_id, required in must_pass_samples(evidence).items():
        for (metric, _), gap in _gaps(evidence.current, sample_id, required).items():
            short.setdefault(metric, {})[sample_id] = gap
    return short


def _check(evidence: Evidence, result: Result, reason: str, n: int, sample_id: str | None = None) -> Check:
    return Check(
        name="must_pass" if sample_id is None else f"must_pass.{sample_id}",
        kind=CheckKind.MUST_PASS,
        status=result.status,
        action=evidence.policy.must_pass.action,
        reason=reason,
        short_reason=f"{result.why}.",
        sample=sample_id,
        n=n,
        unsettled=result.unsettled,
    )


def _gap(value: float, bound: float, way: Direction) -> float:
    if way.lower_is_better:
        return value - bound
    return bound - value


def _gaps(run: RunScores, sample_id: str, required: Required) -> dict[tuple[str, Direction], float]:
    """By how much the scores of a sample miss what they must reach."""
    gaps = {}
    for (metric, way), bound in required.items():
        value = run.scores_of(metric).values.get(sample_id)
        if value is not None and _gap(value, bound, way) > _SAME:
            gaps[metric, way] = _gap(value, bound, way)
    return gaps


def _passed_in_baseline(evidence: Evidence, floors: Required) -> Iterator[str]:
    """The paired samples that reached the floors in every known run of the baseline."""
    if evidence.compared is None:
        return
    baseline = evidence.compared.baseline
    for sample_id in evidence.compared.samples:
        failing, answers = _failing_answers(baseline, sample_id, floors)
        if answers and not failing and sample_id not in baseline.system.failures:
            yield sample_id


def _floors(evidence: Evidence) -> Required:
    """What the policy asks of each must-pass sample."""
    must = evidence.policy.must_pass
    whole = [rule for rule in evidence.rules if rule.slice is None]
    any_written = any(rule.written for rule in whole)
    floors: dict[tuple[str, Direction], float] = {}
    for rule in whole:
        is_selected = rule.written or not any_written
        if must.metrics is not None:
            is_selected = rule.metric in must.metrics or rule.key in must.metrics
        floor = rule.min if must.min is None or rule.lower_is_better else must.min
        if is_selected and floor is not None:
            floors[rule.metric, rule.direction] = rule.direction.shown(floor)
    with_rules = {name for rule in evidence.rules for name in (rule.metric, rule.key)}
    for metric in must.metrics or ():
        if metric not in with_rules and must.min is not None:
            floors[metric, HIGHER] = must.min
    return floors


def _own(run: RunScores, bounds: Iterable[Bound]) -> Required:
    """What the bounds of a sample ask of it."""
    ways = {"min": HIGHER, "max": LOWER}
    return {(metric, ways[key]): value for key, name, value in bounds for metric in metrics_of(name, run, {})}


def _result(evidence: Evidence, sample_id: str, required: Required) -> Result:
    run = evidence.current
    if sample_id not in run.samples:
        return Result(Status.ERROR, "it is not in this run")
    if other := _other_question(evidence, sample_id):
        return Result(Status.ERROR, other)
    each = answers_per_sample(run)
    crashed = run.system.failed_answers.get(sample_id, 0)
    if 2 * crashed > each:
        why = f"the system under test failed on it: {run.system.failures.get(sample_id, 'no answer')}"
        return Result(Status.FAIL, why, unsettled=_is_open(evidence, crashed))
    unscored, by_system = _unscored(run, sample_id, required)
    failing, answers = _failing_answers(run, sample_id, required)
    if by_system and (each == 1 or not answers):
        return Result(Status.FAIL, some(by_system), unsettled=_is_open(evidence, 1))
    if 2 * failing > answers:
        why = _misses(run, sample_id, required)
        often = f"{failing} of {answers} answers fail: " if answers > 1 else ""
        return Result(Status.FAIL, f"{often}{why}", unsettled=_is_open(evidence, failing))
    if unscored or by_system:
        return Result(Status.ERROR, some([*unscored, *by_system]))
    if answers:
        return Result(Status.PASS)
    return Result(Status.ERROR, "no metric with a floor has a score for it")


def _is_open(evidence: Evidence, failing: int) -> bool:
    """Whether the majority could still pass, if each question were asked as often as the policy allows."""
    return not evidence.current.steady and 2 * failing <= 1 + evidence.policy.gate.confirm_repeats


def _other_question(evidence: Evidence, sample_id: str) -> str:
    """Why a must-pass sample is not the one that it was; empty if it is."""
    question = evidence.current.samples[sample_id].question
    must = evidence.policy.must_pass
    expected = must.questions.get(sample_id)
    baseline = evidence.baseline
    if expected is not None:
        is_same = expected.split() == question.split()
    elif baseline is not None and sample_id in baseline.samples and sample_id in must.ids:
        expected = baseline.samples[sample_id].question
        is_same = same_question(evidence.current, baseline, sample_id)
    if expected is None or is_same:
        return ""
    asks = f"it asks “{clipped(question)}” instead of “{clipped(expected)}”"
    return f"{asks}; if that is meant, write its text in [must_pass.questions]"


def _failing_answers(run: RunScores, sample_id: str, required: Required) -> tuple[int, int]:
    """How many answers to a sample miss what they must reach in any metric, and how many have a score."""
    failing = set[int]()
    scored = set[int]()
    for (metric, way), bound in required.items():
        scores = run.scores_of(metric)
        if sample_id not in scores.values:
            continue
        for number, value in enumerate(scores.answers.get(sample_id, (scores.values[sample_id],))):
            if value is not None:
                scored.add(number)
                if _gap(value, bound, way) > _SAME:
                    failing.add(number)
    return len(failing), len(scored)


def _misses(run: RunScores, sample_id: str, required: Required) -> str:
    """What a sample misses, in words."""
    misses = []
    for metric, way in _gaps(run, sample_id, required):
        bound = required[metric, way]
        most = "at most " if way.lower_is_better else ""
        value = figure(run.metrics[metric].values[sample_id], bound)
        misses.append(f"{metric} is {value}, required {most}{threshold(bound)}")
    return some(misses)


def _unscored(run: RunScores, sample_id: str, required: Required) -> tuple[list[str], list[str]]:
    """The metrics that should have a score and don't, each with the reason, and those where the system is to blame."""
    unscored = list[str]()
    by_system = list[str]()
    for metric, _ in required:
        scores = run.scores_of(metric)
        if sample_id in scores.failed:
            failure = scores.failed[sample_id]
            reasons = by_system if failure.by == "system" else unscored
            reasons.append(f"{metric} could not be scored: {failure.reason}")
        elif sample_id not in scores.values:
            why = scores.not_applicable.get(sample_id, "it was not measured")
            if metric not in run.metrics or why.startswith((NO_TEXTS, NO_CONTEXTS)):
                unscored.append(f"{metric}: {why}")
    return unscored, by_system
