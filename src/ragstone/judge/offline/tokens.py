"""Tokens as keys: stems for words, plain values for numbers, character n-grams for
scripts without spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TypeVar

import Stemmer
from msgspec import Struct

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.numerals import plain_number

NUMBER = "#"
"""First character of the key of a number or a month; no word's key starts with it."""

FUNCTION = ""
"""The key of a function word: it carries no content."""

# A number, with a minus that is no hyphen.
_NUMERAL = r"(?:(?<![\w.,:)-])-)?\d+(?:[.,:]\d+)*"
_ASCII_TOKEN = re.compile(rf"{_NUMERAL}[a-zA-Z]*|[a-zA-Z]+(?:'[a-zA-Z]+)?\d*")
# Vowel signs and combining accents: `re` does not count them as word characters, though
# they belong to their word.
_MARKS = "\u0300-\u036f\u0900-\u0963\u0980-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e\u102b-\u103e\u17b6-\u17d3"
_TOKEN = re.compile(
    rf"{_NUMERAL}[^\W\d_]*|[^\W\d_][^\W\d_{_MARKS}]*(?:[{_MARKS}]+[^\W\d_]*)*(?:'[^\W\d_]+)?\d*"
)
_NO_SPACES = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
)
_UNSPACED = f"[{_NO_SPACES}]"
"""Matches a letter of a script without spaces between words. Korean counts as one,
since its words inflect. Not compiled here: large character classes take milliseconds,
and most texts don't need them."""
_NGRAM_CHARACTERS = 2
# A text with parts without spaces: numbers, and runs of letters of one kind.
_PIECES = rf"{_NUMERAL}|[a-zA-Z]+|[{_NO_SPACES}]+|[^\W\d_]+"
_WITH_UNIT = re.compile(r"(-?\d+(?:[.,:]\d+)*)([^\W\d_]*)")
_ORDINAL_ENDINGS = frozenset(
    ["st", "nd", "rd", "th", "s", "er", "ème", "e", "º", "ª", "o", "a"]
)
_MAX_CACHED_WORDS = 100_000
_MAX_WORD_CHARACTERS = 60
"""A longer word is cut: most are no words."""

T = TypeVar("T")
KeySet = frozenset[str]
Opposites = Sequence[tuple[KeySet, KeySet]]
"""The keys of words and those of their opposites. Each pair is there in both orders."""


def union(sets: Iterable[Iterable[T]]) -> frozenset[T]:
    """The union of `sets`."""
    return frozenset(chain.from_iterable(sets))


def words(text: str) -> list[str]:
    """The tokens of normalised `text` as written, in order."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


class Tokens(Struct, frozen=True):
    """The tokens of a text."""

    words: list[str]
    """The tokens in lower case; as written if a part of the text has no spaces."""
    keys: list[str]
    """A key for each token, FUNCTION for function words; the n-grams of parts without
    spaces."""


def tokenise(text: str, language: Language) -> Tokens:
    """The tokens of normalised `text`."""
    key_of = keys_of(language).key
    if text.isascii() or re.search(_UNSPACED, text) is None:
        tokens = words(text.lower())
        return Tokens(tokens, list(map(key_of, tokens)))
    keys: list[str] = []
    for piece in re.findall(_PIECES, text):
        if re.match(_UNSPACED, piece):
            starts = range(max(1, len(piece) - _NGRAM_CHARACTERS + 1))
            keys += [piece[start : start + _NGRAM_CHARACTERS] for start in starts]
        else:
            keys.append(key_of(piece.lower()))
    return Tokens(words(text), keys)


class Keys:
    """Maps words in lower case to keys, for one language. All forms and synonyms of a
    word have the same key."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._stem: Callable[[str], str] = str
        if language.stemmer:
            self._stem = Stemmer.Stemmer(language.stemmer, 0).stemWord
        forms = load_data("wordforms.json").get(language.code, {})
        self._base_by_form: Mapping[str, str] = forms.get("base", {})
        # For further forms of the same words, which the list does not have.
        self._base_by_stem = {
            self._stem(form): self._stem(base)
            for form, base in self._base_by_form.items()
        }
        self._without_content = (
            language.function_words | language.negations | language.hedges
        )
        # What may follow a number. Without "m", which may be metres or millions.
        self._number_endings = _ORDINAL_ENDINGS | language.units.keys() - {"m"}
        self._cached_key = lru_cache(maxsize=_MAX_CACHED_WORDS)(self._key)
        self.units = frozenset(map(self.key, language.units))
        """The keys of units."""
        opposites = []
        for row in forms.get("opposite", ()):
            side, opposite_side = (
                frozenset(map(self.key, words_of_side.split())) - {FUNCTION}
                for words_of_side in row.split("/")
            )
            opposites += [(side, opposite_side), (opposite_side, side)]
        self.opposites: Opposites = opposites

    def key(self, word: str) -> str:
        """The key of a word."""
        return self._cached_key(word[:_MAX_WORD_CHARACTERS])

    def _key(self, word: str) -> str:
        language = self._language
        if word in language.negation_content:
            return word
        if word in self._without_content:
            return FUNCTION
        if word[0].isdecimal() or word[0] == "-":
            digits, ending = _WITH_UNIT.findall(word)[0]
            if ending in self._number_endings:
                ending = ""
            return f"{NUMBER}{plain_number(digits)}{ending}"
        if word in language.numbers:
            return NUMBER + language.numbers[word]
        before, apostrophe, after = word.partition("'")
        if apostrophe:
            # l'eau, d'Italia: the word is after the apostrophe.
            is_article = (
                before in language.function_words
                or before + "'" in language.function_words
            )
            if len(after) > 2 and is_article:
                return self.key(after)
            # don't, it's, Ada's: the word is before it.
            word = before
            if word in language.function_words:
                return FUNCTION
        if len(word) == 1 and word.isascii():
            return FUNCTION
        word = self._base_by_form.get(word, word)
        if word in language.months:
            return f"{NUMBER}m{language.months[word]}"
        if len(word) <= 2:
            return word
        stem = str(self._stem(word))
        return self._base_by_stem.get(stem, stem)


@cache
def keys_of(language: Language) -> Keys:
    """The keys of one language."""
    return Keys(language)
