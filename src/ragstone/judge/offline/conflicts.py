"""Finds conflicts between sentences about the same things: a different number, month, name, unit, quantity or
direction, a negation, an opposite, or exchanged roles.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.tokens import FUNCTION, NUMBER, keys_of, plain_number

KINDS = ("negation", "opposite", "number", "month", "name", "unit", "quantity", "direction", "roles")
"""The kinds of conflict."""

_MEASURE = re.compile(r"([$€£¥])? ?(?<![\w.,])(\d+(?:[.,]\d+)*)[\s-]{0,2}(%|°?[^\W\d_]+)?")
_REACH = 3
_AGENT_REACH = 4


_KNOWN: WeakKeyDictionary[Sentence, Details] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Details:
    """The parts of a sentence that can conflict, besides negated keys and opposites. Has no reference to the sentence.

    `measures` maps a number to its units; `directions` a key to what is said right before it, as an axis and the value
    on it; `names` are runs of capitalised keys with their positions in the sequence.
    """

    sequence: tuple[str, ...]
    key_set: frozenset[str]
    months: frozenset[int]
    measures: Mapping[str, frozenset[str]]
    quantities: Mapping[str, int]
    directions: Mapping[str, frozenset[tuple[int, bool]]]
    names: tuple[tuple[int, int, tuple[str, ...]], ...]
    lowered: tuple[str, ...]

    @property
    def special(self) -> bool:
        """Whether anything here can conflict, apart from negations, opposites and numbers."""
        return bool(self.months or self.measures or self.quantities or self.directions or self.names)


def details(sentence: Sentence, language: Language) -> Details:
    """The details of `sentence`, computed once."""
    known = _KNOWN.get(sentence)
    if known is None:
        known = _KNOWN[sentence] = _details(sentence, language)
    return known


def _details(sentence: Sentence, language: Language) -> Details:
    lowered = tuple(token.lower() for token in sentence.surface)
    aligned = len(lowered) == len(sentence.sequence)
    bare = [token.rpartition("'")[2] for token in lowered] if "'" in sentence.text else lowered
    return Details(
        sentence.sequence,
        sentence.key_set,
        frozenset(language.months[month] for month in language.months.keys() & bare),
        _measures(sentence, language),
        _quantities(lowered, sentence.sequence, language) if aligned and language.quantities.keys() & lowered else {},
        _directions(lowered, sentence.sequence, language) if aligned and language.directions.keys() & lowered else {},
        _names(sentence, language.months) if aligned else (),
        lowered,
    )


def conflicting(
    mine: Sentence, close: Sequence[Sentence], same: int, held: Collection[str], language: Language
) -> tuple[bool, ...]:
    """For each of KINDS, whether the statement `mine` conflicts with sentences close to it.

    `close` (at least one) are the sentences that contain half of the statement, the closest first; the first `same` of
    them contain nearly all of it. `held` are the keys of the statement that any text contains.
    """
    plain = (
        not _negation_agrees(mine, close) if language.spaced else _negated_otherwise(mine, close[:same], language),
        _opposed(mine, close[0], language),
        _other_number(mine, held, close[0]),
    )
    statement = details(mine, language)
    if not statement.special:
        return (*plain, *(False,) * (len(KINDS) - len(plain)))
    others = [details(sentence, language) for sentence in close]
    return (
        *plain,
        _other_month(statement, others),
        not language.nouns_capitalised and _other_name(statement, others[0], held),
        _other_unit(statement, others),
        _other_quantity(statement, others),
        _other_direction(statement, others),
        _exchanged(statement, others[:same], language),
    )


def _negation_agrees(statement: Sentence, close: Sequence[Sentence]) -> bool:
    """False when the statement negates what no sentence close to it negates, or vice versa."""
    if not statement.negated and not any(sentence.negated for sentence in close):
        return True
    for key in statement.key_set:
        negated = [key in sentence.negated for sentence in close if key in sentence.key_set]
        if negated and all(one is not (key in statement.negated) for one in negated):
            return False
    return True


def _negated_otherwise(statement: Sentence, same: Sequence[Sentence], language: Language) -> bool:
    """For scripts without spaces: whether sentences that say nearly the same differ from the statement in negation."""
    mine = _has_negation(statement.text, language)
    return bool(same) and all(_has_negation(sentence.text, language) is not mine for sentence in same)


def _has_negation(text: str, language: Language) -> bool:
    return any(negation in text for negation in language.negations)


def _opposed(statement: Sentence, sentence: Sentence, language: Language) -> bool:
    """Whether the sentence says the opposite of a word of the statement, without also saying that word.

    If it says both, as in "sales rose while costs fell", the word's neighbours in the statement decide.
    """
    opposites = keys_of(language.code).opposites
    for key in statement.key_set & opposites.keys():
        mine, theirs = opposites[key]
        if not sentence.key_set & theirs or statement.key_set & theirs:
            continue
        if not sentence.key_set & mine:
            return True
        near = _neighbours(sentence, theirs) - _neighbours(sentence, mine)
        if any(not partner.startswith(NUMBER) for partner in near & _neighbours(statement, frozenset({key}))):
            return True
    return False


def _neighbours(sentence: Sentence, keys: frozenset[str]) -> set[str]:
    """The keys that are next to one of `keys`."""
    return {
        other
        for pair in pairwise(sentence.keys)
        for one, other in (pair, pair[::-1])
        if one in keys and other not in keys
    }


def _other_number(statement: Sentence, held: Collection[str], closest: Sentence) -> bool:
    """Whether a number of the statement is found nowhere, and the closest sentence has one that the statement lacks."""
    if all(key in held for key in statement.key_set if key.startswith(NUMBER)):
        return False
    return any(key.startswith(NUMBER) and key not in statement.key_set for key in closest.key_set)


def _other_month(statement: Details, others: Sequence[Details]) -> bool:
    theirs = frozenset[int]().union(*(other.months for other in others))
    return bool(theirs) and not statement.months <= theirs


def _other_name(statement: Details, closest: Details, held: Collection[str]) -> bool:
    """Whether most of a name is found nowhere, and the closest sentence has one that the statement lacks."""
    unheld = any(
        2 * sum(key in held for key in keys) < len(keys)
        for start, end, keys in statement.names
        if start or end - start > 1
    )
    return unheld and any(key not in statement.key_set for _, _, keys in closest.names for key in keys)


def _other_unit(statement: Details, others: Sequence[Details]) -> bool:
    """Whether a number has a different unit here than in all sentences close by."""
    for number, units in statement.measures.items():
        theirs = [other.measures[number] for other in others if number in other.measures]
        if theirs and all(units.isdisjoint(found) for found in theirs):
            return True
    return False


def _other_quantity(statement: Details, others: Sequence[Details]) -> bool:
    """Whether the statement claims a larger quantity than the text: "all" where the text says "some"."""
    for key, level in statement.quantities.items():
        theirs = [other.quantities[key] for other in others if key in other.quantities]
        if theirs and all(level > one or level < 0 < one for one in theirs):
            return True
    return False


def _other_direction(statement: Details, others: Sequence[Details]) -> bool:
    for key, marks in statement.directions.items():
        theirs = [other.directions[key] for other in others if key in other.directions]
        for axis, value in marks:
            same_axis = [found for found in theirs if any(one == axis for one, _ in found)]
            if same_axis and all((axis, value) not in found and (axis, not value) in found for found in same_axis):
                return True
    return False


def _exchanged(statement: Details, others: Sequence[Details], language: Language) -> bool:
    """Whether two names switched places around the same word in the same voice, or kept them in the other."""
    runs = statement.names
    for at, (_, first_end, first) in enumerate(runs):
        for second_start, _, second in runs[at + 1 :]:
            if first[-1] == second[-1]:
                continue
            between = set(statement.sequence[first_end:second_start]) - {FUNCTION}
            if not between:
                continue
            mine = _passive(statement, second_start, language)
            seen = [found for other in others if (found := _order(other, first, second, between, language)) is not None]
            if seen and all((forward is (passive is mine)) is False for forward, passive in seen):
                return True
    return False


def _order(
    other: Details, first: tuple[str, ...], second: tuple[str, ...], between: set[str], language: Language
) -> tuple[bool, bool] | None:
    """Whether `other` names `first` before `second`, and whether it is passive; None if nothing links the two."""
    one = next((run for run in other.names if first[-1] in run[2]), None)
    two = next((run for run in other.names if second[-1] in run[2]), None)
    if one is None or two is None or one == two:
        return None
    forward = one[0] < two[0]
    left, right = (one, two) if forward else (two, one)
    if not between & set(other.sequence[left[1] : right[0]]):
        return None
    return forward, _passive(other, right[0], language)


def _passive(found: Details, start: int, language: Language) -> bool:
    """Whether the name at `start` is introduced as an agent: by Ada, von Ada, by the engineer Ada."""
    return not language.agents.isdisjoint(found.lowered[max(0, start - _AGENT_REACH) : start])


def _names(sentence: Sentence, months: Collection[str]) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Runs of capitalised tokens, except months and what opens the sentence before a comma: "In Paris, ..."."""
    runs: list[tuple[int, int, tuple[str, ...]]] = []
    start: int | None = None
    keys: list[str] = []
    surface = (*sentence.surface, ".")
    for position, (token, key) in enumerate(zip(surface, (*sentence.sequence, FUNCTION), strict=True)):
        if token[0].isupper() and key != FUNCTION and not key.startswith(NUMBER) and token.lower() not in months:
            start = position if start is None else start
            keys.append(key)
        elif start is not None:
            if not (start == 1 and f"{surface[position - 1]}, " in sentence.text):
                runs.append((start, position, tuple(keys)))
            start, keys = None, []
    return tuple(runs)


