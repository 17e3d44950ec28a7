"""Tokens as keys: stems for words, plain values for numbers, character n-grams for scripts without spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
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
# `re` does not count Indic vowel signs and combining accents as word characters, though they belong to their word.
_MARKS = "\u0300-\u036f\u0900-\u0963\u0980-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e\u102b-\u103e\u17b6-\u17d3"
_TOKEN = re.compile(rf"{_NUMERAL}[^\W\d_]*|[^\W\d_][^\W\d_{_MARKS}]*(?:[{_MARKS}]+[^\W\d_]*)*(?:'[^\W\d_]+)?\d*")
_NO_SPACES = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNSPACED = re.compile(rf"[{_NO_SPACES}]")
_THREE_LETTERS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")
_PIECES = re.compile(rf"{_NUMERAL}|[a-zA-Z]+|[{_NO_SPACES}]+|[^\W\d_]+")
_WITH_UNIT = re.compile(r"(-?\d+(?:[.,:]\d+)*)([^\W\d_]*)")
_ORDINALS = frozenset({"st", "nd", "rd", "th", "s", "er", "ème", "e", "º", "ª", "o", "a"})
_DEGREES = frozenset({"c", "f", "mph", "kmh"})
"""Units that may be written right after a number or not; so may those of the language's list."""
_MAX_WORDS_KNOWN = 100_000
_MAX_CACHED_WORD = 40
_Made = TypeVar("_Made")


def words(text: str) -> list[str]:
    """The surface tokens of normalised `text`, in order."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def _rows(text: str) -> list[list[str]]:
    return [row.split() for row in text.split(";") if row.strip()]


class _Table(dict[str, _Made]):
    """What `make` gives for words; filled on demand, up to a limit."""

    def __init__(self, make: Callable[[str], _Made]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, word: str) -> _Made:
        made = self._make(word)
        if len(word) <= _MAX_CACHED_WORD:
            if len(self) >= _MAX_WORDS_KNOWN:
                self.clear()
            self[word] = made
        return made


class _Pieces(_Table[tuple[str, ...]]):
    """What `make` gives for pieces of text between spaces.

    No token contains a space, and none depends on what is beyond one, so that a text's tokens are those of its pieces.
    Most pieces were seen before.
    """

    def of(self, text: str) -> tuple[str, ...]:
        """Those of the pieces of `text`, in order."""
        return tuple(chain.from_iterable(map(self.__getitem__, text.split())))


_surface = _Pieces(lambda piece: tuple(words(piece)))
_lowered = _Pieces(lambda piece: tuple(words(piece.lower())))


def surface_words(text: str) -> tuple[str, ...]:
    """`words` of `text`, faster."""
    return _surface.of(text)


def sequence_words(text: str) -> tuple[str, ...]:
    """The tokens whose keys are the key sequence of `text`: in lower case, unless some of it has no spaces."""
    return tuple(words(text)) if has_unspaced(text) else _lowered.of(text)


def content_keys(text: str, of: Language) -> tuple[str, ...]:
    """The content keys of `text`, whose numbers are plain, in order, with repeats."""
    if has_unspaced(text):
        return tuple(filter(None, unspaced_sequence(words(text), of)))
    return _content_keys(of.code).of(text)


@cache
def _content_keys(code: str) -> _Pieces:
    of = language(code)
    return _Pieces(lambda piece: tuple(filter(None, key_sequence(words(piece.lower()), of))))


class Keys(_Table[str]):
    """Maps lower-case surface words to keys for one language, those of all forms and synonyms of a word to one."""

    def __init__(self, of: Language) -> None:
        super().__init__(self._key)
        self._language = of
        self._stem = Stemmer.Stemmer(of.stemmer, 0) if of.stemmer else None
        forms = load_data("wordforms.json").get(of.code, {})
        self._base: dict[str, str] = {}
        for group in (*_rows(forms.get("same", "")), *_rows(forms.get("irregular", ""))):
            first = self._base.get(group[0], group[0])
            self._base.update({form: first for form in group[1:] if form not in self._base})
        stem = self._stem.stemWord if self._stem else str
        self._stems = {str(stem(form)): str(stem(first)) for form, first in self._base.items()}
        self.opposites = self._opposites(forms.get("opposite", ""))
        """For each key that has an opposite: the keys of its own side, and of the other side."""

    def _opposites(self, rows: str) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
        found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        nothing = frozenset[str]()
        for row in filter(None, rows.split(";")):
            one, other = (frozenset(filter(None, map(self.__getitem__, side.split()))) for side in row.split("/"))
            for mine, theirs in ((one, other), (other, one)):
                for word in mine:
                    own, contrary = found.get(word, (nothing, nothing))
                    found[word] = (own | mine, contrary | theirs)
        return {word: (own, contrary - own) for word, (own, contrary) in found.items()}

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
                return self[ending]
            word = base
            if word in of.function:
                return FUNCTION
        if len(word) == 1 and word.isascii():
            return FUNCTION
        word = self._base.get(word, word)
        if word in of.months:
            return f"{NUMBER}m{of.months[word]}"
        if self._stem is None or len(word) <= 2:
            return word
        stem = str(self._stem.stemWord(word))
        return self._stems.get(stem, stem)

    def _number(self, word: str) -> str:
        parts = _WITH_UNIT.match(word)
        if parts is None:
            return word
        digits, unit = parts.groups()
        bare = not unit or unit in _ORDINALS or unit in _DEGREES or (unit in self._language.units and unit != "m")
        return NUMBER + plain_number(digits) + ("" if bare else unit)


@cache
def keys_of(code: str) -> Keys:
    """The table of keys of one language."""
    return Keys(language(code))


def key_sequence(lowered: Sequence[str], of: Language) -> list[str]:
    """The keys of lower-case tokens in order, function words included as FUNCTION."""
    return list(map(keys_of(of.code).__getitem__, lowered))


def unspaced_sequence(surface: Sequence[str], of: Language) -> list[str]:
    """The keys of tokens some of which are runs of a script without spaces, which become overlapping n-grams."""
    keys: list[str] = []
    for token in surface:
        if not _UNSPACED.search(token):
            keys.extend(key_sequence([token.lower()], of))
            continue
        for piece in _PIECES.findall(token):
            if _UNSPACED.match(piece):
                keys.extend(_ngrams(piece))
            else:
                keys.extend(key_sequence([piece.lower()], of))
    return keys


def has_unspaced(text: str) -> bool:
    """Whether some of `text` is in a script without spaces between words (Korean counts: its words inflect)."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def _ngrams(run: str) -> list[str]:
    size = 3 if _THREE_LETTERS.search(run) else 2
    if len(run) <= size:
        return [run]
    grams = [run[start : start + size] for start in range(len(run) - size + 1)]
    return [FUNCTION if _HIRAGANA.fullmatch(gram) else gram for gram in grams]
