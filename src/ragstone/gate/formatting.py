"""Formats numbers for reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable


def figure(value: float, *against: float) -> str:
    """`value` with two decimals, or as many more as needed to differ from the values in `against`."""
    for digits in (2, 3, 4):
        text = f"{value:.{digits}f}"
        if all(text != f"{other:.{digits}f}" or math.isclose(value, other, abs_tol=1e-9) for other in against):
            break
    return text.removeprefix("-") if float(text) == 0.0 else text


def change(value: float, *against: float) -> str:
    """A difference with its sign: ``+0.03``, ``-0.12``, ``0.00``."""
    text = figure(value, *against)
    return f"+{text}" if float(text) > 0.0 else text


def share(value: float) -> str:
    """A share as a percentage: ``97.5 %``, ``100 %``; never rounded up to 100 or down to 0."""
    percent = 100.0 * value
    text = f"{percent:.1f}".removesuffix(".0")
    if (text == "100" and value < 1.0) or (text == "0" and value > 0.0):
        text = f"{percent:.2g}" if value < 0.5 else f"{math.floor(percent * 100) / 100:.2f}"
    return f"{text} %"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 sample``, ``2,000 samples``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def round_up(count: int) -> int:
    """A rough count: rounded up to two leading digits."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // unit) * unit


def some(names: list[str], limit: int = 5) -> str:
    """The first names, and the number of remaining ones."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def most_common(reasons: Iterable[str]) -> str:
    """The most frequent reason; in a tie, the first alphabetically."""
    counts = Counter(reasons)
    return min(counts, key=lambda reason: (-counts[reason], reason))


def clipped(reason: str, limit: int = 160) -> str:
    """`reason` truncated to `limit` characters; reports show it in full with the affected samples."""
    return reason if len(reason) <= limit else f"{reason[: limit - 1].rstrip()}…"
