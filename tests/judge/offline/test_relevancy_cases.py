"""Short, wrong, halved, padded and evasive answers, and other subjects, on our own cases."""

from __future__ import annotations

import pytest

from tests.judge.offline import relevancy_cases


@pytest.fixture(scope="module")
def shares() -> dict[str, float]:
    return relevancy_cases.shares(relevancy_cases.judged())


@pytest.mark.parametrize("given", ["both", "reference", "contexts"])
def test_relevancy_knows_short_answers_and_other_subjects(shares: dict[str, float], given: str) -> None:
    assert shares[f"right from 0.8, {given}"] >= 0.95
    assert shares[f"another subject below 0.2, {given}"] >= 0.95
    assert shares[f"wrong up to 0.3, {given}"] >= 0.95


def test_half_an_answer_is_less_relevant_by_the_reference_and_unrelated_sentences_lower_it(
    shares: dict[str, float],
) -> None:
    assert shares["halves, both"] <= 0.8
    assert shares["lost by padding, both"] >= 0.1
    assert shares["lost by padding, contexts"] >= 0.1


def test_an_answer_that_only_echoes_or_that_no_text_holds_is_not_relevant(shares: dict[str, float]) -> None:
    assert shares["largest evasive"] < 0.4
    assert shares["largest unheld"] <= 0.3
