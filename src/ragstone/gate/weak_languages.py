"""Warnings about languages in which the offline judge is weak."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ragstone.formatting import percent
from ragstone.gate.evidence import Evidence
from ragstone.judge.reliability import grade, weak_languages

MAX_QUESTIONS = 200
"""The language of later questions is not looked at."""


def language_warnings(evidence: Evidence) -> Iterator[str]:
    """A warning for each language of the questions in which the offline judge is weak
    or was never measured, if it scored metrics of which its grade is known."""
    run = evidence.current
    is_graded = any(
        scores.values and grade(name) is not None
        for name, scores in run.metrics.items()
    )
    if not evidence.is_offline or not is_graded:
        return
    questions = (facts.question for facts in run.samples.values())
    languages = weak_languages(islice(questions, MAX_QUESTIONS))
    for code, accuracy in languages.items():
        measured = "was never measured"
        if accuracy is not None:
            share = percent(round(accuracy, 2))
            measured = f"judges {share} of known changes right"
        yield f"Questions are in the language '{code}', where the offline judge {measured}: don't rely on its scores"
