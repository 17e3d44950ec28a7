"""How far each metric can be trusted with the offline judge: grades from labelled data
sets.

The figures are in reliability.json, written by ``bench/judge_reliability.py`` from data
sets that the judge was not trained on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ragstone.judge.offline.lexicon import guess_language, load_data
from ragstone.judge.offline.normal import normalise

Letter = Literal["A", "B", "C", "D"]

_WORDS: dict[Letter, str] = {"A": "good", "B": "fair", "C": "weak", "D": "poor"}
_MIN_GRADES: dict[str, tuple[float, float, float]] = {
    "auroc": (0.90, 0.80, 0.70),
    "pairwise_accuracy": (0.90, 0.80, 0.70),
    "share_right": (0.90, 0.80, 0.70),
    # On the answers used for this measure, people agree with each other at about 0.7.
    "pearson": (0.65, 0.55, 0.45),
}


@dataclass(frozen=True, slots=True)
class Evidence:
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
        a, b, c = _MIN_GRADES[self.measure]
        if self.low >= a:
            return "A"
        if self.low >= b:
            return "B"
        return "C" if self.low >= c else "D"


@dataclass(frozen=True, slots=True)
class Grade:
    """How far a metric can be trusted: the grade of the data set on which the judge
    does worst, the first one."""

    evidence: tuple[Evidence, ...]

    @property
    def letter(self) -> Letter:
        return self.evidence[0].letter

    @property
    def word(self) -> str:
        return _WORDS[self.letter]


def grade(metric_name: str) -> Grade | None:
    """The offline judge's grade for `metric_name`; None for a metric that needs no
    judge."""
    return _grades().get(metric_name)


MIN_ACCURACY = 0.75
"""Below this share of correctly judged changes, the judge's scores in a language are
not reliable."""


def weak_languages(texts: Iterable[str]) -> dict[str, float | None]:
    """The languages of `texts` in which the offline judge is weak, by code, with its
    accuracy; None: not measured."""
    accuracies: Mapping[str, float] = load_data("reliability.json")["languages"]
    codes = dict.fromkeys(guess_language(normalise(text)).code for text in texts)
    return {
        code: accuracies.get(code)
        for code in codes
        if accuracies.get(code, 0.0) < MIN_ACCURACY
    }


@cache
def _grades() -> dict[str, Grade]:
    grades = {}
    for metric, rows in load_data("reliability.json")["metrics"].items():
        evidence = sorted(
            (Evidence(**row) for row in rows),
            key=lambda row: (row.letter, -row.low),
            reverse=True,
        )
        grades[metric] = Grade(tuple(evidence))
    return grades
