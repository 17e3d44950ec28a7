"""What can conflict between two sentences: months, numbers with units, quantities, directions, and names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.tokens import FUNCTION, NUMBER, plain_number

_MEASURE = re.compile(r"([$€£¥])? ?(?<![\w.,])(\d+(?:[.,]\d+)*)[\s-]{0,2}(%|°?[^\W\d_]+)?")
_REACH = 3
_Mark = TypeVar("_Mark")


def months(text: str, lowered: Sequence[str], language: Language) -> frozenset[int]:
    """The months that are named, from 1."""
    bare = [token.rpartition("'")[2] for token in lowered] if "'" in text else lowered
    return frozenset(language.months[month] for month in language.months.keys() & bare)


def measures(text: str, language: Language) -> Mapping[str, frozenset[str]]:
    """The numbers in `text` with their units."""
    found: dict[str, frozenset[str]] = {}
    for currency, digits, after in _MEASURE.findall(text):
        unit = language.units.get(currency) or _unit(after.lower(), language)
        if unit:
            number = plain_number(digits)
            found[number] = found.get(number, frozenset()) | {unit}
    return found


def quantities(lowered: Sequence[str], sequence: Sequence[str], language: Language) -> Mapping[str, int]:
    """The keys that follow "all", "some", "few"..., with the rank of that word."""
    return dict(_marked(lowered, sequence, language.quantities))


def directions(
    lowered: Sequence[str], sequence: Sequence[str], language: Language
) -> Mapping[str, frozenset[tuple[int, bool]]]:
    """The keys that follow "before", "more"..., with what is said there, as an axis and the value on it."""
    found: dict[str, frozenset[tuple[int, bool]]] = {}
    for key, mark in _marked(lowered, sequence, language.directions):
        found[key] = found.get(key, frozenset()) | {mark}
    return found


def names(
    text: str, surface: Sequence[str], sequence: Sequence[str], no_names: Collection[str]
) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Runs of capitalised keys and their positions, except months and what opens the sentence before a comma: "In
    Paris, ...".
    """
    runs: list[tuple[int, int, tuple[str, ...]]] = []
    capitals = [
        position
        for position, token in enumerate(surface)
        if token[0].isupper()
        and (key := sequence[position]) != FUNCTION
        and not key.startswith(NUMBER)
        and token.lower() not in no_names
    ]
    start = end = -1
    for position in (*capitals, len(surface) + 1):
        if position != end:
            if start >= 0 and not (start == 1 and f"{surface[end - 1]}, " in text):
                runs.append((start, end, tuple(sequence[start:end])))
            start = position
        end = position + 1
    return tuple(runs)


def _unit(text: str, language: Language) -> str | None:
    """The unit that `text` is; in scripts without spaces, the longest unit that it starts with."""
    if language.spaced:
        return language.units.get(text)
    return next((language.units[text[:size]] for size in range(6, 0, -1) if text[:size] in language.units), None)


def _marked(lowered: Sequence[str], sequence: Sequence[str], marks: Mapping[str, _Mark]) -> Iterator[tuple[str, _Mark]]:
    """The first content key within reach after each word of `marks`, with what that word stands for."""
    for position, token in enumerate(lowered):
        if token in marks:
            after = (key for key in sequence[position + 1 : position + 1 + _REACH] if key != FUNCTION)
            if key := next(after, FUNCTION):
                yield key, marks[token]
