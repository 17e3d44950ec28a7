"""Which half of the system a failed gate points at, and which samples got worse."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.regressions import worse_samples, worst_regressions
from ragstone.gate.verdict import GateVerdict, Side
from tests.gate.conftest import build_run as run
from tests.gate.conftest import decide, evidence_of

NAMES = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
HIGH = [1.0, 0.9, 0.95, 1.0] * 15
LOW = [0.5, 0.3, 0.6, 0.4] * 15
RULES = {name: {"min": 0.7, "max_drop": 0.02} for name in NAMES}


def verdict(worse: set[str], *, baseline: bool = True) -> GateVerdict:
    now = run({name: LOW if name in worse else HIGH for name in NAMES})
    return decide(now, run(dict.fromkeys(NAMES, HIGH)) if baseline else None, metrics=RULES)


@pytest.mark.parametrize("baseline", [True])
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
    attribution = found.explanation.attribution
    assert attribution is not None
    assert attribution.side is side
    failed = [check for check in found.checks if check.status == "fail" and check.metric is not None]
    assert {check.metric for check in failed} >= worse
    assert attribution.reason == f"Failed: {', '.join(sorted(worse))}."


def ids(now: RunScores, then: RunScores | None, metrics: Any, **more: Any) -> list[str]:
    regressions = decide(now, then, metrics=metrics, **more).explanation.regressions
    return list(dict.fromkeys(one.sample_id for one in regressions))


def test_the_worst_regressed_samples_come_first() -> None:
    one = {"faithfulness": {"max_drop": 0.02}}
    now = run({"faithfulness": [0.5] * 57 + [0.0, 0.25, 1.0]})
    found = ids(now, run({"faithfulness": [1.0] * 60}), one)
    assert (found[:2], len(found)) == (["s57", "s58"], 59)
    # A sample that lost in several metrics comes before one that lost more in one.
    lost = {name: [0.4, 0.5, 0.0 if name == "faithfulness" else 1.0] + [0.8] * 27 for name in NAMES}
    rules = {name: {"max_drop": 0.0} for name in NAMES}
    several = decide(run(lost), run(dict.fromkeys(NAMES, [1.0] * 30)), metrics=rules).explanation.regressions
    assert list(dict.fromkeys(one.sample_id for one in several))[:3] == ["s0", "s1", "s2"]
    assert [one.metric for one in several[:4]] == sorted(NAMES)
    # One that lost in a failed metric comes before one that lost more in one that passed.
    apart = {"faithfulness": {"max_drop": 0.02}, "context_recall": {"max_drop": 0.9}}
    then = run({"faithfulness": [1.0] * 40, "context_recall": [1.0] * 40})
    found = ids(run({"faithfulness": [1.0] + [0.6] * 39, "context_recall": [0.0] + [1.0] * 39}), then, apart)
    assert (found[0], found[-1]) == ("s1", "s0")


def test_samples_beyond_a_limit_are_counted() -> None:
    evidence = evidence_of(run({"faithfulness": [0.5] * 9}), run({"faithfulness": [1.0] * 9}))
    found, left = worst_regressions(evidence, limit=4)
    assert (len(found), left) == (4, 5)


def test_without_a_baseline_the_samples_below_a_missed_floor_are_listed() -> None:
    found = verdict({"context_recall"}, baseline=False).explanation.regressions
    assert found[0].current == 0.3
    assert {(one.metric, one.baseline) for one in found} == {("context_recall", None)}
    at_floor = run({"faithfulness": [0.3] * 40 + [0.5] * 2})
    assert set(ids(at_floor, None, {"faithfulness": {"min": 0.5}})) == {f"s{index}" for index in range(40)}


def test_which_samples_are_worse() -> None:
    now = run({"faithfulness": [0.9, 0.85, 1.0]}, system_failures={"s2": "slow", "x": "slow"})
    then = run({"faithfulness": [1.0, 1.0, 1.0]}, system_failures={"x": "slow"})
    policy = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})
    assert worse_samples(Evidence.of(now, then, policy)) == ("s1", "s2"), "a tenth may be noise"
    assert worse_samples(Evidence.of(now, None, policy)) == ("s2", "x")
