"""Titles, states and phrases as a reader wants them, the same in every format; numbers are in formatting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragstone.formatting import answer_cost, bound, change, counted, digits_for, score, whole
from ragstone.gate.verdict import Action, Attribution, CheckKind, Diagnosis, Interval, Side, Status
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.report.parts import MetricRow, Spread, WorstSample
from ragstone.run.manifest import SystemUsage

STATUS_TITLES = {
    Status.PASS: "Pass",
    Status.FAIL: "Fail",
    Status.INCONCLUSIVE: "Inconclusive",
    Status.ERROR: "Error",
}

CHECK_TITLES = {
    CheckKind.FLOOR: "Floor",
    CheckKind.CEILING: "Ceiling",
    CheckKind.DROP: "Drop",
    CheckKind.RISE: "Rise",
    CheckKind.TARGET: "Target",
    CheckKind.DRIFT: "Drift",
    CheckKind.COVERAGE: "Coverage",
    CheckKind.MUST_PASS: "Must pass",
    CheckKind.LATENCY: "Latency (p95)",
    CheckKind.USAGE: "Use",
    CheckKind.ERROR_RATE: "System errors",
    CheckKind.AGREEMENT: "Agreement with people",
    CheckKind.BASELINE: "Baseline",
    CheckKind.ANSWERS: "Answers",
}


USAGE_TITLES = {
    "system.tokens_mean": "Tokens per answer",
    "system.tokens_p95": "Tokens per answer (p95)",
    "system.cost_mean_usd": "Cost per answer",
    "system.cost_p95_usd": "Cost per answer (p95)",
}


def usage(name: str, value: float) -> str:
    """A value of the check `name`, in tokens or dollars."""
    return answer_cost(value) if "cost" in name else whole(value)


def system_usage(found: SystemUsage | None) -> str:
    """What an answer of the system under test takes: ``1,234 tokens per answer (p95 2,345), $0.0012 (p95 $0.0031)``."""
    if found is None:
        return "tokens not reported"
    text = f"{whole(found.tokens_mean)} tokens per answer (p95 {whole(found.tokens_p95)})"
    if found.cost_mean_usd is not None and found.cost_p95_usd is not None:
        text += f", {answer_cost(found.cost_mean_usd)} (p95 {answer_cost(found.cost_p95_usd)})"
    if found.reported < found.answers:
        text += f", reported by {found.reported:,} of {counted(found.answers, 'answer')}"
    return text


def metric_title(name: str) -> str:
    """``Context recall`` for ``context_recall``; unknown names are left as they are."""
    metric = METRICS.get(name)
    return metric.info.title if metric else name


def interval(found: Interval | None, digits: int = 2, *, signed: bool = False) -> str:
    """``[0.74, 0.84]`` with a non-breaking space, or nothing for None."""
    if found is None:
        return ""
    form = change if signed else score
    return f"[{form(found.low, digits)},\u00a0{form(found.high, digits)}]"


def shown_score(found: Score) -> str:
    """``0.85``, ``n/a`` or ``failed``: the score of one sample."""
    if isinstance(found, Scored):
        return score(found.value)
    return "n/a" if isinstance(found, NotApplicable) else "failed"


def spread(found: Spread | None) -> str:
    """``0.00 to 1.00, sd 0.21``: lowest, highest and standard deviation; nothing without scores."""
    if found is None:
        return ""
    deviation = "" if found.deviation is None else f", sd {score(found.deviation)}"
    return f"{score(found.lowest)} to {score(found.highest)}{deviation}"


def status_word(status: Status | None, action: Action | None) -> str:
    """``pass``, ``fail``, ``warn`` (a failure that doesn't block), ``inconclusive``, ``error``, ``not gated``."""
    if status is None:
        return "not gated"
    if status is Status.FAIL and action is Action.WARN:
        return "warn"
    return str(status)


def sentence(text: str) -> str:
    """`text` with a capital first letter, unless it starts with a name such as ``context_recall`` or ``scores.csv``."""
    first = text.partition(" ")[0].rstrip(".")
    return text if any(sign in first for sign in "_./") else text[:1].upper() + text[1:]


def worst_heading(samples: Iterable[WorstSample]) -> str:
    """The heading of the list of worst samples: without a baseline, nothing can have got worse."""
    compared = any(change.baseline is not None for sample in samples for change in sample.changes)
    return "What got worse" if compared else "What falls short"


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of `text`, and the rest."""
    head, stop, rest = text.partition(". ")
    return (head + ".", rest) if stop else (text, "")


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a metric's row as text: two decimals, or more where two would contradict its state."""

    score: str
    interval: str
    change: str
    change_interval: str


def figures(row: MetricRow) -> Figures:
    """The numbers of `row`."""
    digits = _digits(row.level, row.score, row.interval, less_is_worse=row.ceiling is None)
    change_digits = _digits(row.allowed_change, row.change, row.change_interval, less_is_worse=row.max_rise is None)
    return Figures(
        score=score(row.score, digits),
        interval=interval(row.interval, digits),
        change=change(row.change, change_digits),
        change_interval=interval(row.change_interval, change_digits, signed=True),
    )


def _digits(bound: float | None, value: float | None, found: Interval | None, *, less_is_worse: bool) -> int:
    """Decimals with which a value, or an interval, on the wrong side of `bound` isn't rounded onto it."""
    if bound is None:
        return 2
    best = None if found is None else found.high if less_is_worse else found.low
    wrong = [one for one in (value, best) if one is not None and (one < bound if less_is_worse else one > bound)]
    return digits_for(bound, wrong)


def thresholds(row: MetricRow) -> list[str]:
    """``≥ 0.85``, ``target 0.95`` and ``drop ≤ 0.02`` (or ``≤ 0.2`` and ``rise ≤ 0.02``), with non-breaking spaces."""
    found = (
        ("≥", row.floor),
        ("≤", row.ceiling),
        ("target", row.target),
        ("drop\u00a0≤", row.max_drop),
        ("rise\u00a0≤", row.max_rise),
    )
    return [f"{sign}\u00a0{bound(value)}" for sign, value in found if value is not None]


def where_to_look(found: Attribution) -> str:
    """``Look at retrieval first.``, or nothing if neither half stands out."""
    return f"Look at {found.side} first." if found.side in (Side.RETRIEVAL, Side.GENERATION) else ""


def causes(found: Diagnosis | None, most: int = 3) -> str:
    """``9 of 14: retrieved but ignored; 3: invented; 2 unexplained``; empty if there is nothing to say."""
    if found is None or not found.counts:
        return ""
    first, *others = found.counts[:most]
    parts = [f"{len(first.samples)} of {found.samples}: {first.title}"]
    parts += [f"{len(one.samples)}: {one.title}" for one in others]
    left = sum(len(one.samples) for one in found.counts[most:])
    unexplained = found.samples - sum(len(one.samples) for one in found.counts)
    parts += [f"{left} with other causes"] if left else []
    parts += [f"{unexplained} unexplained"] if unexplained else []
    return "; ".join(parts)


def attribution(found: Attribution) -> str:
    """Where to look, and why."""
    return f"{where_to_look(found)} {sentence(found.reason)}".strip()


def compared_on(paired: int, total: int) -> str:
    """``on all 60 samples``, ``on 48 of 60 samples``."""
    return f"on all {counted(total, 'sample')}" if paired == total else f"on {paired:,} of {counted(total, 'sample')}"
