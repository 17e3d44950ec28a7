"""Formats numbers and lists for people, in the same way in reasons, reports, messages and
the terminal."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

NONE = "–"
"""Shown for a missing number."""

_TOLERANCE = 1e-9
"""Scores that differ by no more are the same, up to the errors of floats."""

# Quoted texts and words with digits. The numbers of statuses are not among them, because
# two statuses are two reasons.
_SPECIFICS = (
    r"(?P<status>\b(?i:answered|status|code|http|errno|signal)\W{1,3}\d+)"
    r"|(?<!\w)(?P<quote>['\"])[^'\"]*[\s\d][^'\"]*(?:(?P=quote)(?!\w)|\.\.\.)|[\w-]*\d[\w.:,-]*"
)


def score(value: float | None, digits: int = 2) -> str:
    """A score, such as ``0.85``; a dash for None. What rounds to 0 has no sign."""
    if value is None:
        return NONE
    text = f"{value:.{digits}f}"
    if float(text) == 0.0:
        return text.removeprefix("-")
    return text.replace("-", "−")


def change(value: float | None, digits: int = 2) -> str:
    """A difference with its sign: ``+0.03``, ``−0.06``; ``0`` for no difference at all,
    ``0.00`` for a tiny one."""
    text = score(value, digits)
    if not value:
        return text if value is None else "0"
    if value > 0.0 and float(text) > 0.0:
        return f"+{text}"
    return text


def digits_for(value: float | None, values: Iterable[float | None]) -> int:
    """The number of decimals, two to four, needed to distinguish `value` from each
    different value in `values`."""
    if value is None:
        return 2
    different = [
        number
        for number in values
        if number is not None and not math.isclose(value, number, abs_tol=_TOLERANCE)
    ]
    for digits in (2, 3):
        if all(score(value, digits) != score(number, digits) for number in different):
            return digits
    return 4


def figure(value: float, *against: float) -> str:
    """`value` with enough decimals to distinguish it from the values that it is compared
    with."""
    return score(value, digits_for(value, against))


def bound(value: float) -> str:
    """A threshold, with no more decimals than it was written with: ``0.85``,
    ``0.9``."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


def threshold(value: float) -> str:
    """A threshold in a sentence with scores: at least two decimals, and as many as it
    was written with: ``0.90``, ``0.999``."""
    text = bound(value)
    _, _, decimals = text.partition(".")
    if len(decimals) > 2:
        return text
    return score(value)


def percent(value: float | None) -> str:
    """A share, such as ``97.5 %`` or ``98 %``. It is never rounded up to 100 % or down
    to 0 %."""
    if value is None:
        return NONE
    percentage = 100.0 * value
    text = f"{percentage:.1f}"
    is_rounded_up = text == "100.0" and value < 1.0
    is_rounded_down = text == "0.0" and value > 0.0
    if is_rounded_up or is_rounded_down:
        nearest = min(max(percentage, 0.01), 99.99)
        text = f"{nearest:.2f}"
    return f"{text.removesuffix('.0')} %"


def seconds(value: float | None) -> str:
    """A duration: ``340 ms``, ``1.24 s``, ``3 min 20 s``; a dash for None."""
    if value is None:
        return NONE
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.2f} s"
    minutes, remainder = divmod(round(value), 60)
    return f"{minutes} min {remainder} s"


def dollars(value: float | None, digits: int = 2) -> str:
    """An amount of money: ``$0.03``; ``under $0.01`` for less, and a phrase for None."""
    if value is None:
        return "cost unknown (no price configured)"
    if value == 0:
        return "$0"
    smallest = 10.0**-digits
    if value < smallest:
        return f"under ${smallest:.{digits}f}"
    return f"${value:,.{digits}f}"


def answer_cost(value: float) -> str:
    """The cost of one answer, with at least two significant digits: ``$0.00042``,
    ``$0.12``, ``$3.40``."""
    if value <= 0:
        return "$0"
    magnitude = math.floor(math.log10(value))
    digits = min(9, max(2, 1 - magnitude))
    return f"${value:,.{digits}f}"


def rounded(value: float) -> str:
    """A number without decimals: ``1,234``."""
    return f"{value:,.0f}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: ``1 sample``, ``2,000 samples``."""
    if count == 1:
        return f"{count:,} {noun}"
    plural = plural or f"{noun}s"
    return f"{count:,} {plural}"


def tally(counts: Mapping[str, int]) -> list[str]:
    """The counts that are not zero, each with its word: ``18 gone``, ``4 reworded``."""
    return [f"{count:,} {word}" for word, count in counts.items() if count]


def join_first(names: list[str], limit: int = 5) -> str:
    """The first names, and how many more there are: ``a, b and 3 more``."""
    first = ", ".join(names[:limit])
    more = len(names) - limit
    return f"{first} and {more:,} more" if more > 0 else first


def listed(names: Sequence[str]) -> str:
    """All names in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    if not first:
        return last
    return f"{', '.join(first)} and {last}"


def reason_pattern(reason: str) -> str:
    """`reason` without what differs from case to case, such as line numbers, ids,
    addresses, timings and quoted texts."""
    return re.sub(_SPECIFICS, lambda match: match["status"] or "…", reason)


def most_common(reasons: Iterable[str]) -> str:
    """The most frequent reason. Reasons of the same pattern are counted together; in a
    tie, the first in alphabetical order is returned."""
    counts = Counter(reasons)
    pattern_counts: Counter[str] = Counter()
    for reason, count in counts.items():
        pattern_counts[reason_pattern(reason)] += count

    def rank(reason: str) -> tuple[int, int, str]:
        pattern_count = pattern_counts[reason_pattern(reason)]
        return -pattern_count, -counts[reason], reason

    return min(counts, key=rank)


def usual_reason(reasons: Iterable[str]) -> str:
    """The most frequent of `reasons`, shortened and without a full stop."""
    return clipped(most_common(reasons).rstrip("."))


def interval_words(
    low: float, high: float, confidence: float, shown: Callable[[float], str] = score
) -> str:
    """An interval in words: ``95 % interval 0.71 to 0.84``."""
    return f"{percent(confidence)} interval {shown(low)} to {shown(high)}"


def clipped(reason: str, limit: int = 160) -> str:
    """`reason`, cut to `limit` characters. Reports show it in full with the samples
    that it is about."""
    if len(reason) <= limit:
        return reason
    beginning = reason[: limit - 1].rstrip()
    return f"{beginning}…"
