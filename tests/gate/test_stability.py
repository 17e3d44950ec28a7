"""Where the variance of a score comes from, and which samples are unsteady."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragstone.evaluation.scores import MetricScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.stability import variance_of, variance_words
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest


def readings(samples: float, system: float, judge: float, *, rounds: int) -> MetricScores:
    rng = np.random.default_rng(3)
    found = {}
    for sample in range(400):
        mean = rng.normal(0.5, samples)
        answers = [mean + rng.normal(0.0, system) for _ in range(3)]
        found[f"s{sample}"] = tuple(tuple(a + rng.normal(0.0, judge) for _ in range(rounds)) for a in answers)
    return MetricScores({}, readings=found)


def test_the_variance_is_split_between_samples_system_and_judge() -> None:
    parts = variance_of(readings(0.3, 0.2, 0.1, rounds=2))
    assert parts is not None
    assert (parts.units, parts.draws, parts.readings) == pytest.approx((0.09, 0.04, 0.01), rel=0.2)
    assert [word.rsplit(" ", 2)[0] for word in variance_words(parts).split(", ")] == ["samples", "system", "judge"]


def test_what_was_judged_once_can_not_tell_the_judge_from_the_system() -> None:
    parts = variance_of(readings(0.3, 0.2, 0.1, rounds=1))
    assert parts is not None
    assert parts.draws == pytest.approx(0.05, rel=0.2)
    assert "system and judge" in variance_words(parts)


def test_nothing_is_said_of_a_run_that_asked_once() -> None:
    assert variance_of(MetricScores({"a": 1.0, "b": 0.5})) is None


def test_the_report_names_the_samples_with_answers_on_both_sides_of_a_floor() -> None:
    answers = [(1.0, 1.0, 1.0)] * 18 + [(1.0, 0.2, 1.0), (0.2, 1.0, 0.2)]
    one = run({"faithfulness": answers}, manifest=manifest(answers=3))
    scores = one.metrics["faithfulness"]
    rounds: dict[str, tuple[tuple[float, ...], ...]]
    rounds = {i: tuple((value,) for value in each if value is not None) for i, each in scores.answers.items()}
    one = replace(one, metrics={"faithfulness": replace(scores, readings=rounds)})
    verdict = decide_gate(one, None, policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}}))
    notes = "\n".join(verdict.notes)
    assert "Sources of the variance of a score: faithfulness: samples" in notes
    assert (
        "faithfulness: 2 of 20 samples have answers that meet min = 0.50 and answers that do not "
        "(s19: 1 of 3 answers pass, s18: 2 of 3 answers pass)."
    ) in notes


def test_a_policy_may_name_the_stability_of_answers() -> None:
    rules = policy_from_mapping({"metrics": {"answer_stability": {"min": 0.8}}})
    steady = run({"answer_stability": [0.9] * 60}, manifest=manifest(answers=3))
    unsteady = run({"answer_stability": [0.3, 0.5] * 30}, manifest=manifest(answers=3))
    assert decide_gate(steady, None, rules).exit_code == 0
    assert decide_gate(unsteady, None, rules).exit_code == 1
