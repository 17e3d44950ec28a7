"""Conflicts between sentences about the same things: a negation, an opposite, another
number or unit, another name, or exchanged roles.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ragstone.judge.offline.passage import Fact, Sentence
from ragstone.judge.offline.tokens import keys_of

KINDS = ("negation", "opposite", "number", "name", "roles")
"""The kinds of conflict. An opposite is also another direction: "below" for "above"."""

_UNRELATED = 0.4
"""The share of a statement in a sentence from which a conflict between the two counts,
the more, the larger it is."""


def conflicting(
    statement: Sentence,
    near: Sequence[tuple[Sentence, float]],
    matched: Set[str],
) -> tuple[float, ...]:
    """For each of KINDS, how surely `statement` conflicts with the sentences near to
    it, in [0, 1].

    `near` are the sentences that contain half of the statement, the closest first, each
    with the share of the statement that it contains; `matched` are the keys of the
    statement that any text contains.
    """
    if not near or not statement.language.has_lists:
        return (0.0,) * len(KINDS)
    sentences = [sentence for sentence, _ in near]
    closest, share = near[0]
    for question, assertion in ((statement, closest), (closest, statement)):
        # A question that is answered with yes or no: is the other answer given?
        if question.denied is not None:
            is_contrary = _opposed(question, assertion) or _negated_otherwise(
                question, [assertion]
            )
            contrary = float(is_contrary is not question.denied)
            return (contrary, contrary, 0.0, 0.0, 0.0)
    alike = _weight(share)
    otherwise_alike = _weight(max(share, _likeness(statement, closest)))
    # A number that is found in no sentence near by, where the closest one has a number
    # that the statement lacks.
    unknown = set(statement.numbers)
    directions: set[Fact] = set()
    units: set[Fact] = set()
    roles: set[Fact] = set()
    for sentence in sentences:
        unknown -= sentence.numbers
        unknown -= {statement.amounts.get(value, "") for value in sentence.amounts}
        directions |= sentence.directions
        units |= sentence.units
        roles |= sentence.roles
    is_opposite = _opposed(statement, closest)
    is_opposite = is_opposite or _other_fact(statement.directions, directions)
    is_other_number = bool(unknown) and not closest.numbers <= statement.numbers
    is_other_number = is_other_number or _other_fact(statement.units, units)
    # A name that is found nowhere, where the closest sentence has one that the
    # statement lacks. Not where all nouns have capitals.
    is_other_name = (
        not statement.language.nouns_capitalised
        and not statement.name_keys <= matched
        and not closest.name_keys <= statement.key_set
    )
    return (
        alike * _negated_otherwise(statement, sentences),
        otherwise_alike * is_opposite,
        otherwise_alike * is_other_number,
        otherwise_alike * is_other_name,
        alike * _other_fact(statement.roles, roles),
    )


def _weight(share: float) -> float:
    return ((share - _UNRELATED) / (1 - _UNRELATED)) ** 2


def _likeness(statement: Sentence, sentence: Sentence) -> float:
    """The share of the statement's words that are in `sentence`, without numbers,
    units, names and words of the opposite; of a measure alone, 1."""
    units = keys_of(statement.language).units
    words = statement.key_set - statement.numbers - statement.name_keys - units
    for own, contrary in keys_of(statement.language).opposites:
        if contrary & sentence.key_set:
            words -= own
    if not words:
        return float(not statement.key_set.isdisjoint(units))
    return len(words & sentence.key_set) / len(words)


def _negated_otherwise(statement: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether the statement negates what no sentence near to it negates, or vice versa.

    Sentences in which one side negates the opposite of the other's word are left out:
    "not allowed", "forbidden".
    """
    negated: set[str] = set()
    asserted: set[str] = set()
    for sentence in sentences:
        if _negates_opposite(statement, sentence):
            continue
        if not _negates_opposite(sentence, statement):
            negated |= sentence.negated & sentence.key_set
            asserted |= sentence.key_set - sentence.negated
    own_asserted = statement.key_set - statement.negated
    own_negated = statement.key_set & statement.negated
    is_denied = own_asserted & (negated - asserted)
    return bool(is_denied or own_negated & (asserted - negated))


def _negates_opposite(sentence: Sentence, assertion: Sentence) -> bool:
    """Whether `sentence` negates a word whose opposite `assertion` says."""
    if not sentence.negated:
        return False
    asserted = assertion.key_set - assertion.negated
    return any(
        sentence.negated & own and asserted & contrary
        for own, contrary in keys_of(sentence.language).opposites
    )


def _opposed(statement: Sentence, sentence: Sentence) -> bool:
    """Whether the sentence says the opposite of a word of the statement, and not also
    that word. If one of the two is negated, they agree."""
    for own, contrary in keys_of(statement.language).opposites:
        is_opposite = statement.key_set & own and sentence.key_set & contrary
        if not is_opposite or sentence.key_set & own or statement.key_set & contrary:
            continue
        if bool(statement.negated & own) is bool(sentence.negated & contrary):
            return True
    return False


def _other_fact(facts: Set[Fact], near: Set[Fact]) -> bool:
    """Whether of something only other facts are near by."""
    subjects = {subject for subject, _ in near}
    return any(subject in subjects for subject, _ in facts - near)
