"""How reliable each metric is with the offline judge: grades from labelled data sets.

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
    """A measure of how well the judge agrees with the labels of a data set."""

    dataset: str
    measure: str
    value: float
    low: float
    """The lower end of the 95 % interval of `value`."""
    high: float
    """The upper end of the 95 % interval of `value`."""
    items: int
    """The number of labelled items."""

    @property
    def letter(self) -> Letter:
        """The grade by the lower end of the interval, so that a small data set gets no
        good grade by luck."""
        thresholds: dict[Letter, float] = {"A": 0.90, "B": 0.80, "C": 0.70}
        if self.measure == "pearson":
            # On these answers, people agree with each other at about 0.7.
            thresholds = {"A": 0.65, "B": 0.55, "C": 0.45}
        for letter, threshold in thresholds.items():
            if self.low >= threshold:
                return letter
        return "D"


class Grade(Struct, frozen=True):
    """How reliable a metric is: the grade of the data set on which the judge does
    worst."""

    evidence: tuple[Evidence, ...]
    """The measures on all data sets, the worst first."""

    @property
    def letter(self) -> Letter:
        return self.evidence[0].letter

    @property
    def word(self) -> str:
        """The grade in one word, such as "good"."""
        return _WORDS[self.letter]


@cache
def grade(metric_name: str) -> Grade | None:
    """The offline judge's grade for `metric_name`; None for a metric that it has none
    for, such as one that needs no judge."""
    rows = load_data("reliability.json")["metrics"].get(metric_name)
    if rows is None:
        return None
    evidence = [Evidence(**row) for row in rows]
    # "D" sorts behind "A", so the worst is first in reverse order.
    evidence.sort(key=lambda item: (item.letter, -item.low), reverse=True)
    return Grade(tuple(evidence))


MIN_ACCURACY = 0.75
"""The least share of correctly judged changes with which the judge's scores in a
language are reliable."""


def weak_languages(texts: Iterable[str]) -> dict[str, float | None]:
    """The codes of the languages of `texts` in which the offline judge is not reliable,
    with its accuracy; None if that was not measured."""
    accuracies: Mapping[str, float] = load_data("reliability.json")["languages"]
    weak: dict[str, float | None] = {}
    for text in texts:
        code = guess_language(normalise(text)).code
        if accuracies.get(code, 0.0) < MIN_ACCURACY:
            weak[code] = accuracies.get(code)
    return weak
