"""Tokens as keys: stems for words, plain values for numbers, character n-grams for
scripts without spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TypeVar

import Stemmer

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.numerals import plain_number

NUMBER = "#"
"""First character of the key of a number or a month; no word's key starts with it."""

FUNCTION = ""
"""The key of a function word: it carries no content."""

_NUMERAL = r"(?:(?<![\w.,:)-])-)?\d+(?:[.,:]\d+)*"
_ASCII_TOKEN = re.compile(rf"{_NUMERAL}[a-zA-Z]*|[a-zA-Z]+(?:'[a-zA-Z]+)?\d*")
# `re` does not count Indic vowel signs and combining accents as word characters, though
# they belong to their word.
_MARKS = "\u0300-\u036f\u0900-\u0963\u0980-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e\u102b-\u103e\u17b6-\u17d3"
_TOKEN = re.compile(
    rf"{_NUMERAL}[^\W\d_]*|[^\W\d_][^\W\d_{_MARKS}]*(?:[{_MARKS}]+[^\W\d_]*)*(?:'[^\W\d_]+)?\d*"
)
_NO_SPACES = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
)
_UNSPACED = f"[{_NO_SPACES}]"
"""A script without spaces between words (Korean counts: its words inflect). Large
classes take milliseconds to compile, and most texts don't need them.
"""
_NGRAM = 2
_PIECES = rf"{_NUMERAL}|[a-zA-Z]+|[{_NO_SPACES}]+|[^\W\d_]+"
_WITH_UNIT = re.compile(r"(-?\d+(?:[.,:]\d+)*)([^\W\d_]*)")
_ORDINALS = frozenset(
    ["st", "nd", "rd", "th", "s", "er", "ème", "e", "º", "ª", "o", "a"]
)
_MAX_CACHED_WORDS = 100_000
_MAX_WORD = 60

T = TypeVar("T")
KeySet = frozenset[str]
Opposites = Sequence[tuple[KeySet, KeySet]]
"""The keys of words, and those of their opposites, in both directions."""


def union(sets: Iterable[Iterable[T]]) -> frozenset[T]:
    """What is in one of `sets`."""
    return frozenset(chain.from_iterable(sets))


def words(text: str) -> list[str]:
    """The tokens of normalised `text` as written, in order."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def tokens_and_keys(text: str, of: Language) -> tuple[list[str], list[str]]:
    """The tokens of normalised `text`, in lower case unless some of it has no spaces,
    and the keys in order, with FUNCTION for function words: one a token, or several
    n-grams for one without spaces."""
    key = keys_of(of).of
    if text.isascii() or re.search(_UNSPACED, text) is None:
        tokens = words(text.lower())
        return tokens, list(map(key, tokens))
    keys: list[str] = []
    for piece in re.findall(_PIECES, text):
        if re.match(_UNSPACED, piece):
            starts = range(max(1, len(piece) - _NGRAM + 1))
            keys += [piece[start : start + _NGRAM] for start in starts]
        else:
            keys.append(key(piece.lower()))
    return words(text), keys


class Keys:
    """Maps lower-case surface words to keys for one language, those of all forms and
    synonyms of a word to one."""

    def __init__(self, of: Language) -> None:
        self._language = of
        self._stem: Callable[[str], str] = str
        if of.stemmer:
            self._stem = Stemmer.Stemmer(of.stemmer, 0).stemWord
        forms = load_data("wordforms.json").get(of.code, {})
        self._base: Mapping[str, str] = forms.get("base", {})
        self._stems = {
            self._stem(form): self._stem(first) for form, first in self._base.items()
        }
        self._contentless = of.function | of.negations | of.hedging
        # Without "m", which may be metres or millions.
        self._endings = _ORDINALS | of.units.keys() - {"m"}
        self._cached = lru_cache(maxsize=_MAX_CACHED_WORDS)(self._key)
        self.units = frozenset(map(self.of, of.units))
        """Words that are units."""
        opposites = []
        for row in forms.get("opposite", ()):
            left, right = (
                frozenset(map(self.of, side.split())) - {FUNCTION}
                for side in row.split("/")
            )
            opposites += [(left, right), (right, left)]
        self.opposites: Opposites = opposites

    def of(self, word: str) -> str:
        """The key of a word, of an endless one by its beginning."""
        return self._cached(word[:_MAX_WORD])

    def _key(self, word: str) -> str:
        of = self._language
        if word in of.absent:
            return word
        if word in self._contentless:
            return FUNCTION
        if word[0].isdecimal() or word[0] == "-":
            digits, unit = _WITH_UNIT.findall(word)[0]
            if unit in self._endings:
                unit = ""
            return f"{NUMBER}{plain_number(digits)}{unit}"
        if word in of.numbers:
            return NUMBER + of.numbers[word]
        base, apostrophe, ending = word.partition("'")
        if apostrophe:
            # don't, it's, Ada's; l'eau, d'Italia.
            if len(ending) > 2 and (base in of.function or base + "'" in of.function):
                return self.of(ending)
            word = base
            if word in of.function:
                return FUNCTION
        if len(word) == 1 and word.isascii():
            return FUNCTION
        word = self._base.get(word, word)
        if word in of.months:
            return f"{NUMBER}m{of.months[word]}"
        if len(word) <= 2:
            return word
        stem = str(self._stem(word))
        return self._stems.get(stem, stem)


@cache
def keys_of(language: Language) -> Keys:
    """The keys of one language."""
    return Keys(language)
