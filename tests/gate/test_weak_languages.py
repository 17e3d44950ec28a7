"""Where the offline judge is weak in a golden set's language, a finding says so."""

from __future__ import annotations

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.findings import Level
from ragstone.gate.policy import default_policy
from ragstone.judge.offline.lexicon import load_data
from tests.gate.conftest import make_manifest


def language_warnings(*questions: str, judge: str = "offline") -> list[str]:
    manifest = make_manifest(provider=judge)
    samples = {question: SampleFacts(question=question) for question in questions}
    run = RunScores("run", {"faithfulness": MetricScores(dict.fromkeys(samples, 1.0))}, samples, manifest=manifest)
    return list(decide_gate(run, None, default_policy()).texts(Level.WARNING))


@pytest.mark.parametrize(
    "question",
    [
        "Where is the lighthouse?",
        "Wo steht der Leuchtturm?",
        "Où se trouve le phare ?",
        "Dónde está el faro y quién lo hizo?",
    ],
)
def test_nothing_is_said_of_a_language_that_was_measured_well(question: str) -> None:
    assert not any("Questions are in" in warning for warning in language_warnings(question))


def test_a_weak_language_is_named_with_its_accuracy_and_an_unmeasured_one_as_that() -> None:
    found = language_warnings("灯塔在哪里？", "Где находится маяк?")
    weak, unmeasured = (warning for warning in found if warning.startswith("Questions are in"))
    assert f"{100 * load_data('reliability.json')['languages']['zh']:.0f} %" in weak
    assert "Chinese" in weak
    assert "never measured" in unmeasured


def test_another_judge_is_not_warned_of() -> None:
    assert not any("Chinese" in warning for warning in language_warnings("灯塔在哪里？", judge="openai"))
