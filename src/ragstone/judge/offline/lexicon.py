"""Word lists by language, and language detection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, cast

_SAMPLE_WORDS = 80
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]*)?")
_SCRIPTS = (
    (re.compile(r"[\u3040-\u30ff]"), "ja"),
    (re.compile(r"[\uac00-\ud7af]"), "ko"),
    (re.compile(r"[\u3400-\u9fff]"), "zh"),
    (re.compile(r"[\u0400-\u04ff]"), "ru"),
    (re.compile(r"[\u0600-\u06ff]"), "ar"),
    (re.compile(r"[\u0590-\u05ff]"), "he"),
    (re.compile(r"[\u0900-\u097f]"), "hi"),
    (re.compile(r"[\u0370-\u03ff]"), "el"),
    (re.compile(r"[\u0e00-\u0e7f]"), "th"),
)
_WORD_LISTS = [
    *(
        "function",
        "negations",
        "averting",
        "only",
        "vague",
        "hedging",
        "pronouns",
        "agents",
    ),
]
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, eq=False, slots=True)
class Language:
    """The word lists of one language, all in lower case. `stemmer` is the name of a
    Snowball algorithm.

    `averting` words deny without a negation ("avoid"); before an `only` word a negation
    negates nothing ("not only", "don't forget"); `hedging` are words that claim nothing
    ("perhaps", "please"); `agents` introduce who did it; `units` maps a unit's forms to
    its name, `numbers` number words to digits, `magnitudes` words to powers of ten, and
    `directions` a word to an axis and its end of it. `half`, `minus` and `clock` are
    patterns of how numbers are said.
    """

    code: str
    stemmer: str | None = None
    function: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    averting: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    hedging: frozenset[str] = frozenset()
    pronouns: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    months: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    directions: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    magnitudes: Mapping[str, int] = field(default_factory=dict)
    half: str = ""
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


def read_data(name: str) -> str:
    """The text of a data file of this package."""
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def load_data(name: str) -> dict[str, Any]:
    """A JSON file of this package."""
    return cast(dict[str, Any], json.loads(read_data(name)))


@cache
def languages() -> Mapping[str, Language]:
    """The languages of lexicon.json by ISO 639-1 code: those with word lists, and those
    with a stemmer or function words alone, so that they aren't taken for others.
    """
    return {
        code: _language(code, lists)
        for code, lists in load_data("lexicon.json").items()
    }


def _language(code: str, lists: Mapping[str, Any]) -> Language:
    words: dict[str, Any] = {
        name: frozenset(lists.get(name, "").split()) for name in _WORD_LISTS
    }
    return Language(
        code=code,
        stemmer=lists.get("stemmer"),
        **words,
        months={
            month: number
            for number, month in enumerate(lists.get("months", "").split(), start=1)
        },
        units={
            form: group.split()[0]
            for group in lists.get("units", "").split(";")
            for form in group.split()
        },
        directions={
            word: (axis, end == 0)
            for axis, pair in enumerate(lists.get("directions", "").split(";"))
            for end, group in enumerate(pair.split("/"))
            for word in group.split()
        },
        numbers=dict(entry.split("=") for entry in lists.get("numbers", "").split()),
        magnitudes=lists.get("magnitudes", {}),
        half=lists.get("half", ""),
        minus="|".join(lists.get("minus", "").split()),
        clock=lists.get("clock", ""),
    )


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
    head = text[:600]
    if not head.isascii():
        letters = len(_LETTER.findall(head))
        for script, code in _SCRIPTS:
            if len(script.findall(head)) * 4 > letters:
                return language(code)
    votes = {"en": 0.0}
    for codes in filter(
        None, map(_speakers().get, _WORD.findall(head.lower())[:_SAMPLE_WORDS])
    ):
        for code in codes:
            votes[code] = votes.get(code, 0.0) + 1.0 / len(codes)
    best = max(votes, key=lambda code: (votes[code], code == "en"))
    return language(best if votes[best] > 1.2 * votes["en"] else "en")
