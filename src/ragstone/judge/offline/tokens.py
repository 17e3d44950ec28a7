"""Tokens as keys: stems for words, plain values for numbers, character n-grams for
scripts without spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TypeVar

import Stemmer

from ragstone.judge.offline.lexicon import Language, language, load_data
from ragstone.judge.offline.numerals import plain_number

NUMBER = "#"
"""First character of the key of a number or a month; no word's key starts with it."""

FUNCTION = ""
"""The key of a function word: it carries no content."""

_NUMERAL = r"(?:(?<![\w.,:)-])-)?\d+(?:[.,:]\d+)*"
_ASCII_TOKEN = re.compile(rf"{_NUMERAL}[a-z]*|[a-z]+(?:'[a-z]+)?\d*", re.IGNORECASE)
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
_THREE_LETTERS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")
_PIECES = re.compile(rf"{_NUMERAL}|[a-zA-Z]+|[{_NO_SPACES}]+|[^\W\d_]+")
_WITH_UNIT = re.compile(r"(-?\d+(?:[.,:]\d+)*)([^\W\d_]*)")
_ORDINALS = frozenset(
    {"st", "nd", "rd", "th", "s", "er", "ème", "e", "º", "ª", "o", "a"}
)
_DEGREES = frozenset({"c", "f", "mph", "kmh"})
"""Units that may be written right after a number or not; so may those of the language's
list."""
_MAX_CACHED_WORDS = 100_000
_MAX_CACHED_WORD = 40
Made = TypeVar("Made")


def words(text: str) -> list[str]:
    """The surface tokens of normalised `text`, in order."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def _cached(read: Callable[[str], Made]) -> Callable[[str], Made]:
    """`read`, which remembers what it gives for words and other short pieces of
    text."""
    remembered = lru_cache(maxsize=_MAX_CACHED_WORDS)(read)
    return lambda word: (
        remembered(word) if len(word) <= _MAX_CACHED_WORD else read(word)
    )


# No token contains a space, and none depends on what is beyond one, so that a text's
# tokens are those of the pieces between its spaces. Most pieces were seen before.
_surface = _cached(lambda piece: tuple(words(piece)))
_lowered = _cached(lambda piece: tuple(words(piece.lower())))


def surface_words(text: str) -> tuple[str, ...]:
    """`words` of `text`, faster."""
    return tuple(chain.from_iterable(map(_surface, text.split())))


def sequence_words(text: str) -> tuple[str, ...]:
    """The tokens whose keys are the key sequence of `text`: in lower case, unless some
    of it has no spaces."""
    if has_unspaced(text):
        return tuple(words(text))
    return tuple(chain.from_iterable(map(_lowered, text.split())))


def sequence(text: str, of: Language) -> list[str]:
    """The keys of the tokens of `text`, whose numbers are plain, function words
    included as FUNCTION."""
    tokens = sequence_words(text)
    return (
        unspaced_sequence(tokens, of)
        if has_unspaced(text)
        else key_sequence(tokens, of)
    )


class Keys:
    """Maps lower-case surface words to keys for one language, those of all forms and
    synonyms of a word to one."""

    def __init__(self, of: Language) -> None:
        self._language = of
        self._stem: Callable[[str], str] = (
            Stemmer.Stemmer(of.stemmer, 0).stemWord if of.stemmer else str
        )
        forms = load_data("wordforms.json").get(of.code, {})
        self._base: dict[str, str] = {}
        for row in f"{forms.get('same', '')};{forms.get('irregular', '')}".split(";"):
            first, *forms_of_word = row.split() or [""]
            first = self._base.get(first, first)
            for form in forms_of_word:
                self._base.setdefault(form, first)
        self._stems = {
            self._stem(form): self._stem(first) for form, first in self._base.items()
        }
        self.of = _cached(self._key)
        """The key of a word."""
        self.opposites = self._opposites(forms.get("opposite", ""))
        """For each key that has an opposite: the keys of its own side, and of the other
        side."""

    def _opposites(
        self, rows: str
    ) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
        own: dict[str, set[str]] = {}
        contrary: dict[str, set[str]] = {}
        for row in filter(None, rows.split(";")):
            left_side, right_side = (
                set(filter(None, map(self.of, side.split()))) for side in row.split("/")
            )
            for side, opposite in ((left_side, right_side), (right_side, left_side)):
                for key in side:
                    own.setdefault(key, set()).update(side)
                    contrary.setdefault(key, set()).update(opposite)
        return {
            key: (frozenset(own[key]), frozenset(contrary[key] - own[key]))
            for key in own
        }

    def _key(self, word: str) -> str:
        of = self._language
        if word in of.function or word in of.negations or word in of.hedging:
            return FUNCTION
        if word[0].isdecimal() or word[0] == "-":
            return self._number(word)
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

    def _number(self, word: str) -> str:
        parts = _WITH_UNIT.match(word)
        if parts is None:
            return word
        digits, unit = parts.groups()
        bare = (
            not unit
            or unit in _ORDINALS
            or unit in _DEGREES
            or (unit in self._language.units and unit != "m")
        )
        return NUMBER + plain_number(digits) + ("" if bare else unit)


@cache
def keys_of(code: str) -> Keys:
    """The keys of one language."""
    return Keys(language(code))


def key_sequence(lowered: Sequence[str], of: Language) -> list[str]:
    """The keys of lower-case tokens in order, function words included as FUNCTION."""
    return list(map(keys_of(of.code).of, lowered))


def unspaced_sequence(surface: Sequence[str], of: Language) -> list[str]:
    """The keys of tokens some of which are runs of a script without spaces, which
    become overlapping n-grams."""
    keys: list[str] = []
    for token in surface:
        if not re.search(_UNSPACED, token):
            keys.extend(key_sequence([token.lower()], of))
            continue
        for piece in _PIECES.findall(token):
            if re.match(_UNSPACED, piece):
                keys.extend(_ngrams(piece))
            else:
                keys.extend(key_sequence([piece.lower()], of))
    return keys


def has_unspaced(text: str) -> bool:
    """Whether some of `text` is in a script without spaces between words (Korean
    counts: its words inflect)."""
    return not text.isascii() and re.search(_UNSPACED, text) is not None


def _ngrams(run: str) -> list[str]:
    size = 3 if _THREE_LETTERS.search(run) else 2
    if len(run) <= size:
        return [run]
    grams = [run[start : start + size] for start in range(len(run) - size + 1)]
    return [FUNCTION if _HIRAGANA.fullmatch(gram) else gram for gram in grams]
