"""Texts parsed once, and only as far as they are asked about: sentences, keys, and the positions of each key."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar, overload

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.numerals import amount, plain_number, plain_numbers
from ragstone.judge.offline.tokens import (
    FUNCTION,
    NUMBER,
    content_keys,
    has_unspaced,
    key_sequence,
    sequence_words,
    surface_words,
    unspaced_sequence,
)
from ragstone.judge.sentences import split_sentences

Made = TypeVar("Made")


class Lazy(Generic[Made]):
    """An attribute that is computed once. Like `functools.cached_property`, without its lock (before Python 3.12) and
    without a dict for each object, which garbage collection would have to visit.
    """

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Made: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Made:
        if instance is None:
            return self
        made = self._make(instance)
        setattr(instance, self._name, made)  # found before this descriptor from now on
        return made


class TextCache(Generic[Made]):
    """`make(text, code)`, cached for the most recent texts, up to `characters` of them together."""

    def __init__(self, make: Callable[[str, str], Made], characters: int) -> None:
        self._make = make
        self._most = characters
        self._characters = 0
        self._known: OrderedDict[tuple[str, str], Made] = OrderedDict()

    def __call__(self, text: str, code: str) -> Made:
        key = (text, code)
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        made = self._make(text, code)
        self.add(text, code, made)
        return made

    def add(self, text: str, code: str, made: Made) -> None:
        """Add what `make` would return for `text`, unless it is known."""
        if (text, code) in self._known:
            return
        self._known[text, code] = made
        self._characters += len(text) + 1
        while self._characters > self._most and self._known:
            (old, _), _ = self._known.popitem(last=False)
            self._characters -= len(old) + 1


Name = tuple[int, int, tuple[str, ...]]
"""A run of capitalised keys: its start and end in the sequence, and the keys."""

_CLAUSE = re.compile(r"[;:.!?]\s|,\s(?=(?:and|but|und|aber|et|mais|y|pero)\b)")
_NEGATION_REACH = 6
_NEGATED_KEYS = 2
_AVERTED_REACH = 8
_MARK_REACH = 3
_MEASURE = re.compile(r"([$€£¥])? ?(?<![\w.,])(-?\d+(?:[.,]\d+)*)[\s-]{0,2}(%|°?[^\W\d_]+|°)?")
_NONE = frozenset[str]()
"""Shared, so that sentences without negations and numbers give garbage collection nothing to visit."""


class Sentence:
    """One sentence, as normalised text. `denied`: the text is a question that is answered with no, so that the opposite
    of what it asks is claimed. Equal only to itself.
    """

    def __init__(self, text: str, language: Language, *, denied: bool | None = None) -> None:
        self.text = text
        self.language = language
        self.denied = denied

    @Lazy
    def plain(self) -> str:
        """The text with plain numbers."""
        return plain_numbers(self.text, self.language)

    @Lazy
    def keys(self) -> tuple[str, ...]:
        """The content keys, in order, with repeats."""
        return content_keys(self.plain, self.language)

    @Lazy
    def key_set(self) -> frozenset[str]:
        """The content keys."""
        return frozenset(self.keys)

    @Lazy
    def tokens(self) -> tuple[str, ...]:
        """The tokens whose keys are the sequence, in lower case."""
        return sequence_words(self.plain)

    @Lazy
    def sequence(self) -> tuple[str, ...]:
        """The keys of its tokens, FUNCTION for function words."""
        return tuple(_sequence(self.plain, self.tokens, self.language))

    @Lazy
    def surface(self) -> tuple[str, ...]:
        """The tokens as written."""
        return surface_words(self.plain)

    @Lazy
    def function(self) -> frozenset[str]:
        """Its function words."""
        return self.language.function.intersection(self.tokens) or _NONE

    @property
    def numbers(self) -> frozenset[str]:
        """The keys of numbers and months."""
        return frozenset(key for key in self.key_set if key.startswith(NUMBER)) or _NONE

    @Lazy
    def negated(self) -> frozenset[str]:
        """The first content keys after each negation in its clause, or the last ones before it, or a number or month:
        "not in August". Keys that also occur elsewhere in the sentence are left out: "passing the ball without control
        of the ball". Empty for languages without word lists.
        """
        if not self.negations:
            return _NONE
        keys: list[str] = []
        for clause in _CLAUSE.split(self.plain):
            tokens = sequence_words(clause)
            sequence = _sequence(clause, tokens, self.language)
            for at in (at for at, token in enumerate(tokens) if self._negates(token)):
                if self.language.only.isdisjoint(tokens[at + 1 : at + 2]):
                    after = sequence[at + 1 : at + 1 + _NEGATION_REACH]
                    before = sequence[max(0, at - _NEGATION_REACH) : at][::-1]
                    words = _words(after) or _words(before) or list(filter(None, after))
                    keys += words[:_NEGATED_KEYS]
        return frozenset(key for key in keys if keys.count(key) >= self.sequence.count(key)) or _NONE

    @property
    def negations(self) -> int:
        """How often it negates."""
        return sum(map(self._negates, self.tokens))

    def _negates(self, token: str) -> bool:
        return token in self.language.negations or token.endswith("n't")

    @Lazy
    def averted(self) -> frozenset[str]:
        """The keys after a word that denies without a negation: "avoid", "rather than"."""
        if self.language.averting.isdisjoint(self.tokens):
            return _NONE
        return frozenset(
            key
            for position, token in enumerate(self.tokens)
            if token in self.language.averting
            for key in self.sequence[position + 1 : position + 1 + _AVERTED_REACH]
            if key
        )

    @Lazy
    def directions(self) -> Mapping[str, frozenset[tuple[int, bool]]]:
        """The keys after "before", "more"..., with what is said there, as an axis and the end of it."""
        marks = self.language.directions
        if marks.keys().isdisjoint(self.tokens):
            return {}
        directions: dict[str, frozenset[tuple[int, bool]]] = {}
        for position, token in enumerate(self.tokens):
            after = self.sequence[position + 1 : position + 1 + _MARK_REACH] if token in marks else ()
            key = next(filter(None, after), FUNCTION)
            if key:
                directions[key] = directions.get(key, frozenset()) | {marks[token]}
        return directions

    @Lazy
    def measures(self) -> Mapping[str, frozenset[str]]:
        """The keys of its numbers that have a unit, with these units."""
        measures: dict[str, frozenset[str]] = {}
        units = self.language.units
        if not self.numbers:
            return measures
        found = [
            (NUMBER + plain_number(digits), units.get(currency) or units.get(after.lower()))
            for currency, digits, after in _MEASURE.findall(self.plain)
        ]
        found += [(key, units.get(word)) for key, word in zip(self.sequence, self.tokens[1:], strict=False)]
        for key, unit in found:
            if unit and key.startswith(NUMBER):
                measures[key] = measures.get(key, _NONE) | {unit}
        return measures

    @Lazy
    def amounts(self) -> Mapping[tuple[str, float], str]:
        """What its measures come to in base units, with the keys of their numbers: two years are 24 months."""
        each = [(amount(key[1:], unit), key) for key, units in self.measures.items() for unit in units]
        return {value: key for value, key in each if value is not None}

    @Lazy
    def names(self) -> tuple[Name, ...]:
        """Its names, except what opens the sentence before a comma: "In Paris, ..."."""
        if len(self.surface) != len(self.sequence):
            return ()
        runs: list[Name] = []
        capitals = [
            position
            for position, token in enumerate(self.surface)
            if token[0].isupper() and self.sequence[position] and not self.sequence[position].startswith(NUMBER)
        ]
        start = end = -1
        for position in (*capitals, len(self.surface) + 1):
            if position != end:
                if start >= 0 and not (start == 1 and f"{self.surface[end - 1]}, " in self.text):
                    runs.append((start, end, tuple(self.sequence[start:end])))
                start = position
            end = position + 1
        return tuple(runs)

    @Lazy
    def name_keys(self) -> frozenset[str]:
        """The keys of capitalised words except the first word (German nouns aren't names, but are rare words too)."""
        if self.text[1:].islower() or len(self.surface) != len(self.sequence):
            return _NONE
        pairs = zip(self.surface[1:], self.sequence[1:], strict=True)
        return frozenset(key for token, key in pairs if key and token[0].isupper() and not key.startswith(NUMBER))


class Passage:
    """One text, as the texts of its sentences, which are parsed only as far as they are asked about."""

    def __init__(self, texts: tuple[str, ...], language: Language) -> None:
        self.texts = texts
        self.language = language
        self._sentences: dict[int, Sentence] = {}

    @classmethod
    def of(cls, sentence: Sentence) -> Passage:
        """The text that is this one sentence."""
        passage = cls((sentence.text,), sentence.language)
        passage._sentences[0] = sentence
        return passage

    def sentence(self, position: int) -> Sentence:
        """The sentence at `position` (from 0), parsed once."""
        sentence = self._sentences.get(position)
        if sentence is None:
            sentence = self._sentences[position] = Sentence(self.texts[position], self.language)
        return sentence

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """All sentences."""
        return tuple(map(self.sentence, range(len(self.texts))))

    @Lazy
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The content keys of each sentence, in order, with repeats."""
        return tuple(content_keys(plain_numbers(text, self.language), self.language) for text in self.texts)

    @Lazy
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of neighbouring keys in its sentences."""
        return frozenset(pair for keys in self.keys for pair in pairwise(keys))

    @Lazy
    def places(self) -> Mapping[str, Sequence[int]]:
        """For each content key, the positions (from 0) of the sentences that contain it, in order."""
        places: dict[str, list[int]] = {}
        for position, keys in enumerate(self.keys):
            for key in keys:
                positions = places.setdefault(key, [])
                if not positions or positions[-1] != position:
                    positions.append(position)
        return places

    @Lazy
    def function(self) -> frozenset[str]:
        """All function words."""
        return self.language.function.intersection(sequence_words(" ".join(self.texts).lower()))

    @Lazy
    def amounts(self) -> frozenset[tuple[str, float]]:
        """What the measures in it come to in base units."""
        return frozenset(value for sentence in self.sentences for value in sentence.amounts)


def read_sentence(text: str, language: Language) -> Sentence:
    """Normalised `text` as one sentence."""
    return Sentence(text, language)


def read_passage(text: str, language: Language) -> Passage:
    """The raw `text`, normalised and parsed."""
    return Passage(tuple(split_sentences(normalise(text), language.code)), language)


def _words(keys: Sequence[str]) -> list[str]:
    """Those of content words, without numbers and months."""
    return [key for key in keys if key and not key.startswith(NUMBER)]


def _sequence(text: str, tokens: Sequence[str], language: Language) -> list[str]:
    return unspaced_sequence(tokens, language) if has_unspaced(text) else key_sequence(tokens, language)
