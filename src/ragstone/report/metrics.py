"""From the gate's checks to one part for each metric and slice."""

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
"""Instead of one that is not made: it has no figures."""


def metric_parts(
    verdict: GateVerdict, current: RunScores, compared: RunScores
) -> tuple[MetricPart, ...]:
    """One part for each checked metric and slice, then the metrics that are only
    measured.

    Whole-run parts come before slices, each in the order of the checks. `compared` is
    the baseline if the scores of both runs can be compared, else empty.
    """
    checks: dict[tuple[str, str | None], list[Check]] = {}
    for check in verdict.checks:
        if has_row(check):
            place = (str(check.metric), check.slice)
            checks.setdefault(place, []).append(check)
    for metric, scores in current.metrics.items():
        if scores.values or scores.failed:
            checks.setdefault((metric, None), [])
    parts = []
    for metric, tag in sorted(checks, key=lambda place: place[1] is not None):
        baseline: dict[str, float] = {}
        if metric in verdict.compared_metrics and tag is None:
            baseline = compared.scores_of(metric).values
        part = _metric_part(
            metric,
            tag,
            checks[metric, tag],
            current,
            baseline,
            lower_is_better=metric in verdict.explanation.lower_is_better,
        )
        parts.append(part)
    return tuple(parts)


def _metric_part(
    metric: str,
    tag: str | None,
    checks: Sequence[Check],
    current: RunScores,
    baseline: Mapping[str, float],
    *,
    lower_is_better: bool,
) -> MetricPart:
    scores = current.scores_of(metric)
    # A slice has what its checks say.
    of_all = scores if tag is None else MetricScores({})
    level = _of_kind(checks, LEVEL_KINDS)
    change = _of_kind(checks, CHANGE_KINDS)
    score = level.estimate
    if score is None:
        score = of_all.mean if tag is None else change.current
    paired = [sample_id for sample_id in scores.values if sample_id in baseline]
    if change is _NO_CHECK and paired:
        mean = fmean(scores.values[sample_id] for sample_id in paired)
        baseline_mean = fmean(baseline[sample_id] for sample_id in paired)
        change = replace(change, estimate=mean - baseline_mean)
        if not checks:
            change = replace(change, current=mean, baseline=baseline_mean)
    reliability = None
    if current.offline:
        measured = grade(metric)
        if measured is not None:
            reliability = f"{measured.letter} ({measured.word})"
    part = MetricPart(
        metric=metric,
        title=metric_title(metric),
        slice=tag,
        score=score,
        interval=level.interval,
        change=change.estimate,
        current=change.current,
        baseline=change.baseline,
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
        n=level.n or change.n or len(scores.values),
        not_applicable=len(of_all.not_applicable),
        failed=len(of_all.failed),
        offline_reliability=reliability,
    )
    if not checks:
        return part
    deciding = min(checks, key=severity)
    return replace(
        part,
        status=deciding.status,
        action=deciding.action,
        state=PHRASES["state_of"](deciding, change),
        check=deciding.name,
    )


def _of_kind(checks: Sequence[Check], kinds: Collection[CheckKind]) -> Check:
    """The first check of one of these kinds, or else one without figures."""
    return next((check for check in checks if check.kind in kinds), _NO_CHECK)
