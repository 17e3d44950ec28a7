"""Did the samples pass that must always pass?

Each answer to such a sample is compared with its bounds. If the system was asked
several times, the majority decides, so that one flaky answer is no failure. If the
first answers fail, the system is asked again before the run fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import clipped, counted, figure, join_first, threshold
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker
from ragstone.gate.comparability import same_question
from ragstone.gate.direction import HIGHER, LOWER, Direction
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import metrics_of
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS

_ROUNDING = 1e-9
"""Scores that differ by no more are equal: 0.1 + 0.2 is at most 0.3."""

Bounds = Mapping[tuple[str, Direction], float]
"""What the scores of a sample must reach, by metric and direction, as reports show
them."""


class MustPass(Checker):
    """One check for each must-pass sample that did not pass, and one that counts those
    that did.

    A sample with bounds of its own is a must-pass sample, and its own bounds come
    before those of the policy. With ``every``, samples without a score are only
    counted: the check of coverage decides on them. With ``baseline``, all samples that
    passed in every known run of the baseline are must-pass samples.
    """

    kinds = (CheckKind.MUST_PASS,)
    policy_key = ("must_pass",)

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        must_pass = evidence.policy.must_pass
        bounds_by_sample = must_pass_samples(evidence)
        passed = 0
        not_compared = []
        for sample_id, bounds in bounds_by_sample.items():
            status, reason, unsettled = _decide(evidence, sample_id, bounds)
            own_bounds = evidence.current.facts_of(sample_id).bounds
            is_named = sample_id in must_pass.ids or bool(own_bounds)
            if status is Status.PASS:
                passed += 1
            elif status is Status.ERROR and not is_named:
                not_compared.append(f"{sample_id}: {reason}")
            else:
                yield Check(
                    f"must_pass.{sample_id}",
                    CheckKind.MUST_PASS,
                    status,
                    must_pass.action,
                    f"must-pass sample {sample_id}: {reason}.",
                    short_reason=f"{reason}.",
                    sample=sample_id,
                    n=1,
                    unsettled=unsettled,
                )
        total = len(bounds_by_sample)
        if passed or 0 < total == len(not_compared):
            aside = ""
            if not_compared:
                aside = f" Not compared: {join_first(not_compared)}."
            status = Status.PASS if passed else Status.ERROR
            must_pass_total = counted(total, "must-pass sample")
            samples_total = counted(total, "sample")
            yield Check(
                "must_pass",
                CheckKind.MUST_PASS,
                status,
                must_pass.action,
                f"{passed} of {must_pass_total} passed.{aside}",
                short_reason=f"{passed:,} of {samples_total}.",
                n=passed,
            )

    def result(self, check: Check) -> str:
        if check.passed:
            return (check.short_reason or "").rstrip(".")
        return "failed"


def must_pass_samples(evidence: Evidence) -> dict[str, Bounds]:
    """The bounds of each must-pass sample, by id; those that the policy names come
    first."""
    must_pass = evidence.policy.must_pass
    run = evidence.current
    rules = [
        rule for rule in evidence.rules if rule.slice is None and rule.min is not None
    ]
    # The floors of the policy count; only if it has none, those of the default rules.
    written = [rule for rule in rules if rule.written]
    floors = {}
    for rule in written or rules:
        floor = rule.min or 0.0
        # `min` replaces floors; ceilings, where lower is better, stay as they are.
        if must_pass.min is not None and not rule.lower_is_better:
            floor = must_pass.min
        direction = rule.direction
        floors[rule.metric, direction] = direction.reported(floor)
    ids = list(must_pass.ids)
    if must_pass.every:
        ids += run.samples
    if must_pass.baseline:
        baseline = evidence.compared.baseline
        baseline_failures = baseline.system.failures
        for sample_id in evidence.compared.samples:
            compared = _compare(baseline, sample_id, floors)
            has_failed = sample_id in baseline_failures
            if compared.scored and not compared.failing and not has_failed:
                ids.append(sample_id)
    bounds_by_sample: dict[str, Bounds] = dict.fromkeys(ids, floors)
    for sample_id, facts in run.samples.items():
        own_bounds = {}
        for key, name, value in facts.bounds:
            direction = HIGHER if key == "min" else LOWER
            for metric in metrics_of(name, run, {}):
                own_bounds[metric, direction] = value
        if own_bounds:
            of_policy = bounds_by_sample.get(sample_id, {})
            bounds_by_sample[sample_id] = {**of_policy, **own_bounds}
    return bounds_by_sample


def shortfalls(evidence: Evidence) -> dict[str, dict[str, float]]:
    """By how much must-pass samples miss their bounds, by sample id and metric."""
    gaps_by_sample = {}
    for sample_id, bounds in must_pass_samples(evidence).items():
        gaps = _compare(evidence.current, sample_id, bounds).gaps
        if gaps:
            gaps_by_sample[sample_id] = gaps
    return gaps_by_sample


class _Compared(Struct, frozen=True):
    """The scores of one sample, compared with its bounds."""

    gaps: dict[str, float] = {}
    """By how much its means miss their bounds, by metric."""
    misses: list[str] = []
    """A phrase on each bound that a mean misses."""
    scored: set[int] = set()
    """The indices of the answers with a score."""
    failing: set[int] = set()
    """The indices of the answers that miss the bound of any metric."""
    unscored: list[str] = []
    """The metrics that should have a score and have none, each with the reason."""
    by_system: list[str] = []
    """The metrics that have no score because of the system, each with the reason."""


def _compare(run: RunScores, sample_id: str, bounds: Bounds) -> _Compared:
    """Compare the scores of one sample in `run` with its bounds."""
    compared = _Compared()
    for (metric, direction), bound in bounds.items():
        scores = run.scores_of(metric)
        if sample_id in scores.failed:
            failure = scores.failed[sample_id]
            is_by_system = failure.by == "system"
            reasons = compared.by_system if is_by_system else compared.unscored
            reasons.append(f"{metric} could not be scored: {failure.reason}")
        elif sample_id not in scores.values:
            reason = scores.not_applicable.get(sample_id, "it was not measured")
            if metric not in run.metrics or reason.startswith((NO_TEXTS, NO_CONTEXTS)):
                compared.unscored.append(f"{metric}: {reason}")
        else:
            value = scores.values[sample_id]
            limit = threshold(bound)
            if direction.lower_is_better:
                limit = f"at most {limit}"
            answers = scores.answers.get(sample_id, (value,))
            for index, score in enumerate(answers):
                if score is not None:
                    compared.scored.add(index)
                    if -direction.reported_change(score - bound) > _ROUNDING:
                        compared.failing.add(index)
            gap = -direction.reported_change(value - bound)
            if gap > _ROUNDING:
                compared.gaps[metric] = gap
                measured = figure(value, bound)
                words = f"{metric} is {measured}, required {limit}"
                compared.misses.append(words)
    return compared


def _decide(
    evidence: Evidence, sample_id: str, bounds: Bounds
) -> tuple[Status, str, bool]:
    """Decide whether a sample passed. Return the status, why it did not pass, and
    whether more answers could settle it."""
    run = evidence.current
    if sample_id not in run.samples:
        return Status.ERROR, "it is not in this run", False
    edit = _edit_of_question(evidence, sample_id)
    if edit:
        return Status.ERROR, edit, False
    # Asked as often as the policy allows, the majority of the answers could still pass.
    most_asked = 0 if run.steady else 1 + evidence.policy.gate.confirm_repeats
    times_asked = answers_per_sample(run)
    crashes = run.system.failed_answers.get(sample_id, 0)
    if 2 * crashes > times_asked:
        failure = run.system.failures.get(sample_id, "no answer")
        reason = f"the system under test failed on it: {failure}"
        return Status.FAIL, reason, 2 * crashes <= most_asked
    compared = _compare(run, sample_id, bounds)
    failing = len(compared.failing)
    scored = len(compared.scored)
    if compared.by_system and (times_asked == 1 or not scored):
        return Status.FAIL, join_first(compared.by_system), most_asked > 1
    if 2 * failing > scored:
        majority = ""
        if scored > 1:
            majority = f"{failing} of {scored} answers fail: "
        reason = f"{majority}{join_first(compared.misses)}"
        return Status.FAIL, reason, 2 * failing <= most_asked
    unscored = [*compared.unscored, *compared.by_system]
    if unscored:
        return Status.ERROR, join_first(unscored), False
    if not scored:
        return Status.ERROR, "no metric with a floor has a score for it", False
    return Status.PASS, "", False


def _edit_of_question(evidence: Evidence, sample_id: str) -> str:
    """A clause on a must-pass sample that asks another question than the policy or the
    baseline has under its id; empty if it asks the same."""
    question = evidence.current.samples[sample_id].question
    must_pass = evidence.policy.must_pass
    baseline = evidence.baseline
    is_same = True
    if sample_id in must_pass.questions:
        expected = must_pass.questions[sample_id]
        is_same = expected.split() == question.split()
    elif sample_id in must_pass.samples and sample_id in baseline.samples:
        expected = baseline.samples[sample_id].question
        is_same = same_question(evidence.current, baseline, sample_id)
    if is_same:
        return ""
    asked_text = clipped(question)
    expected_text = clipped(expected)
    asks = f"it asks “{asked_text}” instead of “{expected_text}”"
    return f"{asks}; if that is meant, write its text in [must_pass.questions]"
