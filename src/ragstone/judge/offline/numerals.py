"""Numbers in one way of writing: number words, fractions, signs, powers and times of
day become digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache

from ragstone.judge.offline.lexicon import Language, language

_DIGITS = r"\d+(?:[.,]\d+)*"
_THOUSANDS = re.compile(r"^\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_POINT_THOUSANDS = re.compile(r"^\d{1,3}(?:\.\d{3})+(?:,\d+)?$")
_NOON = 12
_CLOCK_CUES = {"en": ("m.", "am", "pm"), "de": ("uhr",), "fr": ("h",), "es": ("de la",)}
_HALF_CUES = ("half", "halb", "demi", "medi")
_Rule = tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], str]]
"""Texts of which one must be there for the pattern to match; the pattern; and what it
is replaced by."""

SCALES: Mapping[str, tuple[str, float]] = {
    "decade": ("month", 120),
    "year": ("month", 12),
    "month": ("month", 1),
    "week": ("minute", 10_080),
    "day": ("minute", 1440),
    "hour": ("minute", 60),
    "minute": ("minute", 1),
    "second": ("minute", 1 / 60),
    "kilometre": ("metre", 1000),
    "metre": ("metre", 1),
    "centimetre": ("metre", 0.01),
    "millimetre": ("metre", 0.001),
    "ton": ("gram", 1_000_000),
    "kilogram": ("gram", 1000),
    "gram": ("gram", 1),
    "litre": ("litre", 1),
    "millilitre": ("litre", 0.001),
}
"""For each unit that is a multiple of another one: that unit, and how many of it."""


def plain_numbers(text: str, of: Language) -> str:
    """`text` with its numbers as digits: "twenty-four" as 24, "1.2 million" as 1200000,
    "half a year" as 0.5 year, "3 pm" as 15:00, "minus 5" as -5, "1e3" as 1000.
    """
    lowered = text.lower()
    for cues, pattern, replace in _rules(of.code):
        if any(cue in lowered for cue in cues):
            text = pattern.sub(replace, text)
    return text


def plain_number(digits: str) -> str:
    """``1,200.50`` and ``1.200,50`` as ``1200.5``, ``09:00`` as ``9:00``; other text is
    unchanged (``3.11.7``)."""
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    if _THOUSANDS.match(digits):
        digits = digits.replace(",", "")
    elif _POINT_THOUSANDS.match(digits) and ("," in digits or digits.count(".") > 1):
        digits = digits.replace(".", "").replace(",", ".")
    elif digits.count(",") == 1 and "." not in digits:
        digits = digits.replace(",", ".")
    if digits.count(".") == 1:
        digits = digits.rstrip("0").rstrip(".")
    whole, point, fraction = digits.partition(".")
    return sign + (whole.lstrip("0") or "0") + point + fraction


def amount(number: str, unit: str) -> tuple[str, float] | None:
    """A plain number of `unit` as (base unit, value); None if the unit is no multiple
    of another one."""
    if unit not in SCALES or not number.replace(".", "", 1).isdecimal():
        return None
    base, factor = SCALES[unit]
    return base, round(float(number) * factor, 6)


@cache
def _rules(code: str) -> tuple[_Rule, ...]:
    of = language(code)
    if not of.has_lists:
        return ()
    compounds = sorted(
        (word for word in of.numbers if "-" in word), key=len, reverse=True
    )
    any_compound = "|".join(
        re.escape(word).replace(r"\-", "[- ]") for word in compounds
    )
    powers = "|".join(of.magnitudes)

    def compound(match: re.Match[str]) -> str:
        return of.numbers[match[0].lower().replace(" ", "-")]

    def scaled(match: re.Match[str]) -> str:
        number = of.numbers.get(match[1].lower()) or plain_number(match[1])
        if not number.replace(".", "", 1).isdecimal():
            return match[0]
        value = float(number) * 10 ** of.magnitudes[match[2].lower()]
        return f"{value:.0f}"

    def clock(match: re.Match[str]) -> str:
        hour = int(match[1]) % _NOON if code in ("en", "es") else int(match[1])
        late = _NOON if match["late"] and hour < _NOON else 0
        return f"{hour + late}:{match[2] or '00'}"

    def exponent(match: re.Match[str]) -> str:
        return f"{float(match[1]) * 10 ** int(match[2]):.0f}"

    rules: list[tuple[Collection[str], str, Callable[[re.Match[str]], str]]] = [
        (("e",), r"(?<![\w.])(\d+(?:\.\d+)?)e\+?(\d{1,2})(?!\w)", exponent),
        (_CLOCK_CUES[code], of.clock, clock),
        (
            {word.partition("-")[0] for word in compounds},
            rf"\b(?:{any_compound})\b",
            compound,
        ),
        (of.magnitudes, rf"(?<![\w.,])({_DIGITS}|[^\W\d_]+)[ -]?({powers})\b", scaled),
        (_HALF_CUES, of.half, lambda _: "0.5 "),
        (of.minus.split("|"), rf"(?<![\w.,])(?:{of.minus}) (?=\d)", lambda _: "-"),
    ]
    return tuple(
        (tuple(cues), re.compile(pattern, re.IGNORECASE), replace)
        for cues, pattern, replace in rules
        if cues
    )
