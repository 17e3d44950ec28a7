"""Titles, states and phrases as a reader wants them, the same in every format; numbers are in formatting."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ragstone.evaluation.manifest import SystemUsage
from ragstone.formatting import answer_cost, bound, change, counted, digits_for, score, whole
from ragstone.gate.verdict import (
    MIN_SAMPLES,
    Action,
    Diagnosis,
    Interval,
    OracleShares,
    Status,
)
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.report.escape import one_line
from ragstone.report.parts import ChangePart, MetricRow, SamplePart
from ragstone.report.templates import PACKAGE, render_lines

STATUS_TITLES = {
    Status.PASS: "Pass",
    Status.FAIL: "Fail",
    Status.INCONCLUSIVE: "Inconclusive",
    Status.ERROR: "Error",
}


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


def spread(row: MetricRow) -> str:
    """``0.00 to 1.00, sd 0.21``: lowest, highest and standard deviation; nothing without scores."""
    if row.min is None:
        return ""
    deviation = "" if row.sd is None else f", sd {score(row.sd)}"
    return f"{score(row.min)} to {score(row.max)}{deviation}"


def moved(change: ChangePart) -> str:
    """``Faithfulness 0.90 → 0.40``, or the score alone without a baseline."""
    before = "" if change.baseline is None else f"{score(change.baseline)} → "
    return f"{metric_title(change.metric)} {before}{score(change.current)}"


def row_name(row: MetricRow) -> str:
    """``Faithfulness``, ``Faithfulness · lang:de``."""
    return row.title if row.slice is None else f"{row.title} · {row.slice}"


def status_word(status: Status | None, action: Action | None) -> str:
    """``pass``, ``fail``, ``warn`` (bad, but doesn't block), ``inconclusive``, ``error``, ``not gated``."""
    if status is None:
        return "not gated"
    if status in (Status.FAIL, Status.ERROR) and action is Action.WARN:
        return "warn"
    return str(status)


def sentence(text: str) -> str:
    """`text` with metrics by their titles, and a capital first letter unless it starts with a name (``scores.csv``)."""
    text = _NAMES.sub(lambda found: metric_title(found[0]), text)
    first = text.partition(" ")[0].rstrip(".")
    return text if any(sign in first for sign in "_./") else text[:1].upper() + text[1:]


_OTHERS = sorted((name for name, one in METRICS.items() if one.info.title.lower() != name), key=len, reverse=True)
_NAMES = re.compile(rf"(?<![\w.`'/-])(?:{'|'.join(map(re.escape, _OTHERS))})(?![\w`'/@-]|\.\w)")
"""The metrics whose name isn't their title, but not in a path or a command."""


def worst_heading(samples: Iterable[SamplePart]) -> str:
    """The heading of the list of worst samples: without a baseline, nothing can have got worse."""
    compared = any(change.baseline is not None for sample in samples for change in sample.changes)
    return "What got worse" if compared else "What falls short"


def first_sentence(text: str) -> tuple[str, str]:
    head, stop, rest = text.partition(". ")
    return (head + ".", rest) if stop else (text, "")


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a metric's row as text: two decimals, or more where two would contradict its state.

    A score of fewer samples than the metric doesn't apply to says of how many: ``1.00 (n = 1)``.
    """

    score: str
    interval: str
    change: str
    change_interval: str

    @property
    def scored(self) -> str:
        """``0.85 [0.74, 0.91]``."""
        return f"{self.score} {self.interval}".strip()

    @property
    def changed(self) -> str:
        """``−0.06 [−0.11, −0.02]``."""
        return f"{self.change} {self.change_interval}".strip()


def figures(row: MetricRow) -> Figures:
    digits = _digits(row.level, row.score, row.interval, less_is_worse=row.ceiling is None)
    change_digits = _digits(row.allowed_change, row.change, row.change_interval, less_is_worse=row.max_rise is None)
    few = f" (n\u00a0=\u00a0{row.n:,})" if row.score is not None and row.n < row.not_applicable else ""
    return Figures(
        score=f"{score(row.score, digits)}{few}",
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


WARNS = "\u00a0(warns)"
"""What follows a check that only warns."""


def thresholds(row: MetricRow) -> list[str]:
    """``≥ 0.85``, ``target 0.95`` and ``drop ≤ 0.02 (warns)`` (or ``≤``, ``rise ≤``); its spaces don't break."""
    found = (
        ("≥", row.floor, row.level_warns),
        ("≤", row.ceiling, row.level_warns),
        ("target", row.target, False),
        ("drop\u00a0≤", row.max_drop, row.change_warns),
        ("rise\u00a0≤", row.max_rise, row.change_warns),
    )
    marked = ((sign, value, WARNS if warns else "") for sign, value, warns in found if value is not None)
    return [f"{sign}\u00a0{bound(value)}{mark}" for sign, value, mark in marked]


def causes(found: Diagnosis | None, most: int = 3) -> str:
    """``9 of 14: retrieved but ignored; 3: invented; 2 unexplained``; empty if too few samples have a cause."""
    if found is None or sum(one.count for one in found.counts) < MIN_SAMPLES:
        return ""
    first, *others = found.counts[:most]
    parts = [f"{len(first.samples)} of {found.samples}: {first.title}"]
    parts += [f"{len(one.samples)}: {one.title}" for one in others]
    left = sum(len(one.samples) for one in found.counts[most:])
    unexplained = found.samples - sum(len(one.samples) for one in found.counts)
    parts += [f"{left} with other causes"] if left else []
    parts += [f"{unexplained} unexplained"] if unexplained else []
    return "; ".join(parts)


def cause_actions(found: Diagnosis | None) -> list[str]:
    """``To do (invented): …`` for each cause, the most frequent first; empty where `causes` is."""
    if found is None or not causes(found):
        return []
    several = len(found.counts) > 1
    return [f"To do{f' ({one.title})' if several else ''}: {one.action}" for one in found.counts]


ORACLE_TITLE = "With the reference contexts given (oracle)"


def oracle_lines(found: OracleShares | None) -> list[str]:
    """What an oracle half says: a sentence for each metric, then what qualifies them. Empty without one."""
    if found is None:
        return []
    incomplete = None if found.incomplete is None else one_line(sentence(found.incomplete))
    return render_lines("oracle.txt.j2", PACKAGE, found=found, incomplete=incomplete)


def compared_on(paired: int, total: int) -> str:
    """``on all 60 samples``, ``on 48 of 60 samples``."""
    return f"on all {counted(total, 'sample')}" if paired == total else f"on {paired:,} of {counted(total, 'sample')}"
