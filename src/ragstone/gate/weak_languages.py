"""Warnings about languages in which the offline judge is weak."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ragstone.formatting import percent
from ragstone.gate.evidence import Evidence
from ragstone.judge.offline.reliability import MIN_ACCURACY, grade, weak_languages

MAX_QUESTIONS = 200
"""Questions whose language is looked at."""

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


def language_warnings(evidence: Evidence) -> Iterator[str]:
    """What to know of the offline judge in the languages of the first questions; none
    where it was measured well."""
    run = evidence.current
    if run.manifest is None or run.manifest.judge.provider != "offline":
        return
    if not any(
        scores.values and grade(metric) is not None
        for metric, scores in run.metrics.items()
    ):
        return
    questions = islice(
        (facts.question for facts in run.samples.values()), MAX_QUESTIONS
    )
    for code, accuracy in weak_languages(questions).items():
        measured = "was never measured"
        if accuracy is not None:
            measured = f"judges {percent(round(accuracy, 2))} of known changes right"
        yield (
            f"Questions are in {_NAMES.get(code, code)}, where the offline judge {measured} "
            f"(at least {percent(MIN_ACCURACY)} is needed): don't rely on its scores"
        )