def _measures(sentence: Sentence, language: Language) -> dict[str, frozenset[str]]:
    if not any(key.startswith(NUMBER) for key in sentence.key_set):
        return {}
    found: dict[str, frozenset[str]] = {}
    for currency, digits, after in _MEASURE.findall(sentence.text):
        unit = language.units.get(currency) or _unit(after.lower(), language)
        if unit:
            number = plain_number(digits)
            found[number] = found.get(number, frozenset()) | {unit}
    return found


def _unit(text: str, language: Language) -> str | None:
    """The unit that `text` is; in scripts without spaces, the longest unit that it starts with."""
    if language.spaced:
        return language.units.get(text)
    return next((language.units[text[:size]] for size in range(6, 0, -1) if text[:size] in language.units), None)


def _quantities(lowered: Sequence[str], sequence: Sequence[str], language: Language) -> dict[str, int]:
    found = {}
    for position, token in enumerate(lowered):
        level = language.quantities.get(token)
        if level is not None:
            key = _next_key(sequence, position)
            if key:
                found[key] = level
    return found


def _directions(
    lowered: Sequence[str], sequence: Sequence[str], language: Language
) -> dict[str, frozenset[tuple[int, bool]]]:
    found: dict[str, frozenset[tuple[int, bool]]] = {}
    for position, token in enumerate(lowered):
        mark = language.directions.get(token)
        if mark is not None:
            key = _next_key(sequence, position)
            if key:
                found[key] = found.get(key, frozenset()) | {mark}
    return found


def _next_key(sequence: Sequence[str], position: int) -> str:
    """The first content key within reach after `position`; FUNCTION when there is none."""
    return next((key for key in sequence[position + 1 : position + 1 + _REACH] if key != FUNCTION), FUNCTION)
