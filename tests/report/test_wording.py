"""Titles and phrases as a reader wants them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.report import wording
from ragstone.report.render import render
from ragstone.report.summary import summary_of
from tests.report.conftest import view_of


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


@pytest.mark.parametrize(("n", "left_out", "said"), [(1, 9, True), (4, 6, True), (6, 4, False), (10, 0, False)])
def test_a_score_of_few_samples_says_of_how_many(n: int, left_out: int, said: bool) -> None:
    view = view_of()
    rows = tuple(replace(row, n=n, not_applicable=left_out, status=None, score=1.0) for row in view.metrics)
    view = replace(view, metrics=rows, check_rows=())
    for form in ("text", "md", "html"):
        text = render(view, form).replace("&nbsp;", " ").replace("\u00a0", " ")
        assert (f"1.00 (n = {n})" in text) is said
    assert (f"1.00 (n = {n})" in summary_of(view).held.replace("\u00a0", " ")) is said
