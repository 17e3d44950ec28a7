"""Checks of this run alone: coverage, must-pass samples, errors of the system under test.

They are facts, compared as they are. What depends on which samples were drawn, and so gets an interval, is in
`system_limits.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from ragstone.formatting import clipped, counted, figure, most_common, percent, some, threshold
from ragstone.gate.direction import HIGHER, LOWER
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, Check, CheckKind, Interval, Status
from ragstone.metrics.registry import is_relative
from ragstone.metrics.score import FAILED_BY, Failed
from ragstone.run.scores import MetricScores, RunScores
from ragstone.stats.intervals import mean_interval
from ragstone.stats.proportion import proportion_interval

_NO_SCORES = MetricScores(values={})


def coverage_checks(run: RunScores, rules: Sequence[Rule], policy: Policy) -> Iterator[Check]:
    """One check per metric and slice: do enough of the samples it applies to have a score?

    A metric of the default rules that applies to no sample gets no check.
    """
    done: set[tuple[str, str | None]] = set()
    for rule in rules:
        key = (rule.metric, rule.slice)
        if key in done:
            continue
        done.add(key)
        scores = run.metrics.get(rule.metric, _NO_SCORES)
        values = _within(scores.values, rule.samples)
        failed = _within(scores.failed, rule.samples)
        if not values and not failed:
            if rule.written and not (is_relative(rule.metric) and rule.metric in run.metrics):
                yield _nothing_scored(rule, scores, measured=rule.metric in run.metrics)
        elif rule.slice is None or not values:
            yield _coverage(rule, len(values), [scores.failed[i] for i in failed], policy.gate.min_coverage)


def _within(by_id: Mapping[str, object], samples: Collection[str] | None) -> list[str]:
    if samples is None:
        return list(by_id)
    fewer, more = (by_id, samples) if len(by_id) < len(samples) else (samples, by_id)
    return [sample_id for sample_id in fewer if sample_id in more]


def _coverage(rule: Rule, scored: int, failed: list[Failed], minimum: float) -> Check:
    n = scored + len(failed)
    covered = scored / n
    enough = covered >= minimum and scored > 0
    if not failed:
        reason = (
            f"all {n:,} samples it applies to have a score." if n != 1 else "the only sample it applies to has a score."
        )
    else:
        reason = (
            f"{len(failed)} of {counted(n, 'sample')} have no score ({_causes(failed)}): "
            f"coverage {percent(covered)}, required {percent(minimum)}."
        )
    return Check(
        name=_name(rule, CheckKind.COVERAGE),
        kind=CheckKind.COVERAGE,
        status=Status.PASS if enough else Status.ERROR,
        action=rule.action,
        reason=f"{rule.title}: {reason}",
        short_reason=reason,
        metric=rule.metric,
        slice=rule.slice,
        estimate=covered,
        threshold=minimum,
        current=covered,
        n=n,
    )


def _causes(failed: list[Failed]) -> str:
    parts = []
    for by, words in FAILED_BY.items():
        reasons = [one.reason for one in failed if one.by == by]
        if reasons:
            parts.append(f"{words} failed on {len(reasons)}: {clipped(most_common(reasons).rstrip('.'))}")
    return "; ".join(parts)


def _nothing_scored(rule: Rule, scores: MetricScores, *, measured: bool) -> Check:
    if not measured:
        reason = "the policy names it, but this run did not measure it."
    else:
        excused = [scores.not_applicable[i] for i in _within(scores.not_applicable, rule.samples)]
        why = f", most often because {most_common(excused)}" if excused else ""
        reason = f"the policy names it, but no sample has a score{why}."
    return Check(
        name=_name(rule, CheckKind.COVERAGE),
        kind=CheckKind.COVERAGE,
        status=Status.ERROR,
        action=rule.action,
        reason=f"{rule.title}: {reason}",
        short_reason=reason,
        metric=rule.metric,
        slice=rule.slice,
    )


def _name(rule: Rule, kind: CheckKind) -> str:
    base = f"{rule.metric}.{kind.value}"
    return base if rule.slice is None else f"{rule.slice}/{base}"


def must_pass_checks(run: RunScores, rules: Sequence[Rule], policy: Policy) -> Iterator[Check]:
    """One check for each must-pass sample that did not pass, and one that counts those that did."""
    must = policy.must_pass
    lower = {rule.metric for rule in rules if rule.lower_is_better}
    needed = {
        rule.metric: must.min if must.min is not None and not rule.lower_is_better else rule.min
        for rule in rules
        if rule.slice is None and (must.metrics is None or {rule.metric, rule.key} & set(must.metrics))
    }
    ruled = {name for rule in rules for name in (rule.metric, rule.key)}
    needed.update({metric: must.min for metric in must.metrics or () if metric not in ruled})
    floors = {metric: floor for metric, floor in needed.items() if floor is not None}
    passed = 0
    for sample_id in dict.fromkeys(must.samples):
        status, why = _must_pass(run, sample_id, floors, lower)
        if status is Status.PASS:
            passed += 1
            continue
        yield Check(
            name=f"must_pass.{sample_id}",
            kind=CheckKind.MUST_PASS,
            status=status,
            action=must.action,
            reason=f"must-pass sample {sample_id}: {why}.",
            short_reason=f"{why}.",
            sample=sample_id,
            n=1,
        )
    if passed:
        total = len(set(must.samples))
        every = f"all {total:,} samples" if total > 1 else "its only sample"
        which = every if passed == total else f"the other {passed} of {total} samples"
        yield Check(
            name="must_pass",
            kind=CheckKind.MUST_PASS,
            status=Status.PASS,
            action=must.action,
            reason=f"{passed} of {counted(total, 'must-pass sample')} passed.",
            short_reason=which,
            n=passed,
        )


def _must_pass(
    run: RunScores, sample_id: str, floors: Mapping[str, float], lower: Collection[str]
) -> tuple[Status, str]:
    if sample_id not in run.samples:
        return Status.ERROR, "it is not in this run"
    if sample_id in run.system.failures:
        return Status.FAIL, f"the system under test failed on it: {run.system.failures[sample_id]}"
    below, unscored, reached = [], [], 0
    for metric, floor in floors.items():
        scores = run.metrics.get(metric, _NO_SCORES)
        if sample_id in scores.failed:
            unscored.append(f"{metric} could not be scored: {scores.failed[sample_id].reason}")
        elif sample_id in scores.values:
            way = LOWER if metric in lower else HIGHER
            value, required = scores.values[sample_id], way.shown(floor)
            missed = value > required if way.lower_is_better else value < required
            reached += not missed
            if missed:
                most = "at most " if way.lower_is_better else ""
                below.append(f"{metric} is {figure(value, required)}, required {most}{threshold(required)}")
    if below:
        return Status.FAIL, some(below)
    if unscored:
        return Status.ERROR, some(unscored)
    return (Status.PASS, "") if reached else (Status.ERROR, "no metric with a floor has a score for it")


def error_rate_check(run: RunScores, policy: Policy) -> Check | None:
    """Did the system under test fail more often than the policy allows: of all the times that it was asked?"""
    allowed = policy.system.max_error_rate
    if allowed is None:
        return None
    n = len(run.samples)
    if n == 0:
        return None
    each = 1 if run.manifest is None else run.manifest.answers
    failures = sum(run.system.failed_answers.values())
    rate = failures / (n * each)
    asked = counted(n, "sample")
    if each == 1:
        exact = proportion_interval(failures, n, confidence=policy.gate.confidence)
        interval = Interval(exact.low, exact.high, exact.confidence, "exact binomial")
    else:
        asked = f"{n * each:,} questions ({asked}, each asked {each} times)"
        shares = np.array([run.system.failed_answers.get(sample_id, 0) / each for sample_id in run.samples])
        found = mean_interval(shares, confidence=policy.gate.confidence)
        interval = Interval(found.low, found.high, found.confidence, found.method)
    verb = "more than" if rate > allowed else "within"
    return Check(
        name="system.error_rate",
        kind=CheckKind.ERROR_RATE,
        status=Status.FAIL if rate > allowed else Status.PASS,
        action=policy.system.action,
        reason=f"the system under test failed on {failures} of {asked} ({percent(rate)}), "
        f"{verb} the {percent(allowed)} allowed.",
        estimate=rate,
        interval=interval,
        threshold=allowed,
        current=rate,
        n=n,
    )


def unfinished_check(run: RunScores) -> Check | None:
    """An error for a run that was stopped or killed: it does not contain all samples."""
    manifest = run.manifest
    if manifest is None or manifest.state == "finished":
        return None
    why = manifest.stop_reason or "it was interrupted"
    return Check(
        name="coverage",
        kind=CheckKind.COVERAGE,
        status=Status.ERROR,
        action=Action.BLOCK,
        reason=f"the run did not finish: it has {len(run.samples)} of {counted(manifest.golden.samples, 'sample')} "
        f"({why.rstrip('.')}). Continue with --resume.",
        n=manifest.golden.samples,
    )


def unknown_tag_checks(unknown: Mapping[str, str]) -> Iterator[Check]:
    """One error for each slice with a tag that no sample has."""
    for tag, hint in unknown.items():
        yield Check(
            name=f"{tag}/coverage",
            kind=CheckKind.COVERAGE,
            status=Status.ERROR,
            action=Action.BLOCK,
            reason=f"the policy has rules for the tag '{tag}', but no sample has it. {hint}",
            slice=tag,
        )
