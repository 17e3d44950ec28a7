"""Parsed texts: sentences, their keys, what they negate and measure, and the positions
of each key. All of this is computed when it is first used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.numerals import Amount, amount, plain_number, plain_numbers
from ragstone.judge.offline.tokens import NUMBER, KeySet, Tokens, tokenise, union, words
from ragstone.judge.sentences import split_sentences

Fact = tuple[Hashable, Hashable]
"""A subject, and what is said of it."""

_CLAUSE_BOUNDARY = re.compile(r"[;:.!?]\s|,\s(?=(?:and|but|und|aber|et|mais|y|pero)\b)")
# How many tokens away from a word the words that it refers to may be.
_NEGATION_REACH = 6
_DIRECTION_REACH = 3
_AGENT_REACH = 4
_MAX_NEGATED_KEYS = 2
# A currency before a number, or a unit after it.
_MEASURE = re.compile(
    r"([$€£¥])? ?(?<![\w.,])(-?\d+(?:[.,]\d+)*)[\s-]{0,2}(%|°?[^\W\d_]+|°)?"
)


class Name(Struct, frozen=True):
    """A run of capitalised words."""

    start: int
    """The index of its first word in the key sequence of its sentence."""
    end: int
    """The index after its last word."""
    keys: tuple[str, ...]


class Sentence:
    """One sentence, as normalised text. Equal only to itself."""

    def __init__(
        self, text: str, language: Language, *, is_denied: bool | None = None
    ) -> None:
        self.text = text
        self.language = language
        self.is_denied = is_denied
        """Whether the text is a question that is answered with no, so that the opposite
        of what it asks is claimed; None if it is no question."""

    @cached_property
    def plain_text(self) -> str:
        """The text with plain numbers."""
        return plain_numbers(self.text, self.language)

    @cached_property
    def _tokens(self) -> Tokens:
        return tokenise(self.plain_text, self.language)

    @property
    def tokens(self) -> Sequence[str]:
        """The tokens, in lower case."""
        return self._tokens.words

    @property
    def key_sequence(self) -> Sequence[str]:
        """The keys of its tokens, FUNCTION for function words."""
        return self._tokens.keys

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The content keys, in order, with repeats."""
        return tuple(filter(None, self.key_sequence))

    @cached_property
    def key_set(self) -> KeySet:
        """The content keys."""
        return frozenset(self.keys)

    @cached_property
    def surface_forms(self) -> Sequence[str]:
        """The tokens as written."""
        return words(self.plain_text)

    @cached_property
    def function_words(self) -> KeySet:
        """The function words in it."""
        return self.language.function_words.intersection(self.tokens)

    @cached_property
    def numbers(self) -> KeySet:
        """The keys of numbers and months."""
        return frozenset(key for key in self.key_set if key.startswith(NUMBER))

    @cached_property
    def negated(self) -> KeySet:
        """The keys that are negated: the first content words after each negation in its
        clause, or the last ones before it if none follow ("in winter, not in August").

        Without keys that are also said elsewhere in the sentence. Empty for languages
        without word lists.
        """
        if not any(map(self._is_negation, self.tokens)):
            return frozenset()
        negated: list[str] = []
        for clause in _CLAUSE_BOUNDARY.split(self.plain_text):
            tokens = tokenise(clause, self.language)
            for index, token in enumerate(tokens.words):
                if not self._is_negation(token):
                    continue
                next_token = tokens.words[index + 1 : index + 2]
                if not self.language.negation_exceptions.isdisjoint(next_token):
                    continue
                first = max(0, index - _NEGATION_REACH)
                last = index + 1 + _NEGATION_REACH
                after = _words(tokens.keys[index + 1 : last])
                before = _words(tokens.keys[first:index])
                negated += after[:_MAX_NEGATED_KEYS] or before[-_MAX_NEGATED_KEYS:]
        other_uses = Counter(self.key_sequence)
        other_uses.subtract(negated)
        return frozenset(key for key in negated if other_uses[key] <= 0)

    def _is_negation(self, token: str) -> bool:
        return token in self.language.negations or token.endswith("n't")

    @cached_property
    def directions(self) -> frozenset[Fact]:
        """For an axis and a word, on which end of the axis the word is: "before noon",
        "more than five"."""
        facts: set[Fact] = set()
        for index, token in enumerate(self.tokens):
            if token in self.language.directions:
                axis, end = self.language.directions[token]
                after = self.key_sequence[index + 1 : index + 1 + _DIRECTION_REACH]
                for key in filter(None, after):
                    facts.add(((axis, key), end))
        return frozenset(facts)

    @cached_property
    def units(self) -> frozenset[tuple[str, str]]:
        """The keys of numbers with their units."""
        units = self.language.units
        facts: set[tuple[str, str]] = set()
        for currency, digits, word_after in _MEASURE.findall(self.plain_text):
            unit = units.get(currency) or units.get(word_after.lower())
            if unit:
                facts.add((NUMBER + plain_number(digits), unit))
        return frozenset(facts)

    @cached_property
    def amounts(self) -> Mapping[Amount, str]:
        """The amounts in base units (two years are 24 months), with the keys of their
        numbers."""
        amounts: dict[Amount, str] = {}
        # 0.2 is the same share as 20 %.
        decimals = [(key, "one") for key in self.numbers if "." in key]
        for key, unit in (*self.units, *decimals):
            value = amount(key.removeprefix(NUMBER), unit)
            if value is not None and key in self.key_set:
                amounts[value] = key
        return amounts

    @cached_property
    def roles(self) -> frozenset[Fact]:
        """For two names in a row and a word between them, which of the two does what
        the word says, also in the passive voice."""
        facts: set[Fact] = set()
        for first, second in pairwise(self.names):
            last_keys = (first.keys[-1], second.keys[-1])
            tokens_before = self.tokens[
                max(0, second.start - _AGENT_REACH) : second.start
            ]
            is_passive = not self.language.agent_markers.isdisjoint(tokens_before)
            agent = last_keys[1] if is_passive else last_keys[0]
            for word in filter(None, self.key_sequence[first.end : second.start]):
                facts.add(((frozenset(last_keys), word), agent))
        return frozenset(facts)

    @cached_property
    def names(self) -> Sequence[Name]:
        """Its names: runs of capitalised words."""
        # With n-grams, keys are not those of tokens.
        if len(self.surface_forms) != len(self.key_sequence):
            return ()
        names: list[Name] = []
        start = None
        # The empty token at the end ends the last run.
        for index, token in enumerate((*self.surface_forms, "")):
            has_content = bool(_words(self.key_sequence[index : index + 1]))
            is_name = token[:1].isupper() and has_content
            if is_name and start is None:
                start = index
            if not is_name and start is not None:
                names.append(Name(start, index, tuple(self.key_sequence[start:index])))
                start = None
        return names

    @cached_property
    def name_keys(self) -> KeySet:
        """The keys of capitalised words, except for the first word. German nouns count,
        too: most of them are as rare as names."""
        keys: set[str] = set()
        for name in self.names:
            keys.update(name.keys if name.start else name.keys[1:])
        return frozenset(keys)


