"""Titles and phrases as a reader wants them."""

from __future__ import annotations

import pytest

from ragstone.report import wording


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (wording.metric_title("context_recall"), "Context recall"),
        (wording.metric_title("tone"), "tone"),
        (wording.sentence("all pass"), "All pass"),
        (wording.sentence("context_recall fell"), "Context recall fell"),
        (wording.sentence("scores.csv does not say"), "scores.csv does not say"),
        (wording.sentence("pass."), "Pass."),
        (wording.first_sentence("A fell by 0.1. B too."), ("A fell by 0.1.", "B too.")),
        (wording.first_sentence("A fell"), ("A fell", "")),
        (wording.compared_on(48, 60), "on 48 of 60 samples"),
        (wording.compared_on(60, 60), "on all 60 samples"),
    ],
)
def test_words(shown: object, expected: object) -> None:
    assert shown == expected
