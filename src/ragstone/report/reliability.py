"""How reliable the offline judge's scores are, by metric."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ragstone.formatting import percent
from ragstone.judge.offline.reliability import MIN_ACCURACY, grade, weak_languages

_QUESTIONS_READ = 200
_NAMES = {
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "th": "Thai",
    "ru": "a language in Cyrillic script",
    "ar": "a language in Arabic script",
    "he": "Hebrew",
    "hi": "a language in Devanagari script",
    "el": "Greek",
}


def offline_grades(metrics: Iterable[str]) -> dict[str, str]:
    """The measured grade of the offline judge for each of `metrics` that has one: ``B (fair)``."""
    found = {name: grade(name) for name in metrics}
    return {name: f"{one.letter} ({one.word})" for name, one in found.items() if one is not None}


def language_warnings(questions: Iterable[str]) -> tuple[str, ...]:
    """What to know of the offline judge in the languages of the first `questions`; empty where it was measured well."""
    found = weak_languages(itertools.islice(questions, _QUESTIONS_READ))
    return tuple(
        f"Questions are in {_NAMES.get(code, code)}, where the offline judge "
        + ("was never measured" if accuracy is None else f"judges {percent(round(accuracy, 2))} of known changes right")
        + f" (at least {percent(MIN_ACCURACY)} is needed): don't rely on its scores"
        for code, accuracy in found.items()
    )
