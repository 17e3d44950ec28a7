"""Numbers as a reader wants them."""

from __future__ import annotations

import pytest

from ragstone.report import words


@pytest.mark.parametrize(
    ("threshold", "values", "digits"),
    [
        (0.85, [0.91], 2),
        (0.85, [0.849], 3),
        (0.85, [0.8501], 4),
        (0.85, [0.85], 2),
        (None, [0.849], 2),
        (0.85, [None, 0.9], 2),
        (-0.02, [-0.0204], 4),
    ],
)
def test_figures_show_on_which_side_of_a_threshold_they_are(
    threshold: float | None, values: list[float | None], digits: int
) -> None:
    assert words.digits_for(threshold, values) == digits


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.score(0.5), "0.50"),
        (words.score(-0.0), "0.00"),
        (words.score(None), "–"),
        (words.change(-0.061), "−0.06"),
        (words.change(0.061), "+0.06"),
        (words.change(0.0), "0"),
        (words.bound(0.85), "0.85"),
        (words.bound(0.9), "0.9"),
        (words.bound(1.0), "1"),
        (words.percent(1.0), "100 %"),
        (words.percent(0.0), "0 %"),
        (words.percent(0.9999), "99.9 %"),
        (words.percent(0.0001), "0.1 %"),
        (words.percent(None), "–"),
        (words.seconds(0.34), "340 ms"),
        (words.seconds(1.239), "1.24 s"),
        (words.seconds(200), "3 min 20 s"),
        (words.dollars(None), "cost unknown (no price configured)"),
        (words.dollars(0), "$0"),
        (words.dollars(0.004), "under $0.01"),
        (words.dollars(1234.5), "$1,234.50"),
        (words.count(1, "sample"), "1 sample"),
        (words.count(1200, "sample"), "1,200 samples"),
        (words.metric_title("context_recall"), "Context recall"),
        (words.metric_title("tone"), "tone"),
        (words.sentence("all pass"), "All pass"),
        (words.sentence("context_recall fell"), "context_recall fell"),
        (words.sentence("scores.csv does not say"), "scores.csv does not say"),
        (words.sentence("pass."), "Pass."),
        (words.first_sentence("A fell by 0.1. B too."), ("A fell by 0.1.", "B too.")),
        (words.first_sentence("A fell"), ("A fell", "")),
        (words.compared_on(48, 60), "on 48 of 60 samples"),
        (words.compared_on(60, 60), "on all 60 samples"),
    ],
)
def test_words(shown: object, expected: object) -> None:
    assert shown == expected
