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
_ALL = 3
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]*)?")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]*)?")
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
    *("function", "negations", "truths", "averting", "only", "light"),
    *("hedges", "vague", "hedging", "pronouns", "agents", "speaker"),
]
_STEMMERS_BY_SCRIPT = {"ru": "russian", "ar": "arabic", "hi": "hindi", "el": "greek"}
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, eq=False, slots=True)
class Language:
    """The word lists of one language, all in lower case. `stemmer` is the name of a Snowball algorithm.

    `truths` are words after which a negation denies all that follows ("not true that"); `averting` are words that deny
    without a negation ("avoid"); `light` are those that hardly claim anything, such as "various" and "include"; `only`
    are words before which a negation negates nothing ("not only"); `hedging` are adverbs that claim nothing; `agents`
    introduce who did it; `speaker` are first-person words; `units` maps a unit's forms to one of them, `quantities` a
    word to its rank from few (-1) to all (3), and `directions` a word to an axis and its end of it.
    """

    code: str
    stemmer: str | None = None
    function: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    truths: frozenset[str] = frozenset()
    averting: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    light: frozenset[str] = frozenset()
    hedges: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    hedging: frozenset[str] = frozenset()
    pronouns: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    speaker: frozenset[str] = frozenset()
    months: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    quantities: Mapping[str, int] = field(default_factory=dict)
    directions: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    numbers: Mapping[str, str] | None = None
    magnitudes: Mapping[str, int] | None = None
    marks: frozenset[str] = field(init=False)
    """All words for months, quantities and directions."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", frozenset().union(self.months, self.quantities, self.directions))

    @property
    def spaced(self) -> bool:
        """Whether words are separated by spaces, so that the lists contain words and not runs of letters."""
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
    """All languages with word lists, by ISO 639-1 code."""
    return {code: _language(code, lists) for code, lists in load_data("lexicon.json").items()}


def _language(code: str, lists: Mapping[str, Any]) -> Language:
    words: dict[str, Any] = {name: frozenset(lists.get(name, "").split()) for name in _WORD_LISTS}
    digits = [0, *range(2, 21)]
    names = lists.get("numbers", "").split()
    return Language(
        code=code,
        stemmer=lists.get("stemmer"),
        **words,
        months={month: number for number, month in enumerate(lists.get("months", "").split(), start=1)},
        units={form: group.split()[0] for group in lists["units"].split(";") for form in group.split()},
        quantities={
            word: _ALL - rank for rank, group in enumerate(lists["quantities"].split("/")) for word in group.split()
        },
        directions={
            word: (axis, end == 0)
            for axis, pair in enumerate(lists["directions"].split(";"))
            for end, group in enumerate(pair.split("/"))
            for word in group.split()
        },
        numbers={word: str(digit) for word, digit in zip(names, digits, strict=False)} or None,
        magnitudes=lists.get("magnitudes"),
    )


@cache
def language(code: str) -> Language:
    """The language with this code; without word lists it has at most a stemmer."""
    return languages().get(code) or Language(code, stemmer=_STEMMERS_BY_SCRIPT.get(code))


@cache
def _function_words() -> Mapping[str, tuple[str, ...]]:
    owners: dict[str, list[str]] = {}
    for code, lists in languages().items():
        for word in lists.function | lists.negations:
            owners.setdefault(word, []).append(code)
    return {word: tuple(codes) for word, codes in owners.items()}


@cache
def _not_english() -> frozenset[str]:
    """The function words of other languages that are not English ones."""
    return frozenset(word for word, codes in _function_words().items() if "en" not in codes)


def guess_language(text: str) -> Language:
    """The language of normalised `text`: by script if that is enough, otherwise by its function words.

    English when neither decides.
    """
    head = text[:600]
    if not head.isascii():
        letters = len(_LETTER.findall(head))
        for script, code in _SCRIPTS:
            if len(script.findall(head)) * 4 > letters:
                return language(code)
    words = (_ASCII_WORD if head.isascii() else _WORD).findall(head.lower())[:_SAMPLE_WORDS]
    if _not_english().isdisjoint(words):  # no language can get more votes than English
        return language("en")
    votes: dict[str, float] = {"en": 0.0}
    for found in filter(None, map(_function_words().get, words)):
        share = 1.0 / len(found)
        for code in found:
            votes[code] = votes.get(code, 0.0) + share
    best = max(votes, key=lambda code: (votes[code], code == "en"))
    return language(best if votes[best] > 1.2 * votes["en"] else "en")
