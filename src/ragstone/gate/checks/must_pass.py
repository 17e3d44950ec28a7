"""Did the samples pass that must always pass?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.formatting import counted, figure, some, threshold
from ragstone.gate.checks.checker import Checker
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import metrics_of
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.golden.sample import Bound
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS

_SAME = 1e-9
"""Scores that differ by no more are equal: 0.1 + 0.2 is at most 0.3."""
_UNKNOWN = MetricScores({})


_Wanted = Mapping[tuple[str, Direction], float]
"""What the scores of a sample must reach, as they are reported: by metric, and whether less is better."""


class MustPass(Checker):
    """One check for each must-pass sample that did not pass, and one that counts those that did.

    A sample with bounds of its own is one of them; for a metric that has both, its own count. Where every sample must
    pass, those without a score to compare are counted, and left to the check of coverage.
    """

    kinds = (CheckKind.MUST_PASS,)
    policy_key = ("must_pass",)

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        must, run = evidence.policy.must_pass, evidence.current
        asked = _asked(evidence)
        passed, left, total = 0, list[str](), len(asked)
        for sample_id, wanted in asked.items():
            status, why = _result(run, sample_id, wanted)
            if status is Status.PASS:
                passed += 1
            elif status is Status.ERROR and sample_id not in must.samples and not run.samples[sample_id].bounds:
                left.append(f"{sample_id}: {why}")
            else:
                yield self._check(evidence, status, f"must-pass sample {sample_id}: {why}.", f"{why}.", 1, sample_id)
        aside = f" Not compared: {some(left)}." if left else ""
        if passed:
            every = "its only sample" if total == 1 else f"all {total:,} samples" if not left else f"{passed:,} samples"
            short = every if passed + len(left) == total else f"the other {passed} of {total} samples"
            said = f"{passed} of {counted(total, 'must-pass sample')} passed.{aside}"
            yield self._check(evidence, Status.PASS, said, short, passed)
        elif left and len(left) == total:
            why = f"no sample has a score to compare.{aside}"
            yield self._check(evidence, Status.ERROR, f"must-pass samples: {why}", why, 0)

    def _check(
        self, evidence: Evidence, status: Status, reason: str, short: str, n: int, sample_id: str | None = None
    ) -> Check:
        return Check(
            name="must_pass" if sample_id is None else f"must_pass.{sample_id}",
            kind=CheckKind.MUST_PASS,
            status=status,
            action=evidence.policy.must_pass.action,
            reason=reason,
            short_reason=short,
            sample=sample_id,
            n=n,
        )

    def found(self, check: Check) -> str:
        return (check.short_reason or "") if check.status is Status.PASS else "failed"


def shortfalls(evidence: Evidence) -> dict[str, dict[str, float]]:
    """By how much must-pass samples miss what they must reach, by metric and sample id."""
    found: dict[str, dict[str, float]] = {}
    for sample_id, wanted in _asked(evidence).items():
        for (metric, way), required in wanted.items():
            value = evidence.current.metrics.get(metric, _UNKNOWN).values.get(sample_id)
            if value is not None and (gap := _gap(value, required, way)) > _SAME:
                found.setdefault(metric, {})[sample_id] = gap
    return found


def _gap(value: float, required: float, way: Direction) -> float:
    return value - required if way.lower_is_better else required - value


def _asked(evidence: Evidence) -> dict[str, _Wanted]:
    """The must-pass samples, those that the policy names first, and what each must reach."""
    must, samples, floors = evidence.policy.must_pass, evidence.current.samples, _floors(evidence)
    found: dict[str, _Wanted] = dict.fromkeys((*must.samples, *(samples if must.every else ())), floors)
    for sample_id, facts in samples.items():
        if facts.bounds:
            found[sample_id] = {**found.get(sample_id, {}), **_own(evidence.current, facts.bounds)}
    return found


def _floors(evidence: Evidence) -> _Wanted:
    """What the policy asks of each must-pass sample."""
    must, names = evidence.policy.must_pass, any(rule.written and rule.slice is None for rule in evidence.rules)
    needed = {
        rule.metric: must.min if must.min is not None and not rule.lower_is_better else rule.min
        for rule in evidence.rules
        if rule.slice is None
        if (rule.written or not names if must.metrics is None else {rule.metric, rule.key} & set(must.metrics))
    }
    ruled = {name for rule in evidence.rules for name in (rule.metric, rule.key)}
    needed.update({metric: must.min for metric in must.metrics or () if metric not in ruled})
    ways = dict.fromkeys(needed, HIGHER) | {rule.metric: rule.direction for rule in evidence.rules}
    return {(name, ways[name]): ways[name].shown(floor) for name, floor in needed.items() if floor is not None}


def _own(run: RunScores, bounds: Iterable[Bound]) -> _Wanted:
    """What the bounds of a sample ask of it."""
    ways = {"min": HIGHER, "max": LOWER}
    return {(metric, ways[key]): value for key, name, value in bounds for metric in metrics_of(name, run, {})}


def _result(run: RunScores, sample_id: str, wanted: _Wanted) -> tuple[Status, str]:
    """Whether the sample passed, and why not."""
    if sample_id not in run.samples:
        return Status.ERROR, "it is not in this run"
    if sample_id in run.system.failures:
        return Status.FAIL, f"the system under test failed on it: {run.system.failures[sample_id]}"
    below, unscored, excused, reached = list[str](), list[str](), list[str](), 0
    for (metric, way), required in wanted.items():
        scores = run.metrics.get(metric, _UNKNOWN)
        if sample_id in scores.failed:
            lost = scores.failed[sample_id]
            (below if lost.by == "system" else unscored).append(f"{metric} could not be scored: {lost.reason}")
        elif sample_id in scores.values:
            value = scores.values[sample_id]
            missed = _gap(value, required, way) > _SAME
            reached += not missed
            if missed:
                most = "at most " if way.lower_is_better else ""
                below.append(f"{metric} is {figure(value, required)}, required {most}{threshold(required)}")
        else:
            why = scores.not_applicable.get(sample_id, "it was not measured")
            lacking = metric not in run.metrics or why.startswith((NO_TEXTS, NO_CONTEXTS))
            (unscored if lacking else excused).append(f"{metric}: {why}")
    if below:
        return Status.FAIL, some(below)
    if unscored:
        return Status.ERROR, some(unscored)
    why = f" ({some(excused)})" if excused else ""
    return (Status.PASS, "") if reached else (Status.ERROR, f"no metric with a floor has a score for it{why}")
