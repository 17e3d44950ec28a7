"""Word lists by language, and the language of a text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
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
_STEMMERS_BY_SCRIPT = {"ru": "russian", "ar": "arabic", "hi": "hindi", "el": "greek"}
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Language:
    """The word lists of one language, all in lower case. `stemmer` is the name of a Snowball algorithm."""

    code: str
    stemmer: str | None = None
    function: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    hedges: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    personal: frozenset[str] = frozenset()
    pronouns: frozenset[str] = frozenset()
    coordinators: frozenset[str] = frozenset()
    months: tuple[str, ...] = ()
    numbers: Mapping[str, str] | None = None
    magnitudes: Mapping[str, int] | None = None


def load_data(name: str) -> dict[str, Any]:
    """A JSON file of this package."""
    text = resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))


@cache
def languages() -> Mapping[str, Language]:
    """All languages with word lists, by ISO 639-1 code."""
    return {code: _language(code, lists) for code, lists in load_data("lexicon.json").items()}


def _language(code: str, lists: Mapping[str, Any]) -> Language:
    def words(name: str) -> frozenset[str]:
        return frozenset(lists[name].split())

    digits = [0, *range(2, 21)]
    numbers = {word: str(digit) for word, digit in zip(lists["numbers"].split(), digits, strict=True)}
    return Language(
        code=code,
        stemmer=lists["stemmer"],
        function=words("function"),
        negations=words("negations"),
        hedges=words("hedges"),
        vague=words("vague"),
        personal=words("personal"),
        pronouns=words("pronouns"),
        coordinators=words("coordinators"),
        months=tuple(lists["months"].split()),
        numbers=numbers,
        magnitudes=lists["magnitudes"],
    )


@cache
def language(code: str) -> Language:
    """The language called `code`; one without word lists has at most a stemmer."""
    return languages().get(code) or Language(code, stemmer=_STEMMERS_BY_SCRIPT.get(code))


@cache
def _function_words() -> Mapping[str, tuple[str, ...]]:
    owners: dict[str, list[str]] = {}
    for code, lists in languages().items():
        for word in lists.function | lists.negations:
            owners.setdefault(word, []).append(code)
    return {word: tuple(codes) for word, codes in owners.items()}


def guess_language(text: str) -> Language:
    """The language of normalised `text`: by script where that says enough, else by its function words.

    English when nothing tells otherwise.
    """
    head = text[:600]
    if not head.isascii():
        letters = len(_LETTER.findall(head))
        for script, code in _SCRIPTS:
            if len(script.findall(head)) * 4 > letters:
                return language(code)
    owners = _function_words()
    votes: dict[str, float] = {"en": 0.0}
    for word in _WORD.findall(head.lower())[:_SAMPLE_WORDS]:
        found = owners.get(word)
        if found:
            for code in found:
                votes[code] = votes.get(code, 0.0) + 1.0 / len(found)
    best = max(votes, key=lambda code: (votes[code], code == "en"))
    return language(best if votes[best] > 1.2 * votes["en"] else "en")
