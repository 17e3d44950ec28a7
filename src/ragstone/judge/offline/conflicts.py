"""Finds conflicts between sentences about the same things: a different number, month, name, unit, quantity or
direction, a negation, an opposite, or exchanged roles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Name, Sentence
from ragstone.judge.offline.tokens import FUNCTION, NUMBER, keys_of

KINDS = ("negation", "opposite", "number", "month", "name", "unit", "quantity", "direction", "roles")
"""The kinds of conflict."""

_AGENT_REACH = 4


def conflicting(
    mine: Sentence, close: Sequence[Sentence], same: int, held: Collection[str], language: Language
) -> tuple[bool, ...]:
    """For each of KINDS, whether the statement `mine` conflicts with sentences close to it.

    `close` (at least one) are the sentences that contain half of the statement, the closest first; the first `same` of
    them contain nearly all of it. `held` are the keys of the statement that any text contains.
    """
    named, marked = mine.capitals, mine.marked
    return (
        not _negation_agrees(mine, close, language)
        if language.spaced
        else _negated_otherwise(mine, close[:same], language),
        _opposed(mine, close[0], language),
        _other_number(mine, held, close[0]),
        marked and bool(mine.months) and _other_month(mine, close),
        named and _other_name(mine, close[0], held, 2 if language.nouns_capitalised else 1),
        bool(mine.measures) and _other_unit(mine, close),
        marked and bool(mine.quantities) and _other_quantity(mine, close),
        marked and bool(mine.directions) and _other_direction(mine, close),
        named and len(mine.names) > 1 and _exchanged(mine, close[:same], language),
    )


def _negation_agrees(statement: Sentence, close: Sequence[Sentence], language: Language) -> bool:
    """False when the statement negates what no sentence close to it negates, or vice versa.

    Sentences in which one side negates the opposite of the other's word are left out: "not allowed", "forbidden". A
    word is no difference where the side that doesn't negate it averts it ("avoid", "rather than"), and where both sides
    have as many negations, one of them of the same word.
    """
    if not statement.negated and not any(sentence.negated for sentence in close):
        return True
    close = [sentence for sentence in close if not _negates_opposite(statement, sentence, language)]
    alike = [
        bool(statement.negated & sentence.negated) and statement.negations == sentence.negations for sentence in close
    ]
    for key in statement.key_set:
        differs = [
            not same
            and (key in sentence.negated) is not (key in statement.negated)
            and key not in (statement if key in sentence.negated else sentence).averted
            for sentence, same in zip(close, alike, strict=True)
            if key in sentence.key_set
        ]
        if differs and all(differs):
            return False
    return True


def _negates_opposite(statement: Sentence, sentence: Sentence, language: Language) -> bool:
    opposites = keys_of(language.code).opposites
    return any(
        key in opposites and not opposites[key][1].isdisjoint(other.key_set - other.negated)
        for one, other in ((statement, sentence), (sentence, statement))
        for key in one.negated
    )


def _negated_otherwise(statement: Sentence, same: Sequence[Sentence], language: Language) -> bool:
    """For scripts without spaces: whether sentences that say nearly the same differ from the statement in negation."""
    mine = _has_negation(statement.text, language)
    return bool(same) and all(_has_negation(sentence.text, language) is not mine for sentence in same)


def _has_negation(text: str, language: Language) -> bool:
    return any(negation in text for negation in language.negations)


def _opposed(statement: Sentence, sentence: Sentence, language: Language) -> bool:
    """Whether the sentence says the opposite of a word of the statement, without also saying that word.

    If one of the two is negated, they agree. If the sentence says both, as in "sales rose while costs fell", the word's
    neighbours in the statement decide.
    """
    opposites = keys_of(language.code).opposites
    for key in statement.key_set & opposites.keys():
        mine, theirs = opposites[key]
        if not sentence.key_set & theirs or statement.key_set & theirs:
            continue
        if (key in statement.negated) is sentence.negated.isdisjoint(theirs):
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


def _other_month(statement: Sentence, others: Sequence[Sentence]) -> bool:
    theirs = frozenset[int]().union(*(other.months for other in others))
    return bool(theirs) and not statement.months <= theirs


def _other_name(statement: Sentence, closest: Sentence, held: Collection[str], least: int) -> bool:
    """Whether most of a name is found nowhere, and the closest sentence has one that the statement lacks.

    Runs of fewer than `least` capitalised words are no names: where nouns are capitalised, it takes two.
    """
    unheld = any(
        2 * sum(key in held for key in keys) < len(keys)
        for start, end, keys in statement.names
        if end - start >= least and (start or end - start > 1)
    )
    return unheld and any(
        key not in statement.key_set for start, end, keys in closest.names if end - start >= least for key in keys
    )


def _other_unit(statement: Sentence, others: Sequence[Sentence]) -> bool:
    """Whether a number has a different unit here than in all sentences close by."""
    for number, units in statement.measures.items():
        theirs = [other.measures[number] for other in others if number in other.measures]
        if theirs and all(units.isdisjoint(found) for found in theirs):
            return True
    return False


def _other_quantity(statement: Sentence, others: Sequence[Sentence]) -> bool:
    """Whether the statement claims a larger quantity than the text: "all" where the text says "some"."""
    for key, level in statement.quantities.items():
        theirs = [other.quantities[key] for other in others if key in other.quantities]
        if theirs and all(level > one or level < 0 < one for one in theirs):
            return True
    return False


def _other_direction(statement: Sentence, others: Sequence[Sentence]) -> bool:
    for key, marks in statement.directions.items():
        theirs = [other.directions[key] for other in others if key in other.directions]
        for axis, value in marks:
            same_axis = [found for found in theirs if any(one == axis for one, _ in found)]
            if same_axis and all((axis, value) not in found and (axis, not value) in found for found in same_axis):
                return True
    return False


def _exchanged(statement: Sentence, others: Sequence[Sentence], language: Language) -> bool:
    """Whether two names next to each other switched places around the same word in the same voice, or kept them in the
    other.
    """
    for first, second in pairwise(statement.names):
        between = _between(statement, first, second)
        if first[2][-1] == second[2][-1] or not between:
            continue
        mine = _passive(statement, second[0], language)
        seen = [found for other in others for found in _orders(other, first[2], second[2], between, language)]
        if seen and all((forward is (passive is mine)) is False for forward, passive in seen):
            return True
    return False


def _orders(
    other: Sentence, first: tuple[str, ...], second: tuple[str, ...], between: set[str], language: Language
) -> Iterator[tuple[bool, bool]]:
    """Whether `other` names `first` before `second`, and whether it is passive, wherever something links the two."""
    for left, right in pairwise(other.names):
        forward = first[-1] in left[2] and second[-1] in right[2]
        back = second[-1] in left[2] and first[-1] in right[2]
        if forward is not back and between & _between(other, left, right):
            yield forward, _passive(other, right[0], language)


def _between(found: Sentence, left: Name, right: Name) -> set[str]:
    """The content keys between two names."""
    return set(found.sequence[left[1] : right[0]]) - {FUNCTION}


def _passive(found: Sentence, start: int, language: Language) -> bool:
    """Whether the name at `start` is introduced as an agent: by Ada, von Ada, by the engineer Ada."""
    return not language.agents.isdisjoint(found.lowered[max(0, start - _AGENT_REACH) : start])
