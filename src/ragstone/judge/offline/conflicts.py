"""Conflicts between sentences about the same subject: a negation, an opposite, another
number or unit, another name, or exchanged roles."""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec import Struct

from ragstone.judge.offline.passage import Fact, Sentence
from ragstone.judge.offline.tokens import keys_of

KINDS = ("negation", "opposite", "number", "name", "roles")
"""The kinds of conflict. Another direction is an opposite, too: "below" for "above"."""

_UNRELATED_SHARE = 0.4
"""A sentence that contains this share of a statement is still unrelated, so that no
conflict between the two counts. The more a sentence contains, the more a conflict
counts."""


class Neighbour(Struct, frozen=True):
    """A sentence near to a statement: it contains much of the statement."""

    sentence: Sentence
    share: float
    """The share of the statement's keys that the sentence contains."""


def find_conflicts(
    statement: Sentence, neighbours: Sequence[Neighbour], found_keys: Set[str]
) -> tuple[float, ...]:
    """How sure a conflict of `statement` with its `neighbours` is, in [0, 1], for each
    of KINDS.

    The closest neighbour is the first; `found_keys` are the keys of the statement that
    any text contains.
    """
    if not neighbours or not statement.language.has_lists:
        return (0.0,) * len(KINDS)
    sentences = [neighbour.sentence for neighbour in neighbours]
    closest = sentences[0]
    for question, assertion in ((statement, closest), (closest, statement)):
        # A question with the answer yes or no conflicts if the other answer is right.
        if question.is_denied is not None:
            is_contrary = _is_opposite(question, assertion) or _is_negated_otherwise(
                question, [assertion]
            )
            contrary = float(is_contrary != question.is_denied)
            return (contrary, contrary, 0.0, 0.0, 0.0)
    share = neighbours[0].share
    weight = _weight(share)
    # A conflict in single words counts as if these were the same.
    weight_of_words = _weight(max(share, _likeness(statement, closest)))
    unknown_numbers = set(statement.numbers)
    directions: set[Fact] = set()
    units: set[Fact] = set()
    roles: set[Fact] = set()
    for sentence in sentences:
        unknown_numbers -= sentence.numbers
        # The same amount in another unit.
        unknown_numbers -= {
            statement.amounts.get(value, "") for value in sentence.amounts
        }
        directions |= sentence.directions
        units |= sentence.units
        roles |= sentence.roles
    is_opposite = _is_opposite(statement, closest)
    is_opposite = is_opposite or _has_other_fact(statement.directions, directions)
    # A number that no neighbour has, where the closest one has a number that the
    # statement lacks.
    is_other_number = bool(unknown_numbers) and not closest.numbers <= statement.numbers
    is_other_number = is_other_number or _has_other_fact(statement.units, units)
    # A name that no text has, where the closest neighbour has a name that the statement
    # lacks. Where all nouns have capitals, names can't be told.
    is_other_name = (
        not statement.language.capitalises_nouns
        and not statement.name_keys <= found_keys
        and not closest.name_keys <= statement.key_set
    )
    return (
        weight * _is_negated_otherwise(statement, sentences),
        weight_of_words * is_opposite,
        weight_of_words * is_other_number,
        weight_of_words * is_other_name,
        weight * _has_other_fact(statement.roles, roles),
    )


def _weight(share: float) -> float:
    """How much a conflict counts with a sentence that contains this share."""
    return ((share - _UNRELATED_SHARE) / (1 - _UNRELATED_SHARE)) ** 2


def _likeness(statement: Sentence, sentence: Sentence) -> float:
    """The share of the statement's words that are in `sentence`, where numbers, units,
    names and words with an opposite in the sentence don't count. A measure alone has no
    other words: 1 for it."""
    units = keys_of(statement.language).units
    words = statement.key_set - statement.numbers - statement.name_keys - units
    for side, opposite_side in keys_of(statement.language).opposites:
        if opposite_side & sentence.key_set:
            words -= side
    if not words:
        return float(not statement.key_set.isdisjoint(units))
    return len(words & sentence.key_set) / len(words)


def _is_negated_otherwise(statement: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether the statement negates what no sentence near to it negates, or vice versa.

    Sentences are left out in which one side negates the opposite of the other's word:
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
    statement_asserted = statement.key_set - statement.negated
    statement_negated = statement.key_set & statement.negated
    is_denied = statement_asserted & (negated - asserted)
    return bool(is_denied or statement_negated & (asserted - negated))


def _negates_opposite(sentence: Sentence, assertion: Sentence) -> bool:
    """Whether `sentence` negates a word, and `assertion` says its opposite."""
    if not sentence.negated:
        return False
    asserted = assertion.key_set - assertion.negated
    return any(
        sentence.negated & side and asserted & opposite_side
        for side, opposite_side in keys_of(sentence.language).opposites
    )


def _is_opposite(statement: Sentence, sentence: Sentence) -> bool:
    """Whether the sentence says the opposite of a word of the statement, while neither
    of them also says the other's word. If just one of them is negated, they agree."""
    for side, opposite_side in keys_of(statement.language).opposites:
        has_opposites = statement.key_set & side and sentence.key_set & opposite_side
        shared = (sentence.key_set & side) | (statement.key_set & opposite_side)
        if shared or not has_opposites:
            continue
        is_statement_negated = bool(statement.negated & side)
        if is_statement_negated == bool(sentence.negated & opposite_side):
            return True
    return False


def _has_other_fact(facts: Set[Fact], neighbouring_facts: Set[Fact]) -> bool:
    """Whether `neighbouring_facts` say something else of a subject of `facts`."""
    subjects = {subject for subject, _ in neighbouring_facts}
    return any(subject in subjects for subject, _ in facts - neighbouring_facts)
