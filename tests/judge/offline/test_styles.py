"""Equal answers score alike, however they are written."""

from __future__ import annotations

from functools import cache
from statistics import fmean

import pytest

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.statements import split_statements
from tests.judge.offline.styles import STYLES, by_style, load_facts


@cache
def means(*, right: bool) -> dict[str, float]:
    return {style: fmean(values) for style, values in by_style(load_facts(), right).items()}


@pytest.mark.parametrize("style", STYLES)
def test_a_style_moves_the_mean_by_next_to_nothing(style: str) -> None:
    assert abs(means(right=True)[style] - means(right=True)["plain"]) <= 0.08


@pytest.mark.parametrize("style", STYLES)
def test_an_invented_answer_is_found_in_every_style(style: str) -> None:
    assert means(right=False)[style] <= means(right=True)[style] - 0.3


@pytest.mark.parametrize(
    ("answer", "statements"),
    [
        ("The boat is 9 m long (Passage 2, point 3).", ["The boat is 9 m long."]),
        ("The boat is 9 m long [1, 3]. The sail is red 【4†source】.", ["The boat is 9 m long.", "The sail is red."]),
        ("Passage 3 also says that the boat is red.", ["The boat is red."]),
        ("Use the rope as described in passage 1 to tie it.", ["Use the rope to tie it."]),
        ("The boat is red. None of the passages mentions its length.", ["The boat is red."]),
        ("The boat is red. It is always best to ask a professional.", ["The boat is red."]),
        ("Here is how to tie a boat:\n\n1. Take the rope.\n2. Tie it.", ["Take the rope.", "Tie it."]),
        ("## Colours\n\n- red\n- blue", ["red", "blue"]),
        ("**The boat is red.**\n\nThe sails are white.", ["The boat is red.", "The sails are white."]),
        ("| Boat | Length |\n|---|---|\n| Ada | 9 m |", ["| Ada | 9 m |"]),
        ("| # | Fact | Source |\n|---|---|---|\n| 1 | It is red. | [2] |", ["It is red."]),
        ("The boat is red.\n\nSources:\n- Handbook, page 3\n- Boats", ["The boat is red."]),
        ("The boat is red.¹ It has 9 m² of sails.²", ["The boat is red.", "It has 9 m2 of sails."]),
    ],
)
def test_what_an_answer_claims(answer: str, statements: list[str]) -> None:
    assert [one.text for one in split_statements(normalise(answer), language("en"))] == statements


@pytest.mark.parametrize(
    "text",
    [
        "The fine is 30 euros (20 for members).",
        "The boat (a gift of the town) is red.",
        "You should contact the skipper within 30 days.",
        "Use `a[1]` or `f(x)[2]` in the code.",
        "Passage boats carry mail.",
        "The document of 1850 names two owners.",
    ],
)
def test_what_only_looks_like_a_reference_stays(text: str) -> None:
    assert [one.text for one in split_statements(text, language("en"))] == [text]
