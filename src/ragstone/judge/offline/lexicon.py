"""Word lists by language, and language detection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from msgspec import Struct

from ragstone.files import shipped

_SAMPLE = 600
_SAMPLE_WORDS = 80
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]*)?")
_LETTER = re.compile(r"[^\W\d_]")


class Language(Struct, frozen=True, eq=False):
    """The word lists of one language, all in lower case."""

    code: str
    script: str = ""
    """The letters of a script that no other language here has, as a pattern."""
    stemmer: str | None = None
    """The name of a Snowball algorithm."""
    function: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    """Negations that are content, too: "nothing"."""
    only: frozenset[str] = frozenset()
    """Before these a negation negates nothing: "not only", "don't forget"."""
    vague: frozenset[str] = frozenset()
    hedging: frozenset[str] = frozenset()
    """They claim nothing: "perhaps", "please"."""
    pronouns: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    """They introduce who did it."""
    months: Mapping[str, int] = {}
    units: Mapping[str, str] = {}
    """The name of the unit by its forms."""
    directions: Mapping[str, tuple[int, bool]] = {}
    """An axis, and which end of it a word says."""
    numbers: Mapping[str, str] = {}
    """Number words, as digits."""
    magnitudes: Mapping[str, int] = {}
    """Words for powers of ten."""
    half: str = ""
    """A pattern, as the next two are."""
    minus: str = ""
    clock: str = ""

    @property
    def has_lists(self) -> bool:
        """Whether there are word lists, so that more than overlap can be seen."""
        return bool(self.negations)

    @property
    def spaced(self) -> bool:
        """Whether words are separated by spaces."""
        return self.code not in ("zh", "ja")

    @property
    def nouns_capitalised(self) -> bool:
        """Whether a capital inside a sentence only means that the word is a noun."""
        return self.code == "de"


@cache
def load_data(name: str) -> Mapping[str, Any]:
    """A JSON file of this package."""
    text = shipped(name, __package__).read_text(encoding="utf-8")
    return cast(Mapping[str, Any], json.loads(text))


@cache
def languages() -> Mapping[str, Language]:
    """The languages of lexicon.json by ISO 639-1 code: those with word lists, and those
    with a stemmer or function words alone, so that they aren't taken for others.
    """
    by_code = {}
    for code, lists in load_data("lexicon.json").items():
        fields = {name: _read(value) for name, value in lists.items()}
        by_code[code] = Language(code, **fields)
    return by_code


def _read(value: Any) -> Any:
    return frozenset(value) if isinstance(value, list) else value


def language(code: str) -> Language:
    """The language with this code, with what is known of it."""
    return languages().get(code) or Language(code)


@cache
def _speakers() -> Mapping[str, list[str]]:
    """The languages that have a function word or negation, by the word."""
    speakers: dict[str, list[str]] = {}
    for code, words in languages().items():
        for word in words.function | words.negations:
            speakers.setdefault(word, []).append(code)
    return speakers


def guess_language(text: str) -> Language:
    """The language of normalised `text`: by script if that is enough, otherwise by its
    function words.

    English when neither decides.
    """
    head = text[:_SAMPLE]
    if not head.isascii():
        letters = len(_LETTER.findall(head))
        for candidate in languages().values():
            if (
                candidate.script
                and len(re.findall(candidate.script, head)) * 4 > letters
            ):
                return candidate
    votes = {"en": 0.0}
    for word in _WORD.findall(head.lower())[:_SAMPLE_WORDS]:
        codes = _speakers().get(word, [])
        for code in codes:
            votes[code] = votes.get(code, 0.0) + 1.0 / len(codes)
    best = max(votes, key=lambda code: (votes[code], language(code).has_lists))
    return language(best if votes[best] > 1.2 * votes["en"] else "en")
