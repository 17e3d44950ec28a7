"""Where the offline judge is weak in a golden set's language, the report says so."""

from __future__ import annotations

import pytest

from ragstone.judge.offline.lexicon import load_data
from ragstone.report.view import language_warnings
from tests.report.conftest import Text, view_of


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
    assert language_warnings([question]) == ()


def test_a_weak_language_is_named_with_its_accuracy_and_an_unmeasured_one_as_that() -> None:
    weak, unmeasured = language_warnings(["灯塔在哪里？", "Где находится маяк?"])
    assert f"{100 * load_data('reliability.json')['languages']['zh']:.0f} %" in weak
    assert "Chinese" in weak
    assert "never measured" in unmeasured


def test_the_report_warns_where_the_offline_judge_scored_and_nowhere_else() -> None:
    text = Text(question="灯塔在哪里？")
    assert any("Chinese" in warning for warning in view_of(text=text, offline=True).warnings)
    assert not any("Chinese" in warning for warning in view_of(text=text).warnings)
    assert not any("language" in warning for warning in view_of(offline=True).warnings)
