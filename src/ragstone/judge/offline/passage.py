"""Texts parsed once, and only as far as they are asked about: sentences, keys, and the positions of each key."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Generic, Self, TypeVar, overload

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.tokens import (
    FUNCTION,
    NUMBER,
    has_unspaced,
    key_sequence,
    plain_number,
    running,
    sequence_words,
    small_words,
    spaced_keys,
    surface_words,
    unspaced_sequence,
)
from ragstone.judge.sentences import split_sentences

Made = TypeVar("Made")
_Mark = TypeVar("_Mark")


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

_REACH = 6
_AVERTED_REACH = 8
_MARK_REACH = 3
_NEGATED_KEYS = 2
_MEASURE = re.compile(r"([$€£¥])? ?(?<![\w.,])(\d+(?:[.,]\d+)*)[\s-]{0,2}(%|°?[^\W\d_]+)?")
_MAX_COPIED = 32
_NONE = frozenset[str]()
"""Shared, so that sentences without negations and numbers give garbage collection nothing to visit."""


class Sentence:
    """One sentence, as normalised text; `negates` is False if it is known to negate nothing. Equal only to itself."""

    def __init__(
        self, text: str, language: Language, *, keys: tuple[str, ...] | None = None, negates: bool = True
    ) -> None:
        self.text = text
        self.language = language
        self._negates = negates
        if keys is not None:
            self.keys = keys

    @Lazy
    def keys(self) -> tuple[str, ...]:
        """The content keys, in order, with repeats."""
        (found,) = spaced_keys((self.text,), self.language)
        return tuple(filter(None, self.sequence)) if found is None else found

    @Lazy
    def key_set(self) -> frozenset[str]:
        """The content keys."""
        return frozenset(self.keys)

    @Lazy
    def sequence(self) -> tuple[str, ...]:
        """The keys of its tokens, FUNCTION for function words."""
        return tuple(_sequence(self.text, self._tokens, self.language))

    @Lazy
    def function(self) -> frozenset[str]:
        """Its function words, in lower case."""
        return self.language.function.intersection(self._small) or _NONE

    @Lazy
    def negated(self) -> frozenset[str]:
        """The keys right after a negation."""
        if not self._negates:
            return _NONE
        if "n't" not in self.text and self.language.negations.isdisjoint(self._small):
            return _NONE
        return _negated(self._tokens, self.sequence, self.language)

    @property
    def negations(self) -> int:
        """How often it negates."""
        return sum(token in self.language.negations or token.endswith("n't") for token in self._tokens)

    @property
    def denies(self) -> bool:
        """Whether it says of something that it is not true."""
        negations = self.language.negations
        return any(
            token in negations and _denies(self._tokens, position, self.language)
            for position, token in enumerate(self._tokens)
        )

    @Lazy
    def averted(self) -> frozenset[str]:
        """The keys after a word that denies without a negation: "avoid", "rather than"."""
        if self.language.averting.isdisjoint(self.lowered) or len(self._tokens) != len(self.sequence):
            return _NONE
        return frozenset(
            key
            for position, token in enumerate(self._tokens)
            if token in self.language.averting
            for key in self.sequence[position + 1 : position + 1 + _AVERTED_REACH]
            if key
        )

    @Lazy
    def surface(self) -> tuple[str, ...]:
        """The tokens as written."""
        return surface_words(self.text)

    @Lazy
    def lowered(self) -> tuple[str, ...]:
        """The tokens in lower case."""
        return self._tokens if self.text.isascii() else tuple(token.lower() for token in self.surface)

    @Lazy
    def months(self) -> frozenset[int]:
        """The months that are named, from 1."""
        months = self.language.months
        bare = [token.rpartition("'")[2] for token in self.lowered] if "'" in self.text else self.lowered
        return frozenset(months[month] for month in months.keys() & bare)

    @Lazy
    def measures(self) -> Mapping[str, frozenset[str]]:
        """Its numbers with their units."""
        found: dict[str, frozenset[str]] = {}
        for currency, digits, after in _MEASURE.findall(self.text) if self.numbers else ():
            if unit := self.language.units.get(currency) or _unit(after.lower(), self.language):
                number = plain_number(digits)
                found[number] = found.get(number, _NONE) | {unit}
        return found

    @Lazy
    def quantities(self) -> Mapping[str, int]:
        """The keys after "all", "some", "few"..., with the rank of that word."""
        return dict(self._after(self.language.quantities))

    @Lazy
    def directions(self) -> Mapping[str, frozenset[tuple[int, bool]]]:
        """The keys after "before", "more"..., with what is said there, as an axis and the value on it."""
        found: dict[str, frozenset[tuple[int, bool]]] = {}
        for key, mark in self._after(self.language.directions):
            found[key] = found.get(key, frozenset()) | {mark}
        return found

    def _after(self, marks: Mapping[str, _Mark]) -> Iterator[tuple[str, _Mark]]:
        """The first content key within reach after each word of `marks`, with what that word stands for."""
        if not self._aligned or marks.keys().isdisjoint(self.lowered):
            return
        for position, token in enumerate(self.lowered):
            if token in marks:
                after = (key for key in self.sequence[position + 1 : position + 1 + _MARK_REACH] if key != FUNCTION)
                if key := next(after, FUNCTION):
                    yield key, marks[token]

    @Lazy
    def names(self) -> tuple[Name, ...]:
        """Its names, except months and what opens the sentence before a comma: "In Paris, ..."."""
        if not self._aligned:
            return ()
        runs: list[Name] = []
        capitals = [
            position
            for position, token in enumerate(self.surface)
            if token[0].isupper()
            and (key := self.sequence[position]) != FUNCTION
            and not key.startswith(NUMBER)
            and token.lower() not in self.language.months
        ]
        start = end = -1
        for position in (*capitals, len(self.surface) + 1):
            if position != end:
                if start >= 0 and not (start == 1 and f"{self.surface[end - 1]}, " in self.text):
                    runs.append((start, end, tuple(self.sequence[start:end])))
                start = position
            end = position + 1
        return tuple(runs)

    @property
    def marked(self) -> bool:
        """Whether it may have months, quantities or directions."""
        return "'" in self.text or not self.language.marks.isdisjoint(self.lowered)

    @property
    def capitals(self) -> bool:
        """Whether a letter after the first may be a capital."""
        return not self.text[1:].islower()

    @Lazy
    def numbers(self) -> frozenset[str]:
        """The keys of numbers."""
        return frozenset(key for key in self.key_set if key.startswith(NUMBER)) or _NONE

    @Lazy
    def _tokens(self) -> tuple[str, ...]:
        """The tokens whose keys are the sequence."""
        return sequence_words(self.text)

    @Lazy
    def _small(self) -> tuple[str, ...]:
        """Its function words and negations."""
        return small_words(self.text, self.language)

    @property
    def _aligned(self) -> bool:
        """Whether each token has one key; not in scripts without spaces."""
        return len(self.surface) == len(self.sequence)


class Passage:
    """One text, as the texts of its sentences. What is asked about all sentences is found without parsing each."""

    def __init__(self, texts: tuple[str, ...], language: Language, whole: str = "") -> None:
        self.texts = texts
        self._whole = whole
        self.language = language
        self._sentences: dict[int, Sentence] = {}
        self._pairs: dict[int, frozenset[tuple[str, str]]] = {}

    def sentence(self, position: int) -> Sentence:
        """The sentence at `position` (from 0), parsed once."""
        found = self._sentences.get(position)
        if found is None:
            found = self._sentences[position] = Sentence(
                self.texts[position], self.language, keys=self.keys[position], negates=self._negates
            )
        return found

    def pairs(self, position: int) -> frozenset[tuple[str, str]]:
        """The `neighbours` among the keys of the sentence at `position`."""
        found = self._pairs.get(position)
        if found is None:
            found = self._pairs[position] = frozenset(neighbours(self.keys[position]))
        return found

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """All sentences."""
        return tuple(map(self.sentence, range(len(self.texts))))

    @Lazy
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The content keys of each sentence, in order, with repeats."""
        found = spaced_keys(self.texts, self.language)
        return tuple(
            [_keys(text, self.language) if keys is None else keys for text, keys in zip(self.texts, found, strict=True)]
        )

    @Lazy
    def running(self) -> tuple[tuple[str, str], ...]:
        """The text without marks, and if that makes a difference as it is, each with its words in order."""
        bare = "\n".join(self.texts)
        found = {running(text): text for text in (self._whole, bare)}
        return tuple((text, run) for run, text in found.items())

    @Lazy
    def places(self) -> Mapping[str, Sequence[int]]:
        """For each content key, the positions (from 0) of the sentences that contain it, in order."""
        found: dict[str, Sequence[int]] = {}
        for position, keys in enumerate(self.keys):
            here = (position,)
            for key in keys:
                earlier = found.get(key)
                if earlier is None:
                    found[key] = here  # most keys occur once, and share one tuple for each sentence
                elif earlier[-1] != position:
                    if isinstance(earlier, list):
                        earlier.append(position)
                    else:  # tuples of numbers cost the garbage collector nothing, but grow in quadratic time
                        found[key] = (*earlier, position) if len(earlier) < _MAX_COPIED else [*earlier, position]
        return found

    @Lazy
    def function(self) -> frozenset[str]:
        """All function words, in lower case."""
        return self.language.function.intersection(self._small)

    @Lazy
    def _small(self) -> tuple[str, ...]:
        """All function words and negations, each once."""
        text = " ".join(self.texts)
        each = self.texts if has_unspaced(text) else (text,)
        return tuple(set(chain.from_iterable(small_words(one, self.language) for one in each)))

    @Lazy
    def _negates(self) -> bool:
        return not self.language.negations.isdisjoint(self._small) or any("n't" in text for text in self.texts)


