"""Which half of the system a failed gate points at, and which samples got worse."""

from __future__ import annotations

import pytest

from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import GateVerdict, Side
from tests.gate.conftest import build_run as run

NAMES = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
HIGH = [1.0, 0.9, 0.95, 1.0] * 15
LOW = [0.5, 0.3, 0.6, 0.4] * 15
POLICY = policy_from_mapping({"metrics": {name: {"min": 0.7, "max_drop": 0.02} for name in NAMES}})

POLICY_OF_ONE = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})


def verdict(worse: set[str], *, baseline: bool = True) -> GateVerdict:
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
def test_the_half_that_got_worse_is_named(worse: set[str], side: Side, baseline: bool) -> None:
    found = verdict(worse, baseline=baseline)
    assert found.explanation.attribution is not None
    assert found.explanation.attribution.side is side
    failed = [check for check in found.checks if check.status == "fail" and check.metric is not None]
    assert {check.metric for check in failed} >= worse
    if side is Side.RETRIEVAL:
        assert all(check.reason.endswith("This points at retrieval.") for check in failed)
    if side is Side.GENERATION and baseline:
        for figure in ("faithfulness −0.51", "context_precision 0", "context_recall 0"):
            assert figure in found.explanation.attribution.reason


def test_a_run_that_passes_blames_nobody() -> None:
    assert verdict(set()).explanation.attribution is None


def test_the_worst_regressed_samples_come_first() -> None:
    before = run({"faithfulness": [1.0] * 60})
    now = run({"faithfulness": [0.5] * 57 + [0.0, 0.25, 1.0]})
    found = decide_gate(now, before, POLICY_OF_ONE)
    first, second = found.explanation.regressions[:2]
    assert (first.sample_id, first.current, first.baseline) == ("s57", 0.0, 1.0)
    assert (second.sample_id, second.current) == ("s58", 0.25)
    assert all(one.sample_id != "s59" for one in found.explanation.regressions)
    # A sample that lost in several metrics comes before one that lost more in one.
    rules = policy_from_mapping({"metrics": {name: {"max_drop": 0.0} for name in NAMES}})
    lost = {name: [0.4, 0.5, 0.0 if name == "faithfulness" else 1.0] + [0.8] * 27 for name in NAMES}
    several = decide_gate(run(lost), run(dict.fromkeys(NAMES, [1.0] * 30)), rules).explanation.regressions
    assert list(dict.fromkeys(one.sample_id for one in several))[:3] == ["s0", "s1", "s2"]
    assert [one.metric for one in several[:4]] == sorted(NAMES)


def test_a_loss_in_a_failed_metric_comes_before_a_larger_one_in_a_metric_that_passed() -> None:
    rules = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}, "context_recall": {"max_drop": 0.9}}})
    before = run({"faithfulness": [1.0] * 40, "context_recall": [1.0] * 40})
    now = run({"faithfulness": [1.0] + [0.6] * 39, "context_recall": [0.0] + [1.0] * 39})
    decided = decide_gate(now, before, rules)
    assert {check.metric for check in decided.checks if check.status == "fail"} == {"faithfulness"}
    assert decided.explanation.regressions[0].sample_id == "s1"
    assert decided.explanation.regressions[-1].sample_id == "s0"


@pytest.mark.heavy
def test_samples_beyond_the_thousandth_are_counted() -> None:
    before, now = run({"faithfulness": [1.0] * 1003}), run({"faithfulness": [0.5] * 1003})
    found = decide_gate(now, before, POLICY_OF_ONE)
    assert (len(found.explanation.regressions), found.explanation.regressed_left) == (1000, 3)


def test_without_a_baseline_the_samples_farthest_below_a_missed_floor_are_listed() -> None:
    found = verdict({"context_recall"}, baseline=False).explanation.regressions
    assert found[0].current == 0.3
    assert {one.metric for one in found} == {"context_recall"}
    assert all(one.baseline is None for one in found)
    at_floor = run({"faithfulness": [0.3] * 40 + [0.5] * 2})
    short = decide_gate(
        at_floor, None, policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}})
    ).explanation.regressions
    assert {one.sample_id for one in short} == {f"s{index}" for index in range(40)}
