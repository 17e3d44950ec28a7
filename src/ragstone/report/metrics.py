"""From the gate's checks to one part for each metric and slice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from ragstone.evaluation.scores import RunScores
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    Action,
    Check,
    CheckKind,
    GateVerdict,
    Status,
)
from ragstone.judge.reliability import grade
from ragstone.metrics.registry import metric_title
from ragstone.report.filters import METRIC_KINDS, severity
from ragstone.report.parts import Limit, MetricPart

_BEYOND = {
    CheckKind.FLOOR: "below floor",
    CheckKind.CEILING: "above ceiling",
    CheckKind.DROP: "dropped",
    CheckKind.RISE: "rose",
}
_NO_CHECK = Check("", CheckKind.FLOOR, Status.PASS, Action.WARN, "")
"""Instead of one that is not made: it has no figures."""


def metric_parts(
    verdict: GateVerdict, current: RunScores, compared: RunScores | None
) -> tuple[MetricPart, ...]:
    """One part for each checked metric and slice, then the metrics that are only
    measured.

    Whole-run parts come before slices, each in the order of the checks. `compared` is
    the baseline if the scores of both runs can be compared.
    """
    checks: dict[tuple[str, str | None], list[Check]] = {}
    for check in verdict.checks:
        if check.kind in METRIC_KINDS and check.metric is not None:
            checks.setdefault((check.metric, check.slice), []).append(check)
    for metric, scores in current.metrics.items():
        if scores.values or scores.failed:
            checks.setdefault((metric, None), [])
    shared = verdict.comparability.metrics if verdict.comparability is not None else ()
    parts = []
    for metric, tag in sorted(checks, key=lambda place: place[1] is not None):
        baseline: dict[str, float] = {}
        if compared is not None and metric in shared and tag is None:
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
    level = _of_kind(checks, LEVELS)
    change = _of_kind(checks, CHANGES)
    score = level.estimate
    if score is None:
        score = scores.mean if tag is None else change.current
    mean = change.current
    baseline_mean = change.baseline
    mean_change = change.estimate
    paired = [sample_id for sample_id in scores.values if sample_id in baseline]
    if change is _NO_CHECK and paired:
        paired_mean = fmean(scores.values[sample_id] for sample_id in paired)
        paired_baseline_mean = fmean(baseline[sample_id] for sample_id in paired)
        mean_change = paired_mean - paired_baseline_mean
        if not checks:
            mean = paired_mean
            baseline_mean = paired_baseline_mean
    deciding = min(checks, key=severity, default=None)
    n = len(scores.values)
    for counting in (change, level):
        n = n if counting is _NO_CHECK else counting.n
    reliability = None
    if current.manifest is not None and current.manifest.judge.provider == "offline":
        measured = grade(metric)
        if measured is not None:
            reliability = f"{measured.letter} ({measured.word})"
    return MetricPart(
        metric=metric,
        title=metric_title(metric),
        slice=tag,
        score=score,
        interval=level.interval,
        change=mean_change,
        current=mean,
        baseline=baseline_mean,
        limits=tuple(
            Limit(check.kind, abs(check.threshold), not check.blocks)
            for check in checks
            if check.threshold is not None
        ),
        lower_is_better=lower_is_better,
        status=None if deciding is None else deciding.status,
        action=None if deciding is None else deciding.action,
        state=state_of(deciding, change),
        check=None if deciding is None else deciding.name,
        n=n,
        not_applicable=len(scores.not_applicable) if tag is None else 0,
        failed=len(scores.failed) if tag is None else 0,
        offline_reliability=reliability,
    )


def _of_kind(checks: Sequence[Check], kinds: Collection[CheckKind]) -> Check:
    """The first check of one of these kinds, or else one without figures."""
    return next((check for check in checks if check.kind in kinds), _NO_CHECK)


def state_of(check: Check | None, change: Check = _NO_CHECK) -> str:
    """A few words on the deciding `check`: ``pass``, ``below floor``, ``drop unclear``.

    A pass with an estimate on the wrong side of its threshold says why; what does not
    pass says so if it only warns.
    """
    if check is None:
        return "not gated"
    if check.passed:
        estimate = change.estimate or 0.0
        loss = estimate if change.kind == CheckKind.RISE else -estimate
        if change.accepted is not None and loss > 0.0:
            return f"pass: accepted {change.kind}"
        return f"pass: no {change.kind} shown" if change.is_beyond else "pass"
    if check.failed:
        state = _BEYOND.get(CheckKind(check.kind), "failed")
    elif check.status is Status.ERROR:
        state = "error"
    elif check.kind == CheckKind.APPLICABILITY:
        state = "applies to few answers"
    else:
        state = f"{check.kind} unclear"
    return state if check.blocks else f"{state} (warns)"
