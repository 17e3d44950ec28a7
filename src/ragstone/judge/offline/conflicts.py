"""Conflicts between sentences about the same things: a negation, an opposite, another
number or unit, another name, or exchanged roles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from ragstone.judge.offline.passage import Name, Sentence
from ragstone.judge.offline.tokens import FUNCTION, NUMBER, keys_of

KINDS = ("negation", "opposite", "number", "name", "roles")
"""The kinds of conflict. An opposite is also another direction: "below" for "above"."""

_SAME = 0.8
_UNRELATED = 0.4
"""The share of a statement in a sentence from which a conflict between the two counts,
and counts the more."""

_AGENT_REACH = 4


def conflicting(
    statement: Sentence,
    near: Sequence[tuple[Sentence, float]],
    matched: Collection[str],
) -> tuple[float, ...]:
    """For each of KINDS, how surely `statement` conflicts with the sentences near to
    it, in [0, 1]: the more, the more of it the closest one contains.

    `near` are the sentences that contain half of the statement, the closest first, each
    with the share of the statement that it contains; `matched` are the keys of the
    statement that any text contains.
    """
    if not near or not statement.language.has_lists:
        return (0.0,) * len(KINDS)
    sentences = [sentence for sentence, _ in near]
    same = [sentence for sentence, share in near if share >= _SAME]
    closest = sentences[0]
    if statement.denied is not None or closest.denied is not None:
        yes_no_question, assertion = (
            (statement, closest)
            if statement.denied is not None
            else (closest, statement)
        )
        contrary = float(_answers_otherwise(yes_no_question, assertion))
        return (contrary, contrary, *(0.0,) * (len(KINDS) - 2))
    alike = _weight(near[0][1])
    otherwise_alike = _weight(max(near[0][1], _likeness(statement, closest)))
    return (
        alike * _negated_otherwise(statement, sentences),
        otherwise_alike
        * (_opposed(statement, closest) or _other_direction(statement, sentences)),
        otherwise_alike
        * (_other_number(statement, sentences) or _other_unit(statement, sentences)),
        otherwise_alike * _other_name(statement, closest, matched),
        alike * (len(statement.names) > 1 and _exchanged(statement, same)),
    )


def _weight(share: float) -> float:
    return ((share - _UNRELATED) / (1 - _UNRELATED)) ** 2


def _likeness(statement: Sentence, sentence: Sentence) -> float:
    """The share of the statement's words that are in `sentence`, without numbers, names
    and words of the opposite."""
    opposites = keys_of(statement.language.code).opposites
    words = {
        key
        for key in statement.key_set - statement.numbers - statement.name_keys
        if key not in opposites or opposites[key][1].isdisjoint(sentence.key_set)
    }
    return len(words & sentence.key_set) / len(words) if words else 0.0


def _answers_otherwise(question: Sentence, sentence: Sentence) -> bool:
    """Whether `sentence` gives the other answer to the question `question`, which is
    answered with yes or no."""
    contrary = _opposed(question, sentence) or _negated_otherwise(question, [sentence])
    return contrary is not question.denied


def _negated_otherwise(statement: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether the statement negates what no sentence near to it negates, or vice versa.

    Sentences in which one side negates the opposite of the other's word are left out:
    "not allowed", "forbidden". A word is no difference where the side that doesn't
    negate it averts it ("avoid", "rather than"), where it occurs twice on one side, and
    where the sentence negates all that the statement negates, or both have as many
    negations, one of them of the same word.
    """
    if not statement.negated and not any(sentence.negated for sentence in sentences):
        return False
    sentences = [
        sentence
        for sentence in sentences
        if not _negates_opposite(statement, sentence)
        and not _negates_opposite(sentence, statement)
    ]
    alike = [_negates_alike(statement, sentence) for sentence in sentences]
    if alike and alike[0]:
        return False
    for key in statement.key_set:
        differs = [
            not same
            and (key in sentence.negated) is not (key in statement.negated)
            and key not in (statement if key in sentence.negated else sentence).averted
            for sentence, same in zip(sentences, alike, strict=True)
            if sentence.keys.count(key) == 1 == statement.keys.count(key)
        ]
        if differs and all(differs):
            return True
    return False


def _negates_alike(statement: Sentence, sentence: Sentence) -> bool:
    """Whether `sentence` negates all that the statement negates, or as often, and one
    word of it."""
    if not statement.negated & sentence.negated:
        return False
    if statement.negations == sentence.negations:
        return True
    return all(
        key in sentence.negated or sentence.keys.count(key) > 1
        for key in statement.negated
    )


def _negates_opposite(sentence: Sentence, assertion: Sentence) -> bool:
    """Whether `sentence` negates a word whose opposite `assertion` says."""
    opposites = keys_of(sentence.language.code).opposites
    plain = assertion.key_set - assertion.negated
    return any(
        key in opposites and not opposites[key][1].isdisjoint(plain)
        for key in sentence.negated
    )


