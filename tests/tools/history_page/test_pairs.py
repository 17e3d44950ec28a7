"""The paired differences that the page has intervals for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragstone.history.codes import decode, group_codes, sample_codes
from ragstone.history.file import History
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import mean_interval
from ragstone.tools.history_page import pairs as module
from ragstone.tools.history_page.pairs import SCALE, differences, pairs
from tests.tools.history_page.histories import made


def by_the_gate(history: History, before: int, after: int, metric: str) -> Estimate:
    """The interval of the difference between two runs, by the gate's statistics."""
    then, now = (
        dict(zip(sample_codes(history.samples[run.samples or ""]), decode(run.scores[metric]), strict=True))
        for run in (history.runs[before], history.runs[after])
    )
    line = history.samples[history.runs[after].samples or ""]
    groups, codes = group_codes(line), sample_codes(line)
    both = [at for at, code in enumerate(codes) if code in then]
    values = np.array([now[codes[at]] - then[codes[at]] for at in both])
    labels = None if groups is None else np.unique([groups[at] for at in both], return_inverse=True)[1]
    return mean_interval(values, bounds=(-1.0, 1.0), groups=labels)


@pytest.mark.parametrize("groups", [0, 3])
def test_an_interval_is_the_one_that_the_gate_finds(groups: int) -> None:
    history = made(40, groups=groups)
    found = {(before, after): values for before, after, values in differences(history, ["faithfulness"])}
    for before, after in ((35, 39), (38, 39), (37, 38), (30, 35)):
        wanted = by_the_gate(history, before, after, "faithfulness")
        estimate, low, high, n, many = found[before, after][0]
        assert [value / SCALE for value in (estimate, low, high)] == pytest.approx(
            [wanted.estimate, wanted.low, wanted.high], abs=1 / SCALE
        )
        assert low / SCALE <= wanted.low
        assert high / SCALE >= wanted.high
        assert (n, many) == (wanted.n, wanted.n_groups)
        assert (many is not None) is bool(groups)


def test_a_run_is_paired_with_the_one_before_the_newest_and_the_newest_release() -> None:
    found = list(pairs(made(40).runs))
    for at in range(1, 40):
        assert (at - 1, at) in found
        assert (at, 39) in found or at == 39
        assert (min(at, 35), max(at, 35)) in found or at == 35
    assert {(5, 15), (15, 25), (25, 35)} <= set(found), "releases"
    assert {(9, 19), (19, 29), (29, 39)} <= set(found), "versions of the system, each by its newest run"
    assert len(found) == len(set(found))
    assert found[0] == (38, 39)
    assert (24, 27) not in found


def test_without_a_release_a_run_is_paired_with_the_oldest() -> None:
    runs = [run.model_copy(update={"release": None}) for run in made(12).runs]
    assert {(0, at) for at in range(1, 12)} <= set(pairs(runs))


def test_runs_without_scores_of_samples_are_passed_over() -> None:
    history = made(40, kept=5)
    assert {at for pair in pairs(history.runs) for at in pair} == {35, 36, 37, 38, 39}
    assert list(pairs(made(3, kept=1).runs)) == []
    assert differences(History(), ["faithfulness"]) == []


def test_what_cannot_be_compared_has_no_interval() -> None:
    history = made(40)
    found = {(before, after): values for before, after, values in differences(history, list(history.runs[0].metrics))}
    assert (19, 20) not in found, "another judge"
    half = history.runs[39].model_copy(update={"part": "generation"})
    halved = replace(history, runs=(*history.runs[:39], half))
    assert (38, 39) in found
    assert (38, 39) not in {(before, after) for before, after, _ in differences(halved, ["faithfulness"])}


def test_the_newest_runs_come_first_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_INTERVALS", 20)
    found = differences(made(40), ["faithfulness", "context_recall"])
    assert sum(len(values) for *_, values in found) == 20
    assert {after for _, after, _ in found} <= set(range(35, 40))
