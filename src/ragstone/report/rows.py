"""From the gate's checks to the rows of the report's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ragstone import formatting
from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.checks.registry import checker_of
from ragstone.gate.verdict import CHANGES, LEVELS, Action, Check, CheckKind, GateVerdict, Status
from ragstone.report import wording
from ragstone.report.parts import CheckRow, MetricRow

_SEVERITY = (
    (Status.ERROR, Action.BLOCK),
    (Status.FAIL, Action.BLOCK),
    (Status.INCONCLUSIVE, Action.BLOCK),
    (Status.ERROR, Action.WARN),
    (Status.FAIL, Action.WARN),
    (Status.INCONCLUSIVE, Action.WARN),
    (Status.PASS, Action.BLOCK),
    (Status.PASS, Action.WARN),
)
_METRIC_KINDS = LEVELS | CHANGES | {CheckKind.TARGET}


def severity(status: Status | None, action: Action | None) -> int:
    """0 is most important; metrics without a check come last."""
    if status is None or action is None:
        return len(_SEVERITY)
    return _SEVERITY.index((status, action))


def metric_rows(
    verdict: GateVerdict, current: RunScores, compared: RunScores | None, grades: Mapping[str, str]
) -> tuple[MetricRow, ...]:
    """One row per checked metric and slice, then the metrics that are only measured.

    Whole-run rows come before slices, each in the order of the checks. `compared` is the baseline if the scores of both
    runs can be compared.
    """
    found: dict[tuple[str, str | None], list[Check]] = {}
    for check in verdict.checks:
        if check.kind in _METRIC_KINDS and check.metric is not None:
            found.setdefault((check.metric, check.slice), []).append(check)
    for metric, scores in current.metrics.items():
        if scores.values or scores.failed:
            found.setdefault((metric, None), [])
    keys = sorted(found, key=lambda key: key[1] is not None)
    shared = verdict.comparability.metrics if verdict.comparability is not None else ()
    return tuple(
        _metric_row(
            metric,
            slice_,
            found[metric, slice_],
            current.metrics.get(metric, MetricScores(values={})),
            compared.metrics.get(metric) if compared is not None and metric in shared else None,
            grades.get(metric),
            metric in verdict.explanation.lower_is_better,
            _values(current, metric, slice_),
        )
        for metric, slice_ in keys
    )


def _metric_row(
    metric: str,
    slice_: str | None,
    checks: Sequence[Check],
    scores: MetricScores,
    baseline: MetricScores | None,
    grade: str | None,
    lower: bool,
    inside: Sequence[float],
) -> MetricRow:
    floor = next((check for check in checks if check.kind in LEVELS), None)
    drop = next((check for check in checks if check.kind in CHANGES), None)
    target = next((check for check in checks if check.kind is CheckKind.TARGET), None)
    level = floor.threshold if floor else None
    allowed = None if drop is None or drop.threshold is None else abs(drop.threshold)
    deciding = min(checks, key=lambda check: severity(check.status, check.action), default=None)
    values = scores.values
    shown = floor or target
    score = shown.estimate if shown and shown.estimate is not None else None
    if score is None and slice_ is None:
        score = scores.mean
    elif score is None and drop is not None:
        score = drop.current
    return MetricRow(
        metric=metric,
        title=wording.metric_title(metric),
        slice=slice_,
        score=score,
        interval=shown.interval if shown else None,
        change=drop.estimate if drop else _plain_change(values, baseline) if slice_ is None else None,
        change_interval=drop.interval if drop else None,
        floor=None if lower else level,
        max_drop=None if lower else allowed,
        status=deciding.status if deciding else None,
        action=deciding.action if deciding else None,
        state=metric_state(deciding, drop),
        deciding=deciding,
        n=next((check.n for check in (floor, drop, target) if check is not None), len(values)),
        not_applicable=len(scores.not_applicable) if slice_ is None else 0,
        failed=len(scores.failed) if slice_ is None else 0,
        min=min(inside, default=None),
        max=max(inside, default=None),
        sd=float(np.std(inside, ddof=1)) if len(inside) > 1 else None,
        offline_reliability=grade,
        ceiling=level if lower else None,
        max_rise=allowed if lower else None,
        lower_is_better=lower,
        target=target.threshold if target else None,
        level_warns=floor is not None and floor.action is Action.WARN,
        change_warns=drop is not None and drop.action is Action.WARN,
    )


def _values(current: RunScores, metric: str, slice_: str | None) -> list[float]:
    scores = current.metrics.get(metric)
    return [
        value
        for sample, value in (scores.values.items() if scores is not None else ())
        if slice_ is None or (sample in current.samples and slice_ in current.samples[sample].tags)
    ]


def _plain_change(values: Mapping[str, float], baseline: MetricScores | None) -> float | None:
    if baseline is None:
        return None
    pairs = [values[key] - baseline.values[key] for key in values if key in baseline.values]
    return sum(pairs) / len(pairs) if pairs else None


def metric_state(check: Check | None, drop: Check | None = None) -> str:
    """A few words on the deciding `check`: ``pass``, ``below floor``, ``drop unclear``.

    A pass with an estimate on the wrong side of its threshold says why; what does not pass says so if it only warns.
    """
    if check is None:
        return "not gated"
    warns = "" if check.action is Action.BLOCK or check.kind is CheckKind.TARGET else " (warns)"
    if check.status is Status.FAIL:
        return _FAILED.get(check.kind, "failed") + warns
    if check.status is Status.INCONCLUSIVE:
        return f"{check.kind} unclear{warns}"
    if check.status is Status.ERROR:
        return f"error{warns}"
    if drop is None or drop.estimate is None or drop.threshold is None:
        return "pass"
    sign = -1.0 if drop.kind is CheckKind.RISE else 1.0
    if drop.accepted is not None and sign * drop.estimate < 0.0:
        return f"pass: accepted {drop.kind}"
    return f"pass: no {drop.kind} shown" if sign * drop.estimate < sign * drop.threshold else "pass"


_FAILED = {
    CheckKind.FLOOR: "below floor",
    CheckKind.CEILING: "above ceiling",
    CheckKind.DROP: "dropped",
    CheckKind.RISE: "rose",
    CheckKind.TARGET: "acceptable, not yet good",
}


def check_rows(checks: Sequence[Check]) -> tuple[CheckRow, ...]:
    """The checks other than floors and drops of metrics, most important first.

    Of the passing coverage checks, only the lowest is kept. Other coverage checks that say the same share a row.
    """
    rest = [check for check in checks if check.kind not in _METRIC_KINDS or check.metric is None]
    covered = [check for check in rest if check.kind is CheckKind.COVERAGE and check.status is Status.PASS]
    if covered:
        lowest = min(covered, key=lambda check: 1.0 if check.estimate is None else check.estimate)
        rest = [check for check in rest if check not in covered]
        action = Action.BLOCK if any(check.action is Action.BLOCK for check in covered) else Action.WARN
        rest.append(replace(lowest, metric=None, slice=None, action=action) if len(covered) > 1 else lowest)
    alike: dict[object, list[Check]] = {}
    for check in sorted(rest, key=lambda check: severity(check.status, check.action)):
        same = (wording.status_word(check.status, check.action), check.slice, check.short_reason)
        alike.setdefault(same if check.kind is CheckKind.COVERAGE and check.metric else id(check), []).append(check)
    return tuple(
        CheckRow(marked_title(check, others), checker_of(check).found(check), checker_of(check).wanted(check), check)
        for check, *others in alike.values()
    )


def marked_title(check: Check, others: Sequence[Check] = ()) -> str:
    """The title of a check, with a mark if it passes and would only warn; one that does not pass has another word."""
    only_warns = check.action is Action.WARN and check.status is Status.PASS and check.kind is not CheckKind.TARGET
    return f"{check_title(check, others)}{wording.WARNS if only_warns else ''}"


def check_title(check: Check, others: Sequence[Check] = ()) -> str:
    """``Coverage``, ``Floor: Faithfulness (lang:de)``, ``Must pass: refund-window``.

    `others` are the same checks of other metrics: ``Coverage: Faithfulness, Context recall``.
    """
    title = checker_of(check).title(check)
    if check.sample is not None:
        title = f"{title}: {check.sample}"
    if check.kind is CheckKind.ANSWERS and check.metric is not None:
        return wording.metric_title(check.metric)  # the reason says the rest
    if check.metric is not None:
        names = [wording.metric_title(one.metric) for one in (check, *others) if one.metric is not None]
        title = f"{title}: {formatting.some(names)}"
    return f"{title} ({check.slice})" if check.slice is not None else title


def check_reason(check: Check) -> str:
    """The reason as a sentence below the check's title, which already names the metric."""
    return wording.sentence(check.short_reason or check.reason)
