"""Numbers in one way of writing: number words, fractions, signs, powers and times of
day become digits."""

from __future__ import annotations

import re
from functools import cache, partial

from ragstone.judge.offline.lexicon import Language, load_data

_DIGITS = r"\d+(?:[.,]\d+)*"
_THOUSANDS = re.compile(r"^\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_POINT_THOUSANDS = re.compile(r"^\d{1,3}(?:\.\d{3})+(?:,\d+)?$")
_POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e\+?(\d{1,2})(?!\w)", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]+(?:(?:-| y | et )[^\W\d_]+)*")

_FRACTION = re.compile(r"(?<!\d)(\d)\u2044(\d)(?!\d)")
_NOON = 12
SHARE = "share"
"""The base unit of percentages: 0.2 is 20 %."""


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def plain_numbers(text: str, of: Language) -> str:
    """`text` with its numbers as digits: "twenty-four" as 24, "1.2 million" as 1200000,
    "half a year" as 0.5 year, "3 pm" as 15:00, "minus 5" as -5, "1e3" as 1000.
    """
    if not of.has_lists:
        return text
    text = _POWER.sub(
        lambda match: f"{float(match[1]) * 10 ** int(match[2]):.0f}", text
    )
    text = _FRACTION.sub(lambda match: f"{int(match[1]) / int(match[2]):g}", text)
    text = _pattern(of.clock).sub(_time, text)
    text = _WORDS.sub(
        lambda match: of.numbers.get(match[0].lower().replace(" ", "-"), match[0]), text
    )
    text = _pattern(_scales(of)).sub(partial(_scaled, of), text)
    text = _pattern(of.half).sub("0.5 ", text)
    return _pattern(rf"(?<![\w.,])(?:{of.minus}) (?=\d)").sub("-", text)


def plain_number(digits: str) -> str:
    """``1,200.50`` and ``1.200,50`` as ``1200.5``, ``09:00`` as ``9:00``; other text is
    unchanged (``3.11.7``)."""
    if digits.startswith("-"):
        return "-" + plain_number(digits[1:])
    if _THOUSANDS.match(digits):
        digits = digits.replace(",", "")
    elif _POINT_THOUSANDS.match(digits) and ("," in digits or digits.count(".") > 1):
        digits = digits.replace(".", "").replace(",", ".")
    elif digits.count(",") == 1 and "." not in digits:
        digits = digits.replace(",", ".")
    if digits.count(".") == 1:
        digits = digits.rstrip("0").rstrip(".")
    whole, point, fraction = digits.partition(".")
    return (whole.lstrip("0") or "0") + point + fraction


def amount(number: str, unit: str) -> tuple[str, float] | None:
    """A plain number of `unit` in base units; None if it is no multiple of one."""
    if unit not in load_data("units.json") or not _is_decimal(number):
        return None
    base, size = load_data("units.json")[unit]
    return base, round(float(number) * size, 6)


@cache
def _scales(of: Language) -> str:
    powers = "|".join(of.magnitudes)
    return rf"(?<![\w.,])({_DIGITS})[ -]?({powers})\b"


def _scaled(of: Language, match: re.Match[str]) -> str:
    number = plain_number(match[1])
    if not _is_decimal(number):
        return match[0]
    return f"{float(number) * 10 ** of.magnitudes[match[2].lower()]:.0f}"


def _time(match: re.Match[str]) -> str:
    """A time of day with its hour from 0 to 23; `late` matches a word for the afternoon
    or evening, `early` one for the hours before noon."""
    hour = int(match[1])
    if match["early"] and hour == _NOON:
        hour = 0
    if match["late"] and hour < _NOON:
        hour += _NOON
    return f"{hour}:{match[2] or '00'}"


def _is_decimal(number: str) -> bool:
    return number.replace(".", "", 1).isdecimal()
