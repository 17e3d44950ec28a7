"""How far each metric can be trusted with the offline judge: grades from labelled data
sets.

The figures are in reliability.json, written by ``bench/judge_reliability.py`` from data
sets that the judge was not trained on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

from msgspec import Struct

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import guess_language, load_data

Letter = Literal["A", "B", "C", "D"]

_WORDS: dict[Letter, str] = {"A": "good", "B": "fair", "C": "weak", "D": "poor"}


class Evidence(Struct, frozen=True):
    """One measure on one data set, with its 95 % interval and the number of items."""

    dataset: str
    measure: str
    value: float
    low: float
    high: float
    items: int

    @property
    def letter(self) -> Letter:
        """The grade by the lower end of the interval, so that a small data set gets no
        good grade by luck."""
        least = {"A": 0.90, "B": 0.80, "C": 0.70}
        if self.measure == "pearson":
            # On these answers, people agree with each other at about 0.7.
            least = {"A": 0.65, "B": 0.55, "C": 0.45}
        for letter in _WORDS:
            if self.low >= least.get(letter, -1.0):
                return letter
        return "D"


class Grade(Struct, frozen=True):
    """How far a metric can be trusted: the grade of the data set on which the judge
    does worst, the first one."""

    evidence: tuple[Evidence, ...]

    @property
    def letter(self) -> Letter:
        return self.evidence[0].letter

    @property
    def word(self) -> str:
        return _WORDS[self.letter]


@cache
def grade(metric_name: str) -> Grade | None:
    """The offline judge's grade for `metric_name`; None for a metric that needs no
    judge."""
    rows = load_data("reliability.json")["metrics"].get(metric_name)
    if rows is None:
        return None
    evidence = [Evidence(**row) for row in rows]
    evidence.sort(key=lambda row: (row.letter, -row.low), reverse=True)
    return Grade(tuple(evidence))


MIN_ACCURACY = 0.75
"""Below this share of correctly judged changes, the judge's scores in a language are
not reliable."""


def weak_languages(texts: Iterable[str]) -> dict[str, float | None]:
    """The languages of `texts` in which the offline judge is weak, by code, with its
    accuracy; None: not measured."""
    accuracies: Mapping[str, float] = load_data("reliability.json")["languages"]
    weak: dict[str, float | None] = {}
    for text in texts:
        code = guess_language(normalise(text)).code
        if accuracies.get(code, 0.0) < MIN_ACCURACY:
            weak[code] = accuracies.get(code)
    return weak