def _opposed(statement: Sentence, sentence: Sentence) -> bool:
    """Whether the sentence says the opposite of a word of the statement, without also
    saying that word.

    If one of the two is negated, they agree. If the sentence says both, as in "sales
    rose while costs fell", the word's neighbours in the statement decide.
    """
    opposites = keys_of(statement.language.code).opposites
    for key in statement.key_set & opposites.keys():
        own, contrary = opposites[key]
        if not sentence.key_set & contrary or statement.key_set & contrary:
            continue
        if (key in statement.negated) is sentence.negated.isdisjoint(contrary):
            continue
        if not sentence.key_set & own:
            return True
        near = _neighbours(sentence, contrary) - _neighbours(sentence, own)
        if any(
            not partner.startswith(NUMBER)
            for partner in near & _neighbours(statement, frozenset({key}))
        ):
            return True
    return False


def _neighbours(sentence: Sentence, keys: frozenset[str]) -> set[str]:
    """The keys that are next to one of `keys`."""
    pairs = [*pairwise(sentence.keys)]
    return {
        after for before, after in pairs if before in keys and after not in keys
    } | {before for before, after in pairs if after in keys and before not in keys}


def _other_direction(statement: Sentence, sentences: Sequence[Sentence]) -> bool:
    for key, marks in statement.directions.items():
        directions = [
            sentence.directions[key]
            for sentence in sentences
            if key in sentence.directions
        ]
        for axis, end in marks:
            same_axis = [
                ends
                for ends in directions
                if (axis, True) in ends or (axis, False) in ends
            ]
            if same_axis and not any((axis, end) in ends for ends in same_axis):
                return True
    return False


def _other_number(statement: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether a number of the statement is found in no sentence near by, and the
    closest one has a number that the statement lacks.
    """
    near = frozenset[str]().union(*(sentence.numbers for sentence in sentences))
    amounts = {value for sentence in sentences for value in sentence.amounts}
    equal = {key for value, key in statement.amounts.items() if value in amounts}
    return (
        not statement.numbers <= near | equal
        and not sentences[0].numbers <= statement.numbers
    )


def _other_unit(statement: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether a number has a different unit here than in all sentences near by."""
    for number, units in statement.measures.items():
        unit_sets = [
            sentence.measures[number]
            for sentence in sentences
            if number in sentence.measures
        ]
        if unit_sets and all(units.isdisjoint(unit_set) for unit_set in unit_sets):
            return True
    return False


def _other_name(
    statement: Sentence, closest: Sentence, matched: Collection[str]
) -> bool:
    """Whether most of a name is found nowhere, and the closest sentence has one that
    the statement lacks.

    Where nouns are capitalised, a name has two words.
    """
    least = 2 if statement.language.nouns_capitalised else 1
    unknown = any(
        2 * sum(key in matched for key in keys) < len(keys)
        for start, end, keys in statement.names
        if end - start >= least and (start or end - start > 1)
    )
    return unknown and any(
        not statement.key_set.issuperset(keys)
        for start, end, keys in closest.names
        if end - start >= least
    )


def _exchanged(statement: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether two names next to each other switched places around the same word in the
    same voice, or kept them in the other.
    """
    for first, second in pairwise(statement.names):
        between = _between(statement, first, second)
        if first[2][-1] == second[2][-1] or not between:
            continue
        passive = _is_passive(statement, second[0])
        orders = [
            order
            for sentence in sentences
            for order in _orders(sentence, first[2], second[2], between)
        ]
        if orders and all(
            forward is (voice is not passive) for forward, voice in orders
        ):
            return True
    return False


def _orders(
    sentence: Sentence,
    first: tuple[str, ...],
    second: tuple[str, ...],
    between: set[str],
) -> Iterator[tuple[bool, bool]]:
    """Whether `sentence` names `first` before `second`, and whether it is passive,
    wherever something links the two."""
    for earlier, right in pairwise(sentence.names):
        forward = first[-1] in earlier[2] and second[-1] in right[2]
        back = second[-1] in earlier[2] and first[-1] in right[2]
        if forward is not back and between & _between(sentence, earlier, right):
            yield forward, _is_passive(sentence, right[0])


def _between(sentence: Sentence, first: Name, right: Name) -> set[str]:
    """The content keys between two names."""
    return set(sentence.sequence[first[1] : right[0]]) - {FUNCTION}


def _is_passive(sentence: Sentence, start: int) -> bool:
    """Whether the name at `start` is introduced as an agent: by Ada, von Ada, by the
    engineer Ada."""
    return not sentence.language.agents.isdisjoint(
        sentence.tokens[max(0, start - _AGENT_REACH) : start]
    )
