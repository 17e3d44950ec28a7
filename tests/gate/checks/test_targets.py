"""Bands: a floor that must hold, and a target that would be good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ragstone
from ragstone.errors import ConfigError
from ragstone.gate.policy import policy_from_mapping, policy_hash
from ragstone.gate.policy_changes import policy_changes
from ragstone.gate.verdict import Check, GateVerdict
from tests.cli.project import make_project
from tests.cli.project import ragstone as run_ragstone


def run_of(metric: str, values: list[float]) -> dict[str, dict[str, float]]:
    return {metric: {f"q{at}": value for at, value in enumerate(values)}}


def decided(values: list[float], metric: str = "faithfulness", **rule: object) -> tuple[GateVerdict, dict[str, Check]]:
    verdict = ragstone.compare(run_of(metric, values), policy={"metrics": {metric: rule}})
    return verdict, {check.name: check for check in verdict.checks}


NOISE = "noise_sensitivity_relevant"


@pytest.mark.parametrize(
    ("values", "metric", "rule", "status", "says"),
    [
        ([0.9, 0.8] * 60, "faithfulness", {"min": 0.8, "target": 0.95}, "fail", "not yet good: below the target"),
        ([1.0, 0.96] * 30, "faithfulness", {"min": 0.8, "target": 0.95}, "pass", "target of 0.95 is met"),
        ([1.0, 1.0, 1.0, 0.5], "faithfulness", {"min": 0.1, "target": 0.9}, "fail", "which the interval includes"),
        ([0.1] * 60, "faithfulness", {"target": 0.9}, "fail", "below the target"),  # alone
        ([0.1, 0.14] * 60, NOISE, {"max": 0.3, "target": 0.05}, "fail", "not yet good: above the target"),
        ([0.01] * 60, NOISE, {"max": 0.3, "target": 0.05}, "pass", "target of 0.05 is met"),
    ],
)
def test_a_target_only_warns(values: list[float], metric: str, rule: dict[str, float], status: str, says: str) -> None:
    verdict, found = decided(values, metric, **rule)
    target = found[f"{metric}.target"]
    assert (target.status, target.action, target.threshold) == (status, "warn", rule["target"])
    assert f"on {len(values)} samples" in target.reason
    assert says in target.reason
    assert (verdict.status, verdict.exit_code) == ("pass", 0)
    assert ("only warns did not pass" in verdict.reason) is (status == "fail")


def test_where_the_mean_is_below_its_floor_the_target_is_not_mentioned() -> None:
    _, found = decided([1.0, 0.5, 0.8, 0.8], min=0.8, target=0.95)
    assert found["faithfulness.floor"].status == "fail"
    assert "faithfulness.target" not in found


def test_a_target_spends_nothing_of_the_error_rate() -> None:
    """The floor is decided as it is without a target, to the last digit."""
    values = [0.8, 0.7, 1.0] * 20
    _, without = decided(values, min=0.8)
    _, having = decided(values, min=0.8, target=0.95)
    assert having["faithfulness.floor"] == without["faithfulness.floor"]


@pytest.mark.parametrize(
    ("metric", "rule", "said"),
    [
        ("faithfulness", {"min": 0.8, "target": 0.8}, "not above 'min'"),
        ("faithfulness", {"min": 0.8, "target": 0.7}, "not above 'min'"),
        ("noise_sensitivity", {"max": 0.2, "target": 0.3}, "not below 'max'"),
        ("faithfulness", {"target": 1.5}, "1"),
    ],
)
def test_a_target_that_asks_for_no_more_is_an_error(metric: str, rule: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        policy_from_mapping({"metrics": {metric: rule}})


def test_a_target_changes_the_policy() -> None:
    gate = {"min_coverage": 0.98}
    plain = policy_from_mapping({"gate": gate, "metrics": {"faithfulness": {"min": 0.8}}})
    having = policy_from_mapping({"gate": gate, "metrics": {"faithfulness": {"min": 0.8, "target": 0.9}}})
    assert policy_hash(having) != policy_hash(plain)
    assert policy_changes(plain, having) == ("adds metrics.faithfulness.target = 0.9",)


@pytest.mark.heavy
def test_the_reports_show_both_levels_and_the_state(tmp_path: Path) -> None:
    named = "[metrics.faithfulness]\nmin = 0.5\ntarget = 0.9999\n[metrics.context_recall]\ntarget = 0.5\n"
    policy = f"[gate]\nonly_named = true\n{named}"
    root = make_project(tmp_path / "repo", n=10, policy=policy)
    done = run_ragstone(["gate", "--verbose"], root)
    assert done.returncode == 0
    out = root / "ragstone-run"
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    row = next(one for one in report["metrics"] if one["metric"] == "faithfulness")
    assert (row["state"], row["status"]) == ("acceptable, not yet good", "fail")
    assert {"kind": "target", "value": 0.9999, "warns": False} in row["limits"]
    texts = [done.stdout, *((out / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))]
    for text in texts:
        assert "target 0.9999" in " ".join(text.replace("&nbsp;", " ").split())
    assert "warning: faithfulness is" in (out / "junit.xml").read_text(encoding="utf-8")
    assert "faithfulness target 0.9999" in run_ragstone(["check"], root).stdout
    assert run_ragstone(["plan"], root).returncode == 2, "there is no allowed drop to plan for"
    (root / "thresholds.toml").write_text(f"{policy}max_drop = 0.05\n", encoding="utf-8")
    assert "faithfulness, context_recall" in run_ragstone(["plan"], root).stdout, "which have targets alone"
