"""Bands: a floor that must hold, and a target that would be good."""

from __future__ import annotations

import pytest

from ragstone.errors import ConfigError
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Action, CheckKind, GateVerdict
from tests.gate.conftest import build_run, check_of, checks_of, decide

NOISE = "noise_sensitivity_relevant"


def decided(values: list[float], metric: str = "faithfulness", **rule: float) -> GateVerdict:
    tags = {"s0": ("x",), "s1": ("x",)}
    return decide(build_run({metric: values}, tags=tags), metrics={metric: rule})


@pytest.mark.parametrize(
    ("values", "metric", "rule", "status", "says"),
    [
        ([0.9, 0.8] * 60, "faithfulness", {"min": 0.8, "target": 0.95}, "fail", "not yet good: below the target"),
        ([1.0, 0.96] * 30, "faithfulness", {"min": 0.8, "target": 0.95}, "pass", "target of 0.95 is met"),
        ([0.9] * 30, "faithfulness", {"min": 0.8, "target": 0.9}, "pass", "target of 0.90 is met"),
        ([1.0, 1.0, 1.0, 0.5], "faithfulness", {"min": 0.1, "target": 0.9}, "fail", "which the interval includes"),
        ([0.1] * 60, "faithfulness", {"target": 0.9}, "fail", "below the target of 0.90."),  # alone
        ([0.1, 0.14] * 60, NOISE, {"max": 0.3, "target": 0.05}, "fail", "not yet good: above the target of 0.05."),
        ([0.0, 0.0, 0.0, 0.5], NOISE, {"max": 0.9, "target": 0.1}, "fail", "which the interval includes"),
        ([0.05] * 60, NOISE, {"max": 0.3, "target": 0.05}, "pass", "target of 0.05 is met"),
    ],
)
def test_a_target_only_warns(values: list[float], metric: str, rule: dict[str, float], status: str, says: str) -> None:
    verdict = decided(values, metric, **rule)
    target = check_of(verdict, CheckKind.TARGET)
    assert (target.name, target.status, target.action) == (f"{metric}.target", status, Action.WARN)
    assert target.threshold == rule["target"]
    assert f"on {len(values)} samples" in target.reason
    assert says in target.reason
    assert (verdict.status, verdict.exit_code) == ("pass", 0)
    assert ("only warns did not pass" in verdict.reason) is (status == "fail")
    assert key_of_check(target) == ("metrics", metric, "target")


def test_where_the_mean_is_below_its_floor_the_target_is_not_mentioned() -> None:
    verdict = decided([1.0, 0.5, 0.8, 0.8], min=0.8, target=0.95)
    assert check_of(verdict, CheckKind.FLOOR).status == "fail"
    assert not checks_of(verdict, CheckKind.TARGET)


def test_the_target_of_a_slice_is_about_its_samples() -> None:
    part = {"x": {"metrics": {"faithfulness": {"target": 0.9}}}}
    run = build_run({"faithfulness": [0.1, 0.2, 1.0]}, tags={"s0": ("x",), "s1": ("x",)})
    target = check_of(decide(run, metrics={"faithfulness": {"min": 0.1}}, slices=part), CheckKind.TARGET)
    assert (target.slice, target.n) == ("x", 2)
    assert target.estimate == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("metric", "rule", "said"),
    [
        ("faithfulness", {"min": 0.8, "target": 0.8}, "not above 'min'"),
        ("noise_sensitivity", {"max": 0.2, "target": 0.2}, "not below 'max'"),
        ("faithfulness", {"target": 1.5}, "1"),
    ],
)
def test_a_target_that_asks_for_no_more_is_an_error(metric: str, rule: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        policy_from_mapping({"metrics": {metric: rule}})
