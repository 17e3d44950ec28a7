"""Builds a part of the report for each metric and slice, from the gate's checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from msgspec.structs import replace

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.verdict import (
    CHANGE_KINDS,
    LEVEL_KINDS,
    Action,
    Check,
    CheckKind,
    GateVerdict,
    Status,
)
from ragstone.judge.reliability import grade
from ragstone.metrics.registry import metric_title
from ragstone.report.filters import PHRASES, has_row, severity
from ragstone.report.parts import Limit, MetricPart

_NO_CHECK = Check("", CheckKind.FLOOR, Status.PASS, Action.WARN, "")
"""Stands for a check that the policy doesn't make: it has no figures."""


def metric_parts(
    verdict: GateVerdict, current: RunScores, comparable_baseline: RunScores
) -> tuple[MetricPart, ...]:
    """Return a part for each metric over the whole run, then for each metric in a slice;
    first those with checks, in their order, then those that are only measured.

    `comparable_baseline` is empty if the scores of both runs can't be compared.
    """
    # By metric and slice.
    checks: dict[tuple[str, str | None], list[Check]] = {}
    for check in verdict.checks:
        if has_row(check):
            row = (str(check.metric), check.slice)
            checks.setdefault(row, []).append(check)
    for metric, scores in current.metrics.items():
        if scores.values or scores.failed:
            checks.setdefault((metric, None), [])
    parts = []
    for metric, tag in sorted(checks, key=lambda row: row[1] is not None):
        baseline_values: dict[str, float] = {}
        if metric in verdict.compared_metrics and tag is None:
            baseline_values = comparable_baseline.scores_of(metric).values
        part = _metric_part(
            metric,
            tag,
            checks[metric, tag],
            current,
            baseline_values,
            lower_is_better=metric in verdict.explanation.lower_is_better,
        )
        parts.append(part)
    return tuple(parts)


def _metric_part(
    metric: str,
    tag: str | None,
    checks: Sequence[Check],
    current: RunScores,
    baseline_values: Mapping[str, float],
    *,
    lower_is_better: bool,
) -> MetricPart:
    scores = current.scores_of(metric)
    # The scores are those of the whole run: for a slice, only its checks have figures.
    scores_of_row = scores if tag is None else MetricScores({})
    level_check = _first_of_kinds(checks, LEVEL_KINDS)
    change_check = _first_of_kinds(checks, CHANGE_KINDS)
    score = level_check.estimate
    if score is None:
        score = scores_of_row.mean if tag is None else change_check.current
    paired_ids = [
        sample_id for sample_id in scores.values if sample_id in baseline_values
    ]
    if change_check is _NO_CHECK and paired_ids:
        mean = fmean(scores.values[sample_id] for sample_id in paired_ids)
        baseline_mean = fmean(baseline_values[sample_id] for sample_id in paired_ids)
        change_check = replace(change_check, estimate=mean - baseline_mean)
        if not checks:
            change_check = replace(change_check, current=mean, baseline=baseline_mean)
    reliability = None
    if current.offline:
        reliability_grade = grade(metric)
        if reliability_grade is not None:
            reliability = f"{reliability_grade.letter} ({reliability_grade.word})"
    part = MetricPart(
        metric=metric,
        title=metric_title(metric),
        slice=tag,
        score=score,
        interval=level_check.interval,
        change=change_check.estimate,
        current=change_check.current,
        baseline=change_check.baseline,
        limits=tuple(
            Limit(check.kind, abs(check.threshold), not check.blocks)
            for check in checks
            if check.threshold is not None
        ),
        lower_is_better=lower_is_better,
        status=None,
        action=None,
        state="not gated",
        check=None,
        n=level_check.n or change_check.n or len(scores.values),
        not_applicable=len(scores_of_row.not_applicable),
        failed=len(scores_of_row.failed),
        offline_reliability=reliability,
    )
    if not checks:
        return part
    deciding_check = min(checks, key=severity)
    return replace(
        part,
        status=deciding_check.status,
        action=deciding_check.action,
        state=PHRASES["state_of"](deciding_check, change_check),
        check=deciding_check.name,
    )


def _first_of_kinds(checks: Sequence[Check], kinds: Collection[CheckKind]) -> Check:
    """Return the first check of one of these kinds, _NO_CHECK if there is none."""
    return next((check for check in checks if check.kind in kinds), _NO_CHECK)