def _unit(text: str, language: Language) -> str | None:
    """The unit that `text` is; in scripts without spaces, the longest unit that it starts with."""
    if language.spaced:
        return language.units.get(text)
    return next((language.units[text[:size]] for size in range(6, 0, -1) if text[:size] in language.units), None)


def _keys(text: str, language: Language) -> tuple[str, ...]:
    return tuple(filter(None, _sequence(text, sequence_words(text), language)))


def _sequence(text: str, tokens: Sequence[str], language: Language) -> list[str]:
    return unspaced_sequence(tokens, language) if has_unspaced(text) else key_sequence(tokens, language)


def neighbours(keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Pairs of neighbouring `keys`, and of keys with one in between."""
    return chain(pairwise(keys), zip(keys, keys[2:], strict=False))


def read_sentence(text: str, language: Language) -> Sentence:
    """Normalised `text` as one sentence."""
    return Sentence(text, language)


def _negated(lowered: Sequence[str], sequence: Sequence[str], language: Language) -> frozenset[str]:
    """The first content keys after each negation, unless they also occur elsewhere in the sentence: "passing the ball
    without control of the ball"; all after "it is not true that". Empty for scripts without spaces, whose tokens
    aren't words.
    """
    if len(lowered) != len(sequence):
        return frozenset()
    found: list[str] = []
    for position, token in enumerate(lowered):
        if token in language.negations or token.endswith("n't"):
            if not language.only.isdisjoint(lowered[position + 1 : position + 2]):
                continue
            after = [
                key for key in sequence[position + 1 : position + 1 + _REACH] if key and not key.startswith(NUMBER)
            ]
            denied = _denies(lowered, position, language)
            found.extend(filter(None, sequence[position + 1 :]) if denied else after[:_NEGATED_KEYS])
    return frozenset(key for key in found if found.count(key) >= sequence.count(key))


def _denies(lowered: Sequence[str], position: int, language: Language) -> bool:
    """Whether the negation at `position` denies all that follows."""
    return not language.truths.isdisjoint(lowered[position + 1 : position + 3])


def read_passage(text: str, language: Language) -> Passage:
    """The raw `text`, normalised and parsed."""
    plain = normalise(text)
    return Passage(tuple(split_sentences(plain, language.code)), language, plain)
