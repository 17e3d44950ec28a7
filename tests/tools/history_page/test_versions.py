"""What changed between two runs, question by question."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragstone.history.codes import decode, sample_codes
from ragstone.tools.history_page.versions import mean_changes, run_before
from tests.tools.history_page.histories import made


def test_a_change_is_that_of_the_questions_that_both_runs_scored() -> None:
    history = made(40)
    for before, after in ((35, 39), (24, 27), (38, 35)):
        first, second = (
            dict(zip(sample_codes(history.samples[run.samples or ""]), decode(run.scores["faithfulness"]), strict=True))
            for run in (history.runs[before], history.runs[after])
        )
        wanted = np.mean([second[code] - first[code] for code in second if code in first])
        changes = mean_changes(history, history.runs[before], history.runs[after], ["faithfulness", "mrr"])
        assert changes == {"faithfulness": pytest.approx(wanted)}


def test_a_run_is_compared_with_the_newest_before_it_that_has_a_verdict() -> None:
    history = made(4)
    plain = history.runs[2].model_copy(update={"verdict": "none"})
    history = replace(history, runs=(*history.runs[:2], plain, history.runs[3]))
    assert run_before(history.runs, 3) == history.runs[1]
    assert run_before(history.runs, 0) is None
    alone = replace(history, runs=tuple(run.model_copy(update={"verdict": "none"}) for run in history.runs))
    assert run_before(alone.runs, 3) == alone.runs[2]


@pytest.mark.parametrize(
    "change",
    [
        {"judge_key": "f" * 16, "judge": "openai judge-3"},
        {"part": "generation"},
        {"versions": {"faithfulness": "9"}},
        {"samples": None},
        {"scores": {}},
    ],
)
def test_runs_that_differ_in_more_than_the_system_are_not_compared(change: dict[str, object]) -> None:
    history = made(6)
    before, after = history.runs[4], history.runs[5].model_copy(update=change)
    assert mean_changes(history, before, after, ["faithfulness"]) == {}
    assert mean_changes(history, after, before, ["faithfulness"]) == {}
    assert mean_changes(history, *history.runs[4:6], ["faithfulness"])
