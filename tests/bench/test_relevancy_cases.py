"""Short answers, on-topic wrong ones and other subjects, on our own cases."""

from __future__ import annotations

import pytest
import relevancy_cases


@pytest.fixture(scope="module")
def shares() -> dict[str, float]:
    return relevancy_cases.shares(relevancy_cases.judged())


@pytest.mark.parametrize("given", ["both", "reference", "contexts"])
def test_relevancy_knows_short_answers_and_other_subjects(shares: dict[str, float], given: str) -> None:
    assert shares[f"right from 0.8, {given}"] >= 0.95
    assert shares[f"another subject below 0.2, {given}"] >= 0.95
    assert shares[f"wrong as right, {given}"] >= (0.80 if given == "contexts" else 0.95)
