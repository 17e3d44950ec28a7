"""Word lists by language, and language detection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from msgspec import Struct, convert

from ragstone.files import shipped

_SAMPLE_CHARACTERS = 600
_SAMPLE_WORDS = 80
"""A language is guessed by at most this many words at the beginning of a text."""
_MIN_SCRIPT_SHARE = 0.25
"""The share of the letters from which the script of a language decides."""
_MIN_LEAD_OVER_ENGLISH = 1.2
"""Another language needs this many times the votes for English, which is often mixed
into other languages."""
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]*)?")
_LETTER = re.compile(r"[^\W\d_]")

_KEYS = {
    "function_words": "function",
    "negation_content": "absent",
    "negation_exceptions": "only",
    "vague_words": "vague",
    "hedges": "hedging",
    "agent_markers": "agents",
    "half_pattern": "half",
    "minus_pattern": "minus",
    "clock_pattern": "clock",
    "script_pattern": "script",
}
"""The keys in lexicon.json of the fields that are named otherwise here."""


class Language(Struct, frozen=True, eq=False, rename=_KEYS, forbid_unknown_fields=True):
    """The word lists of one language, all in lower case."""

    code: str
    """The code of ISO 639-1."""
    script_pattern: str = ""
    """Matches the letters of a script that no other language here has."""
    stemmer: str | None = None
    """The name of a Snowball algorithm."""
    function_words: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    negation_content: frozenset[str] = frozenset()
    """Negations that are content, too: "nothing"."""
    negation_exceptions: frozenset[str] = frozenset()
    """A negation before one of these words negates nothing: "not only", "don't
    forget"."""
    vague_words: frozenset[str] = frozenset()
    """Words that say nothing about a question: "several", "important"."""
    hedges: frozenset[str] = frozenset()
    """Words that claim nothing: "perhaps", "please"."""
    pronouns: frozenset[str] = frozenset()
    agent_markers: frozenset[str] = frozenset()
    """Words before the one who acts, in the passive voice: "by"."""
    months: Mapping[str, int] = {}
    """The number of the month, by its names."""
    units: Mapping[str, str] = {}
    """The name of the unit (see units.json), by its forms."""
    directions: Mapping[str, tuple[int, bool]] = {}
    """The number of an axis, and which end of it a word means: "before" is the opposite
    of "after"."""
    numbers: Mapping[str, str] = {}
    """The digits of number words."""
    magnitudes: Mapping[str, int] = {}
    """The exponents of words for powers of ten."""
    half_pattern: str = ""
    """Matches "half a" before a unit."""
    minus_pattern: str = ""
    """Matches words for a minus before a number."""
    clock_pattern: str = ""
    """Matches a time of day: its hour, its minutes, and the groups `late` or `early`
    for words such as "pm" and "am"."""

    @property
    def has_lists(self) -> bool:
        """Whether there are word lists, without which only overlap can be judged."""
        return bool(self.negations)

    @property
    def has_spaces(self) -> bool:
        """Whether words are separated by spaces."""
        return self.code not in ("zh", "ja")

    @property
    def capitalises_nouns(self) -> bool:
        """Whether a capital inside a sentence only means that the word is a noun."""
        return self.code == "de"


@cache
def load_data(name: str) -> Mapping[str, Any]:
    """The contents of a JSON file of this package."""
    text = shipped(name, __package__).read_text(encoding="utf-8")
    return cast(Mapping[str, Any], json.loads(text))


@cache
def languages() -> Mapping[str, Language]:
    """The languages of lexicon.json by ISO 639-1 code.

    Some have only a stemmer, a script or function words, so that they aren't mistaken
    for others.
    """
    return {
        code: convert({"code": code, **lists}, Language)
        for code, lists in load_data("lexicon.json").items()
    }


def language(code: str) -> Language:
    """The language with this code; one without lists if it is not in lexicon.json."""
    return languages().get(code) or Language(code)


@cache
def _languages_by_word() -> Mapping[str, list[str]]:
    """The codes of the languages that have a function word or a negation, by the
    word."""
    codes: dict[str, list[str]] = {}
    for code, lists in languages().items():
        for word in lists.function_words | lists.negations:
            codes.setdefault(word, []).append(code)
    return codes


def guess_language(text: str) -> Language:
    """The language of normalised `text`, by its script if that is enough, or else by
    its function words; English if neither decides."""
    sample = text[:_SAMPLE_CHARACTERS]
    if not sample.isascii():
        letters = len(_LETTER.findall(sample))
        for candidate in languages().values():
            pattern = candidate.script_pattern
            if (
                pattern
                and len(re.findall(pattern, sample)) > _MIN_SCRIPT_SHARE * letters
            ):
                return candidate
    # A word of several languages is a part of a vote for each.
    votes = {"en": 0.0}
    for word in _WORD.findall(sample.lower())[:_SAMPLE_WORDS]:
        codes = _languages_by_word().get(word, [])
        for code in codes:
            votes[code] = votes.get(code, 0.0) + 1.0 / len(codes)
    best = max(votes, key=lambda code: (votes[code], language(code).has_lists))
    has_won = votes[best] > _MIN_LEAD_OVER_ENGLISH * votes["en"]
    return language(best if has_won else "en")
