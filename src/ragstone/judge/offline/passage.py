"""Texts parsed once, and only as far as they are asked about: sentences, keys, and the
positions of each key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.numerals import amount, plain_number, plain_numbers
from ragstone.judge.offline.tokens import (
    FUNCTION,
    NUMBER,
    sequence,
    sequence_words,
    surface_words,
)
from ragstone.judge.sentences import split_sentences

Name = tuple[int, int, tuple[str, ...]]
"""A run of capitalised keys: its start and end in the sequence, and the keys."""

_CLAUSE = re.compile(r"[;:.!?]\s|,\s(?=(?:and|but|und|aber|et|mais|y|pero)\b)")
_NEGATION_REACH = 6
_NEGATED_KEYS = 2
_AVERTED_REACH = 8
_MARK_REACH = 3
_MEASURE = re.compile(
    r"([$€£¥])? ?(?<![\w.,])(-?\d+(?:[.,]\d+)*)[\s-]{0,2}(%|°?[^\W\d_]+|°)?"
)
_NONE = frozenset[str]()
"""Shared, so that sentences without negations and numbers give garbage collection
nothing to visit."""


class Sentence:
    """One sentence, as normalised text. `denied`: the text is a question that is
    answered with no, so that the opposite of what it asks is claimed. Equal only to
    itself.
    """

    def __init__(
        self, text: str, language: Language, *, denied: bool | None = None
    ) -> None:
        self.text = text
        self.language = language
        self.denied = denied

    @cached_property
    def plain(self) -> str:
        """The text with plain numbers."""
        return plain_numbers(self.text, self.language)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The content keys, in order, with repeats."""
        return tuple(filter(None, self.sequence))

    @cached_property
    def key_set(self) -> frozenset[str]:
        """The content keys."""
        return frozenset(self.keys)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens whose keys are the sequence, in lower case."""
        return sequence_words(self.plain)

    @cached_property
    def sequence(self) -> tuple[str, ...]:
        """The keys of its tokens, FUNCTION for function words."""
        return tuple(sequence(self.plain, self.language))

    @cached_property
    def surface(self) -> tuple[str, ...]:
        """The tokens as written."""
        return surface_words(self.plain)

    @cached_property
    def function(self) -> frozenset[str]:
        """Its function words."""
        return self.language.function.intersection(self.tokens) or _NONE

    @property
    def numbers(self) -> frozenset[str]:
        """The keys of numbers and months."""
        return frozenset(key for key in self.key_set if key.startswith(NUMBER)) or _NONE

    @cached_property
    def negated(self) -> frozenset[str]:
        """The first content keys after each negation in its clause; where only numbers
        and months follow ("not in August"), the last ones before it, or else these.
        Keys that also occur elsewhere in the sentence are left out: "passing the ball
        without control of the ball". Empty for languages without word lists.
        """
        if not self.negations:
            return _NONE
        negated: list[str] = []
        for clause in _CLAUSE.split(self.plain):
            tokens = sequence_words(clause)
            keys = sequence(clause, self.language)
            for at in (at for at, token in enumerate(tokens) if self._negates(token)):
                if self.language.only.isdisjoint(tokens[at + 1 : at + 2]):
                    after = keys[at + 1 : at + 1 + _NEGATION_REACH]
                    before = keys[max(0, at - _NEGATION_REACH) : at][::-1]
                    numbers = list(filter(None, after))
                    words = _words(after) or (numbers and _words(before)) or numbers
                    negated += words[:_NEGATED_KEYS]
        return (
            frozenset(
                key for key in negated if negated.count(key) >= self.sequence.count(key)
            )
            or _NONE
        )

    @property
    def negations(self) -> int:
        """How often it negates."""
        return sum(map(self._negates, self.tokens))

    def _negates(self, token: str) -> bool:
        return token in self.language.negations or token.endswith("n't")

    @cached_property
    def averted(self) -> frozenset[str]:
        """The keys after a word that denies without a negation: "avoid", "rather
        than"."""
        if self.language.averting.isdisjoint(self.tokens):
            return _NONE
        return frozenset(
            key
            for position, token in enumerate(self.tokens)
            if token in self.language.averting
            for key in self.sequence[position + 1 : position + 1 + _AVERTED_REACH]
            if key
        )

    @cached_property
    def directions(self) -> Mapping[str, frozenset[tuple[int, bool]]]:
        """The keys after "before", "more"..., with what is said there, as an axis and
        the end of it."""
        marks = self.language.directions
        if marks.keys().isdisjoint(self.tokens):
            return {}
        directions: dict[str, frozenset[tuple[int, bool]]] = {}
        for position, token in enumerate(self.tokens):
            after = (
                self.sequence[position + 1 : position + 1 + _MARK_REACH]
                if token in marks
                else ()
            )
            key = next(filter(None, after), FUNCTION)
            if key:
                directions[key] = directions.get(key, frozenset()) | {marks[token]}
        return directions

    @cached_property
    def measures(self) -> Mapping[str, frozenset[str]]:
        """The keys of its numbers that have a unit, with these units."""
        measures: dict[str, frozenset[str]] = {}
        units = self.language.units
        if not self.numbers:
            return measures
        units_by_key = [
            (
                NUMBER + plain_number(digits),
                units.get(currency) or units.get(after.lower()),
            )
            for currency, digits, after in _MEASURE.findall(self.plain)
        ]
        units_by_key += [
            (key, units.get(word))
            for key, word in zip(self.sequence, self.tokens[1:], strict=False)
        ]
        for key, unit in units_by_key:
            if unit and key.startswith(NUMBER):
                measures[key] = measures.get(key, _NONE) | {unit}
        return measures

    @cached_property
    def amounts(self) -> Mapping[tuple[str, float], str]:
        """What its measures come to in base units, with the keys of their numbers: two
        years are 24 months."""
        amounts = [
            (amount(key[1:], unit), key)
            for key, units in self.measures.items()
            for unit in units
        ]
        return {value: key for value, key in amounts if value is not None}

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Its names, except what opens the sentence before a comma: "In Paris, ..."."""
        if len(self.surface) != len(self.sequence):
            return ()
        runs: list[Name] = []
        capitals = [
            position
            for position, token in enumerate(self.surface)
            if token[0].isupper()
            and self.sequence[position]
            and not self.sequence[position].startswith(NUMBER)
        ]
        start = end = -1
        for position in (*capitals, len(self.surface) + 1):
            if position != end:
                if start >= 0 and not (
                    start == 1 and f"{self.surface[end - 1]}, " in self.text
                ):
                    runs.append((start, end, tuple(self.sequence[start:end])))
                start = position
            end = position + 1
        return tuple(runs)

    @cached_property
    def name_keys(self) -> frozenset[str]:
        """The keys of capitalised words except the first word (German nouns aren't
        names, but are rare words too)."""
        if self.text[1:].islower() or len(self.surface) != len(self.sequence):
            return _NONE
        pairs = zip(self.surface[1:], self.sequence[1:], strict=True)
        return frozenset(
            key
            for token, key in pairs
            if key and token[0].isupper() and not key.startswith(NUMBER)
        )


class Passage:
    """One text, as its sentences, which are parsed only as far as they are asked
    about."""

    def __init__(self, sentences: Sequence[Sentence], language: Language) -> None:
        self.sentences = sentences
        self.language = language

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of neighbouring keys in its sentences."""
        return frozenset(
            pair for sentence in self.sentences for pair in pairwise(sentence.keys)
        )

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """For each content key, the positions (from 0) of the sentences that contain
        it, in order."""
        places: dict[str, list[int]] = {}
        for position, sentence in enumerate(self.sentences):
            for key in dict.fromkeys(sentence.keys):
                places.setdefault(key, []).append(position)
        return places

    @cached_property
    def function(self) -> frozenset[str]:
        """All function words."""
        text = " ".join(sentence.text for sentence in self.sentences)
        return self.language.function.intersection(sequence_words(text.lower()))

    @cached_property
    def amounts(self) -> frozenset[tuple[str, float]]:
        """What the measures in it come to in base units."""
        return frozenset(
            value for sentence in self.sentences for value in sentence.amounts
        )


def read_passage(text: str, language: Language) -> Passage:
    """The raw `text`, normalised and parsed."""
    sentences = split_sentences(normalise(text), language.code)
    return Passage(
        tuple(Sentence(sentence, language) for sentence in sentences), language
    )


def _words(keys: Sequence[str]) -> list[str]:
    """Those of content words, without numbers and months."""
    return [key for key in keys if key and not key.startswith(NUMBER)]
