"""From the gate's checks to one part for each metric and slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.verdict import CHANGES, LEVELS, Action, Check, CheckKind, GateVerdict, Status
from ragstone.judge.offline.reliability import grade
from ragstone.metrics.registry import metric_title
from ragstone.report.filters import METRIC_KINDS, severity
from ragstone.report.parts import Limit, MetricPart

_BEYOND = {
    CheckKind.FLOOR: "below floor",
    CheckKind.CEILING: "above ceiling",
    CheckKind.DROP: "dropped",
    CheckKind.RISE: "rose",
    CheckKind.TARGET: "acceptable, not yet good",
}


def metric_parts(verdict: GateVerdict, current: RunScores, compared: RunScores | None) -> tuple[MetricPart, ...]:
    """One part for each checked metric and slice, then the metrics that are only measured.

    Whole-run parts come before slices, each in the order of the checks. `compared` is the baseline if the scores of
    both runs can be compared.
    """
    checks: dict[tuple[str, str | None], list[Check]] = {}
    for check in verdict.checks:
        if check.kind in METRIC_KINDS and check.metric is not None:
            checks.setdefault((check.metric, check.slice), []).append(check)
    for metric, scores in current.metrics.items():
        if scores.values or scores.failed:
            checks.setdefault((metric, None), [])
    shared = verdict.comparability.metrics if verdict.comparability is not None else ()
    is_offline = current.manifest is not None and current.manifest.judge.provider == "offline"
    parts = []
    for metric, tag in sorted(checks, key=lambda key: key[1] is not None):
        baseline = compared.metrics.get(metric) if compared is not None and metric in shared else None
        parts.append(
            _metric_part(
                metric,
                tag,
                checks[metric, tag],
                current,
                baseline,
                lower_is_better=metric in verdict.explanation.lower_is_better,
                reliability=_reliability(metric) if is_offline else None,
            )
        )
    return tuple(parts)


def _reliability(metric: str) -> str | None:
    """The measured grade of the offline judge for `metric`: ``B (fair)``."""
    measured = grade(metric)
    return None if measured is None else f"{measured.letter} ({measured.word})"


def _metric_part(
    metric: str,
    tag: str | None,
    checks: Sequence[Check],
    current: RunScores,
    baseline: MetricScores | None,
    *,
    lower_is_better: bool,
    reliability: str | None,
) -> MetricPart:
    scores = current.metrics.get(metric, MetricScores(values={}))
    level = _of_kind(checks, LEVELS)
    change = _of_kind(checks, CHANGES)
    shown = level or _of_kind(checks, {CheckKind.TARGET})
    score = shown.estimate if shown is not None else None
    if score is None and tag is None:
        score = scores.mean
    elif score is None and change is not None:
        score = change.current
    current_mean, baseline_mean = (None, None) if change is None else (change.current, change.baseline)
    mean_change = None if change is None else change.estimate
    if change is None and tag is None and (paired := _paired_means(scores.values, baseline)) is not None:
        mean_change = paired[0] - paired[1]
        if not checks:
            current_mean, baseline_mean = paired
    deciding = min(checks, key=severity, default=None)
    counted = level or change or shown
    values = _sample_scores(current, scores, tag)
    return MetricPart(
        metric=metric,
        title=metric_title(metric),
        slice=tag,
        score=score,
        interval=shown.interval if shown is not None else None,
        change=mean_change,
        change_interval=change.interval if change is not None else None,
        current=current_mean,
        baseline=baseline_mean,
        limits=tuple(
            Limit(check.kind, abs(check.threshold), check.action is Action.WARN and check.kind != CheckKind.TARGET)
            for check in checks
            if check.threshold is not None
        ),
        lower_is_better=lower_is_better,
        status=deciding.status if deciding is not None else None,
        action=deciding.action if deciding is not None else None,
        state=state_of(deciding, change),
        check=deciding.name if deciding is not None else None,
        n=counted.n if counted is not None else len(scores.values),
        not_applicable=len(scores.not_applicable) if tag is None else 0,
        failed=len(scores.failed) if tag is None else 0,
        min=min(values, default=None),
        max=max(values, default=None),
        sd=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        offline_reliability=reliability,
    )


def _of_kind(checks: Sequence[Check], kinds: frozenset[CheckKind] | set[CheckKind]) -> Check | None:
    return next((check for check in checks if check.kind in kinds), None)


def _sample_scores(current: RunScores, scores: MetricScores, tag: str | None) -> list[float]:
    """The scores of the samples of a slice, or of all."""
    if tag is None:
        return list(scores.values.values())
    tagged = {name for name, facts in current.samples.items() if tag in facts.tags}
    return [value for name, value in scores.values.items() if name in tagged]


def _paired_means(values: Mapping[str, float], baseline: MetricScores | None) -> tuple[float, float] | None:
    """The means of the samples with a score in both runs, now and in the baseline; None if there are none."""
    paired = [] if baseline is None else [name for name in values if name in baseline.values]
    if baseline is None or not paired:
        return None
    now, before = (sum(side[name] for name in paired) / len(paired) for side in (values, baseline.values))
    return now, before


def state_of(check: Check | None, drop: Check | None = None) -> str:
    """A few words on the deciding `check`: ``pass``, ``below floor``, ``drop unclear``.

    A pass with an estimate on the wrong side of its threshold says why; what does not pass says so if it only warns.
    """
    if check is None:
        return "not gated"
    warns = "" if check.action is Action.BLOCK or check.kind == CheckKind.TARGET else " (warns)"
    match check.status:
        case Status.FAIL:
            return _BEYOND.get(CheckKind(check.kind), "failed") + warns
        case Status.INCONCLUSIVE if check.kind == CheckKind.APPLICABILITY:
            return f"applies to few answers{warns}"
        case Status.INCONCLUSIVE:
            return f"{check.kind} unclear{warns}"
        case Status.ERROR:
            return f"error{warns}"
    if drop is None or drop.estimate is None:
        return "pass"
    loss = drop.estimate if drop.kind == CheckKind.RISE else -drop.estimate
    if drop.accepted is not None and loss > 0.0:
        return f"pass: accepted {drop.kind}"
    return f"pass: no {drop.kind} shown" if drop.is_beyond else "pass"
