"""Texts parsed once, and only as far as they are asked about: sentences, their keys,
what they negate and measure, and the positions of each key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.numerals import amount, plain_number, plain_numbers
from ragstone.judge.offline.tokens import NUMBER, KeySet, tokens_and_keys, union, words
from ragstone.judge.sentences import split_sentences

Name = tuple[int, int, tuple[str, ...]]
"""A run of capitalised keys: its start and end in the sequence, and the keys."""

Amount = tuple[str, float]
Fact = tuple[Hashable, Hashable]
"""What something is said of, and what is said of it."""

_CLAUSE = re.compile(r"[;:.!?]\s|,\s(?=(?:and|but|und|aber|et|mais|y|pero)\b)")
_NEGATION_REACH = 6
_NEGATED_KEYS = 2
_DIRECTION_REACH = 3
_AGENT_REACH = 4
_MEASURE = re.compile(
    r"([$€£¥])? ?(?<![\w.,])(-?\d+(?:[.,]\d+)*)[\s-]{0,2}(%|°?[^\W\d_]+|°)?"
)


class Sentence:
    """One sentence, as normalised text. Equal only to itself."""

    def __init__(
        self, text: str, language: Language, *, denied: bool | None = None
    ) -> None:
        self.text = text
        self.language = language
        self.denied = denied
        """Whether the text is a question that is answered with no, so that the opposite
        of what it asks is claimed; None if it is no question."""

    @cached_property
    def plain(self) -> str:
        """The text with plain numbers."""
        return plain_numbers(self.text, self.language)

    @cached_property
    def _read(self) -> tuple[list[str], list[str]]:
        return tokens_and_keys(self.plain, self.language)

    @property
    def tokens(self) -> Sequence[str]:
        """The tokens, in lower case."""
        return self._read[0]

    @property
    def sequence(self) -> Sequence[str]:
        """The keys of its tokens, FUNCTION for function words."""
        return self._read[1]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The content keys, in order, with repeats."""
        return tuple(filter(None, self.sequence))

    @cached_property
    def key_set(self) -> KeySet:
        """The content keys."""
        return frozenset(self.keys)

    @cached_property
    def surface(self) -> Sequence[str]:
        """The tokens as written."""
        return words(self.plain)

    @cached_property
    def function(self) -> KeySet:
        """Its function words."""
        return self.language.function.intersection(self.tokens)

    @cached_property
    def numbers(self) -> KeySet:
        """The keys of numbers and months."""
        return frozenset(key for key in self.key_set if key.startswith(NUMBER))

    @cached_property
    def negated(self) -> KeySet:
        """The first content words after each negation in its clause, or the last ones
        before it: "in winter, not in August"; without those that are also said
        elsewhere. Empty for languages without word lists.
        """
        if not any(map(self._negates, self.tokens)):
            return frozenset()
        negated: list[str] = []
        for clause in _CLAUSE.split(self.plain):
            tokens, keys = tokens_and_keys(clause, self.language)
            for at, token in enumerate(tokens):
                if not self._negates(token):
                    continue
                if not self.language.only.isdisjoint(tokens[at + 1 : at + 2]):
                    continue
                after = _words(keys[at + 1 : at + 1 + _NEGATION_REACH])
                before = _words(keys[max(0, at - _NEGATION_REACH) : at])
                negated += after[:_NEGATED_KEYS] or before[-_NEGATED_KEYS:]
        also_said = Counter(self.sequence)
        also_said.subtract(negated)
        return frozenset(key for key in negated if also_said[key] <= 0)

    def _negates(self, token: str) -> bool:
        return token in self.language.negations or token.endswith("n't")

    @cached_property
    def directions(self) -> frozenset[Fact]:
        """On which end of an axis a word is: "before noon", "more than"."""
        facts: set[Fact] = set()
        for at, token in enumerate(self.tokens):
            if token in self.language.directions:
                axis, end = self.language.directions[token]
                after = self.sequence[at + 1 : at + 1 + _DIRECTION_REACH]
                for key in filter(None, after):
                    facts.add(((axis, key), end))
        return frozenset(facts)

    @cached_property
    def units(self) -> frozenset[tuple[str, str]]:
        """The units of numbers."""
        units = self.language.units
        facts: set[tuple[str, str]] = set()
        for currency, digits, after in _MEASURE.findall(self.plain):
            unit = units.get(currency) or units.get(after.lower())
            if unit:
                facts.add((NUMBER + plain_number(digits), unit))
        return frozenset(facts)

    @cached_property
    def amounts(self) -> Mapping[Amount, str]:
        """What its measures come to in base units, with the keys of their numbers: two
        years are 24 months."""
        amounts: dict[Amount, str] = {}
        decimals = [(key, "one") for key in self.numbers if "." in key]
        for key, unit in (*self.units, *decimals):
            value = amount(key.removeprefix(NUMBER), unit)
            if value is not None and key in self.key_set:
                amounts[value] = key
        return amounts

    @cached_property
    def roles(self) -> frozenset[Fact]:
        """Which of two names that follow each other does what a word between them
        says, also in the passive voice."""
        facts: set[Fact] = set()
        for (_, first_end, first), (start, _, second) in pairwise(self.names):
            names = (first[-1], second[-1])
            before = self.tokens[max(0, start - _AGENT_REACH) : start]
            is_passive = not self.language.agents.isdisjoint(before)
            for word in filter(None, self.sequence[first_end:start]):
                facts.add(((frozenset(names), word), names[is_passive]))
        return frozenset(facts)

    @cached_property
    def names(self) -> Sequence[Name]:
        """Its names: runs of capitalised words."""
        if len(self.surface) != len(self.sequence):
            return ()
        names: list[Name] = []
        start = None
        for at, token in enumerate((*self.surface, "")):
            is_name = token[:1].isupper() and bool(_words(self.sequence[at : at + 1]))
            if is_name and start is None:
                start = at
            if not is_name and start is not None:
                names.append((start, at, tuple(self.sequence[start:at])))
                start = None
        return names

    @cached_property
    def name_keys(self) -> KeySet:
        """The keys of capitalised words except the first word (German nouns aren't
        names, but are rare words too)."""
        keys: set[str] = set()
        for start, _, name in self.names:
            keys.update(name if start else name[1:])
        return frozenset(keys)


class Passage:
    """One text, as its sentences, which are parsed only as far as they are asked
    about."""

    def __init__(self, sentences: Sequence[Sentence], language: Language) -> None:
        self.sentences = sentences
        self.language = language

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of neighbouring keys in its sentences."""
        return union(pairwise(sentence.keys) for sentence in self.sentences)

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
    def function(self) -> KeySet:
        """All function words."""
        return union(sentence.function for sentence in self.sentences)

    @cached_property
    def amounts(self) -> Mapping[Amount, Sequence[int]]:
        """What the measures in it come to, with the positions of their sentences."""
        amounts: dict[Amount, list[int]] = {}
        for position, sentence in enumerate(self.sentences):
            for value in sentence.amounts:
                amounts.setdefault(value, []).append(position)
        return amounts


def read_passage(text: str, language: Language) -> Passage:
    """The raw `text`, normalised and parsed."""
    sentences = split_sentences(normalise(text), language.code)
    return Passage([Sentence(sentence, language) for sentence in sentences], language)


def _words(keys: Sequence[str]) -> list[str]:
    """Those of content words, without numbers and months."""
    return [key for key in keys if key and not key.startswith(NUMBER)]