class Passage:
    """A text, as its sentences."""

    def __init__(self, sentences: Sequence[Sentence], language: Language) -> None:
        self.sentences = sentences
        self.language = language

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of content keys in a row in its sentences."""
        return union(pairwise(sentence.keys) for sentence in self.sentences)

    @cached_property
    def positions(self) -> Mapping[str, Sequence[int]]:
        """For each content key, the positions (from 0) of the sentences that contain
        it, in order."""
        positions: dict[str, list[int]] = {}
        for position, sentence in enumerate(self.sentences):
            for key in dict.fromkeys(sentence.keys):
                positions.setdefault(key, []).append(position)
        return positions

    @cached_property
    def function_words(self) -> KeySet:
        """The function words of its sentences."""
        return union(sentence.function_words for sentence in self.sentences)

    @cached_property
    def amounts(self) -> Mapping[Amount, Sequence[int]]:
        """The amounts in base units, with the positions of the sentences that have
        them."""
        amounts: dict[Amount, list[int]] = {}
        for position, sentence in enumerate(self.sentences):
            for value in sentence.amounts:
                amounts.setdefault(value, []).append(position)
        return amounts


def read_passage(text: str, language: Language) -> Passage:
    """Normalise raw `text` and split it into sentences."""
    sentences = split_sentences(normalise(text), language.code)
    return Passage([Sentence(sentence, language) for sentence in sentences], language)


def _words(keys: Sequence[str]) -> list[str]:
    """The keys of content words, without numbers and months."""
    return [key for key in keys if key and not key.startswith(NUMBER)]
