"""Numbers in one notation: number words, fractions, signs, powers and times of day are
written as digits."""

from __future__ import annotations

import re
from functools import cache, partial

from msgspec import Struct

from ragstone.judge.offline.lexicon import Language, load_data

_DIGITS = r"\d+(?:[.,]\d+)*"
_COMMA_THOUSANDS = re.compile(r"^\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_POINT_THOUSANDS = re.compile(r"^\d{1,3}(?:\.\d{3})+(?:,\d+)?$")
_POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e\+?(\d{1,2})(?!\w)", re.IGNORECASE)
# Words, also joined ones: "twenty-four", "treinta y uno", "vingt et un".
_WORDS = re.compile(r"[^\W\d_]+(?:(?:-| y | et )[^\W\d_]+)*")
# With the slash that normalised text has in place of "½".
_FRACTION = re.compile(r"(?<!\d)(\d)\u2044(\d)(?!\d)")
_NOON_HOUR = 12
SHARE = "share"
"""The base unit of percentages: 20 % are 0.2."""


class Amount(Struct, frozen=True):
    """A quantity in its base unit: two years are 24 months."""

    unit: str
    value: float


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def plain_numbers(text: str, language: Language) -> str:
    """`text` with its numbers as digits: "twenty-four" as 24, "1.2 million" as 1200000,
    "half a year" as 0.5 year, "3 pm" as 15:00, "minus 5" as -5, "1e3" as 1000."""
    if not language.has_lists:
        return text
    text = _POWER.sub(
        lambda match: f"{float(match[1]) * 10 ** int(match[2]):.0f}", text
    )
    text = _FRACTION.sub(lambda match: f"{int(match[1]) / int(match[2]):g}", text)
    text = _pattern(language.clock_pattern).sub(_plain_time, text)
    text = _WORDS.sub(partial(_plain_word, language), text)
    text = _pattern(_magnitude_pattern(language)).sub(
        partial(_plain_magnitude, language), text
    )
    text = _pattern(language.half_pattern).sub("0.5 ", text)
    minus = rf"(?<![\w.,])(?:{language.minus_pattern}) (?=\d)"
    return _pattern(minus).sub("-", text)


def plain_number(digits: str) -> str:
    """``1,200.50`` and ``1.200,50`` as ``1200.5``, ``09:00`` as ``9:00``; text that is
    no number, such as ``3.11.7``, is unchanged."""
    if digits.startswith("-"):
        return "-" + plain_number(digits[1:])
    if _COMMA_THOUSANDS.match(digits):
        digits = digits.replace(",", "")
    elif _POINT_THOUSANDS.match(digits) and ("," in digits or digits.count(".") > 1):
        digits = digits.replace(".", "").replace(",", ".")
    elif digits.count(",") == 1 and "." not in digits:
        digits = digits.replace(",", ".")
    if digits.count(".") == 1:
        digits = digits.rstrip("0").rstrip(".")
    integer, point, fraction = digits.partition(".")
    return (integer.lstrip("0") or "0") + point + fraction


def amount(number: str, unit: str) -> Amount | None:
    """A plain number of `unit` in its base unit; None if it is no decimal number, or
    the unit is none of units.json."""
    if unit not in load_data("units.json") or not _is_decimal(number):
        return None
    base_unit, factor = load_data("units.json")[unit]
    return Amount(base_unit, round(float(number) * factor, 6))


@cache
def _magnitude_pattern(language: Language) -> str:
    """Matches a number before a word for a power of ten."""
    words = "|".join(language.magnitudes)
    return rf"(?<![\w.,])({_DIGITS})[ -]?({words})\b"


def _plain_magnitude(language: Language, match: re.Match[str]) -> str:
    number = plain_number(match[1])
    if not _is_decimal(number):
        return match[0]
    exponent = language.magnitudes[match[2].lower()]
    return f"{float(number) * 10**exponent:.0f}"


def _plain_word(language: Language, match: re.Match[str]) -> str:
    """The digits of a number word; other words are unchanged."""
    word = match[0].lower().replace(" ", "-")
    return language.numbers.get(word, match[0])


def _plain_time(match: re.Match[str]) -> str:
    """A time of day with its hour from 0 to 23. The group `late` is a word for the
    afternoon or evening, `early` one for the hours before noon."""
    hour = int(match[1])
    if match["early"] and hour == _NOON_HOUR:
        hour = 0
    if match["late"] and hour < _NOON_HOUR:
        hour += _NOON_HOUR
    return f"{hour}:{match[2] or '00'}"


def _is_decimal(number: str) -> bool:
    return number.replace(".", "", 1).isdecimal()
