"""Which half of the system a failed gate points at, and which samples got worse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import GateVerdict, Side

MakeRun = Callable[..., RunScores]

NAMES = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
HIGH = [1.0, 0.9, 0.95, 1.0] * 15
LOW = [0.5, 0.3, 0.6, 0.4] * 15
POLICY = policy_from_mapping({"metrics": {name: {"min": 0.7, "max_drop": 0.02} for name in NAMES}})

POLICY_OF_ONE = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})


def verdict(run: MakeRun, worse: set[str], *, baseline: bool = True) -> GateVerdict:
    before = run(dict.fromkeys(NAMES, HIGH)) if baseline else None
    return decide_gate(run({name: LOW if name in worse else HIGH for name in NAMES}), before, POLICY)


@pytest.mark.parametrize("baseline", [True, False])
@pytest.mark.parametrize(
    ("worse", "side"),
    [
        ({"faithfulness"}, Side.GENERATION),
        ({"answer_relevancy", "faithfulness"}, Side.GENERATION),
        ({"context_recall"}, Side.RETRIEVAL),
        ({"context_recall", "faithfulness"}, Side.BOTH),
    ],
)
def test_the_half_that_got_worse_is_named(run: MakeRun, worse: set[str], side: Side, baseline: bool) -> None:
    found = verdict(run, worse, baseline=baseline).attribution
    assert found is not None
    assert found.side is side


def test_each_failed_check_says_what_it_points_at(run: MakeRun) -> None:
    found = verdict(run, {"context_recall"})
    failed = [check for check in found.checks if check.status == "fail"]
    assert {check.name for check in failed} == {"context_recall.floor", "context_recall.drop"}
    assert all(check.reason.endswith("This points at retrieval.") for check in failed)


def test_the_reason_carries_the_figures_of_both_halves(run: MakeRun) -> None:
    found = verdict(run, {"faithfulness"}).attribution
    assert found is not None
    assert "faithfulness −0.51" in found.reason
    assert "retrieval did not (context_precision 0, context_recall 0)" in found.reason


def test_a_run_that_passes_blames_nobody(run: MakeRun) -> None:
    assert verdict(run, set()).attribution is None


def test_the_worst_regressed_samples_come_first(run: MakeRun) -> None:
    before = run({"faithfulness": [1.0] * 60})
    now = run({"faithfulness": [0.5] * 57 + [0.0, 0.25, 1.0]})
    found = decide_gate(now, before, policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}}))
    first, second = found.regressions[:2]
    assert (first.sample_id, first.current, first.baseline) == ("s57", 0.0, 1.0)
    assert (second.sample_id, second.current) == ("s58", 0.25)
    assert all(one.sample_id != "s59" for one in found.regressions)


def test_a_sample_that_lost_in_several_metrics_comes_before_one_that_lost_in_one(run: MakeRun) -> None:
    rules = policy_from_mapping({"metrics": {name: {"max_drop": 0.0} for name in NAMES}})
    before = run(dict.fromkeys(NAMES, [1.0] * 30))
    now = run({name: [0.4, 0.5, 0.0 if name == "faithfulness" else 1.0] + [0.8] * 27 for name in NAMES})
    found = decide_gate(now, before, rules).regressions
    assert list(dict.fromkeys(one.sample_id for one in found))[:3] == ["s0", "s1", "s2"]
    assert [one.metric for one in found[:4]] == sorted(NAMES)


def test_samples_beyond_the_thousandth_are_counted(run: MakeRun) -> None:
    before, now = run({"faithfulness": [1.0] * 1003}), run({"faithfulness": [0.5] * 1003})
    found = decide_gate(now, before, POLICY_OF_ONE)
    assert (len(found.regressions), found.regressed_left) == (1000, 3)


def test_without_a_baseline_the_samples_farthest_below_a_missed_floor_are_listed(run: MakeRun) -> None:
    found = verdict(run, {"context_recall"}, baseline=False).regressions
    assert found[0].current == 0.3
    assert {one.metric for one in found} == {"context_recall"}
    assert all(one.baseline is None for one in found)
