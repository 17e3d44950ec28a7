"""Did the samples pass that must always pass?

Each answer to such a sample is compared with what it must reach. Of a system that was
asked several times, the majority decides, so that a flaky answer is no failure; a
failure of the first answers is asked again before the run fails.
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
"""What the scores of a sample must reach, as they are reported: by metric, and whether
less is better."""


@dataclass(frozen=True, slots=True)
class Result:
    """Whether a sample passed."""

    status: Status
    why: str = ""
    """Why it did not."""
    unsettled: bool = False
    """More answers could settle it."""


class MustPass(Checker):
    """One check for each must-pass sample that did not pass, and one that counts those
    that did.

    A sample with bounds of its own is one of them; for a metric that has both, its own
    count. Where every sample must pass, those without a score to compare are counted,
    and left to the check of coverage. With ``baseline``, all samples that passed in
    every known run of the baseline are must-pass samples.
    """

    kinds = (CheckKind.MUST_PASS,)
    policy_key = ("must_pass",)

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        samples = evidence.current.samples
        required = must_pass_samples(evidence)
        named = {
            *evidence.policy.must_pass.ids,
            *(sample_id for sample_id, facts in samples.items() if facts.bounds),
        }
        passed = 0
        not_compared: list[str] = []
        for sample_id, bounds in required.items():
            result = _result(evidence, sample_id, bounds)
            if result.status is Status.PASS:
                passed += 1
            elif result.status is Status.ERROR and sample_id not in named:
                not_compared.append(f"{sample_id}: {result.why}")
            else:
                yield _check(
                    evidence,
                    result,
                    f"must-pass sample {sample_id}: {result.why}.",
                    1,
                    sample_id,
                )
        total = len(required)
        none_compared = total > 0 and len(not_compared) == total
        if passed or none_compared:
            aside = f" Not compared: {some(not_compared)}." if not_compared else ""
            reason = f"{passed} of {counted(total, 'must-pass sample')} passed.{aside}"
            status = Status.PASS if passed else Status.ERROR
            yield _check(
                evidence,
                Result(status, f"{passed:,} of {counted(total, 'sample')}"),
                reason,
                passed,
            )

    def result(self, check: Check) -> str:
        if check.passed:
            return (check.short_reason or "").rstrip(".")
        return "failed"


def must_pass_samples(evidence: Evidence) -> dict[str, Required]:
    """The must-pass samples, those that the policy names first, and what each must
    reach."""
    rules = evidence.policy.must_pass
    run = evidence.current
    floors = _floors(evidence)
    required: dict[str, Required] = dict.fromkeys(rules.ids, floors)
    if rules.every:
        required |= dict.fromkeys(run.samples, floors)
    if rules.baseline:
        required |= dict.fromkeys(_passed_in_baseline(evidence, floors), floors)
    for sample_id, facts in run.samples.items():
        if facts.bounds:
            own = _own_bounds(run, facts.bounds)
            required[sample_id] = {**required.get(sample_id, {}), **own}
    return required


def shortfalls(evidence: Evidence) -> dict[str, dict[str, float]]:
    """By how much must-pass samples miss what they must reach, by metric and sample
    id."""
    shortfalls: dict[str, dict[str, float]] = {}
    for sample_id, required in must_pass_samples(evidence).items():
        for (metric, _), gap in _gaps(evidence.current, sample_id, required).items():
            shortfalls.setdefault(metric, {})[sample_id] = gap
    return shortfalls


def _check(
    evidence: Evidence,
    result: Result,
    reason: str,
    n: int,
    sample_id: str | None = None,
) -> Check:
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


def _gap(value: float, bound: float, direction: Direction) -> float:
    """By how much `value` misses `bound`; less than 0 if it reaches it with some to
    spare."""
    if direction.lower_is_better:
        return value - bound
    return bound - value


def _gaps(
    run: RunScores, sample_id: str, required: Required
) -> dict[tuple[str, Direction], float]:
    """By how much the scores of a sample miss what they must reach."""
    gaps = {}
    for (metric, direction), bound in required.items():
        value = run.scores_of(metric).values.get(sample_id)
        if value is None:
            continue
        gap = _gap(value, bound, direction)
        if gap > _SAME:
            gaps[metric, direction] = gap
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
    """What the policy asks of each must-pass sample: the floors of the metrics that it
    names, or else of all."""
    rules = [
        rule for rule in evidence.rules if rule.slice is None and rule.min is not None
    ]
    written = [rule for rule in rules if rule.written]
    min_of_each = evidence.policy.must_pass.min
    floors: dict[tuple[str, Direction], float] = {}
    for rule in written or rules:
        floor = rule.min or 0.0
        if min_of_each is not None and not rule.lower_is_better:
            floor = min_of_each
        floors[rule.metric, rule.direction] = rule.direction.shown(floor)
    return floors


def _own_bounds(run: RunScores, bounds: Iterable[Bound]) -> Required:
    """What the bounds of a sample ask of it."""
    directions = {"min": HIGHER, "max": LOWER}
    required: dict[tuple[str, Direction], float] = {}
    for key, name, value in bounds:
        for metric in metrics_of(name, run, {}):
            required[metric, directions[key]] = value
    return required


def _result(evidence: Evidence, sample_id: str, required: Required) -> Result:
    run = evidence.current
    if sample_id not in run.samples:
        return Result(Status.ERROR, "it is not in this run")
    edit = _edit_of_question(evidence, sample_id)
    if edit:
        return Result(Status.ERROR, edit)
    times_asked = answers_per_sample(run)
    crashes = run.system.failed_answers.get(sample_id, 0)
    if 2 * crashes > times_asked:
        why = f"the system under test failed on it: {run.system.failures.get(sample_id, 'no answer')}"
        return Result(Status.FAIL, why, unsettled=_is_open(evidence, crashes))
    unscored, by_system = _unscored(run, sample_id, required)
    failing, scored = _failing_answers(run, sample_id, required)
    if by_system and (times_asked == 1 or not scored):
        return Result(Status.FAIL, some(by_system), unsettled=_is_open(evidence, 1))
    if 2 * failing > scored:
        often = f"{failing} of {scored} answers fail: " if scored > 1 else ""
        why = f"{often}{_misses(run, sample_id, required)}"
        return Result(Status.FAIL, why, unsettled=_is_open(evidence, failing))
    if unscored or by_system:
        return Result(Status.ERROR, some([*unscored, *by_system]))
    if not scored:
        return Result(Status.ERROR, "no metric with a floor has a score for it")
    return Result(Status.PASS)


def _edit_of_question(evidence: Evidence, sample_id: str) -> str:
    """Why a must-pass sample is not the one that it was; empty if it is."""
    question = evidence.current.samples[sample_id].question
    rules = evidence.policy.must_pass
    baseline = evidence.baseline
    if sample_id in rules.questions:
        expected = rules.questions[sample_id]
        is_same = expected.split() == question.split()
    elif (
        baseline is not None
        and sample_id in baseline.samples
        and sample_id in rules.ids
    ):
        expected = baseline.samples[sample_id].question
        is_same = same_question(evidence.current, baseline, sample_id)
    else:
        return ""
    if is_same:
        return ""
    asks = f"it asks “{clipped(question)}” instead of “{clipped(expected)}”"
    return f"{asks}; if that is meant, write its text in [must_pass.questions]"


def _is_open(evidence: Evidence, failing: int) -> bool:
    """Whether the majority could still pass, if each question were asked as often as
    the policy allows."""
    return (
        not evidence.current.steady
        and 2 * failing <= 1 + evidence.policy.gate.confirm_repeats
    )


def _failing_answers(
    run: RunScores, sample_id: str, required: Required
) -> tuple[int, int]:
    """How many answers to a sample miss what they must reach in any metric, and how
    many have a score."""
    failing: set[int] = set()
    scored: set[int] = set()
    for (metric, direction), bound in required.items():
        scores = run.scores_of(metric)
        if sample_id not in scores.values:
            continue
        answers = scores.answers.get(sample_id, (scores.values[sample_id],))
        for number, value in enumerate(answers):
            if value is None:
                continue
            scored.add(number)
            if _gap(value, bound, direction) > _SAME:
                failing.add(number)
    return len(failing), len(scored)


def _misses(run: RunScores, sample_id: str, required: Required) -> str:
    """What a sample misses, in words."""
    misses = []
    for metric, direction in _gaps(run, sample_id, required):
        bound = required[metric, direction]
        value = figure(run.metrics[metric].values[sample_id], bound)
        at_most = "at most " if direction.lower_is_better else ""
        misses.append(f"{metric} is {value}, required {at_most}{threshold(bound)}")
    return some(misses)


def _unscored(
    run: RunScores, sample_id: str, required: Required
) -> tuple[list[str], list[str]]:
    """The metrics that should have a score and don't, each with the reason, and those
    where the system is to blame."""
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
