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


def test_between_floor_and_target_a_mean_is_acceptable_and_not_yet_good() -> None:
    verdict, found = decided([0.9, 0.8] * 60, min=0.8, target=0.95)
    assert (verdict.status, verdict.exit_code) == ("pass", 0)
    target = found["faithfulness.target"]
    assert (target.status, target.action, target.threshold) == ("fail", "warn", 0.95)
    assert "faithfulness is 0.85 on 120 samples" in target.reason
    assert target.reason.endswith("acceptable, not yet good: below the target of 0.95.")
    assert "1 check that only warns did not pass" in verdict.reason


def test_above_the_target_a_mean_is_good() -> None:
    _, found = decided([1.0, 0.96] * 30, min=0.8, target=0.95)
    assert found["faithfulness.target"].status == "pass"
    assert "good, the target of 0.95 is met" in found["faithfulness.target"].reason


def test_a_target_is_compared_with_the_estimate_and_says_what_chance_explains() -> None:
    _, found = decided([1.0, 1.0, 1.0, 0.5], min=0.1, target=0.9)
    assert found["faithfulness.target"].status == "fail"
    assert found["faithfulness.target"].reason.endswith("below the target of 0.90, which the interval includes.")


def test_where_the_floor_does_not_hold_the_target_is_not_mentioned() -> None:
    _, found = decided([0.2, 0.3] * 60, min=0.8, target=0.95)
    assert found["faithfulness.floor"].status == "fail"
    assert "faithfulness.target" not in found
    _, found = decided([1.0, 0.5, 0.8, 0.8], min=0.8, target=0.95)
    assert found["faithfulness.floor"].status == "pass"  # below it, but not by more than chance explains
    assert "faithfulness.target" not in found


def test_where_less_is_better_the_target_is_below_the_ceiling() -> None:
    verdict, found = decided([0.1, 0.14] * 60, "noise_sensitivity_relevant", max=0.3, target=0.05)
    check = found["noise_sensitivity_relevant.target"]
    assert (verdict.status, check.status) == ("pass", "fail")
    assert "acceptable, not yet good: above the target of 0.05" in check.reason
    _, found = decided([0.01] * 60, "noise_sensitivity_relevant", max=0.3, target=0.05)
    assert found["noise_sensitivity_relevant.target"].status == "pass"


def test_a_target_alone_never_fails_a_run() -> None:
    verdict, found = decided([0.1] * 60, target=0.9)
    assert found["faithfulness.target"].status == "fail"
    assert verdict.status == "pass"


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


def test_the_reports_show_both_levels_and_the_state(tmp_path: Path) -> None:
    named = "[metrics.faithfulness]\nmin = 0.5\ntarget = 0.9999\n[metrics.context_recall]\ntarget = 0.5\n"
    policy = f"[gate]\nonly_named = true\n{named}"
    root = make_project(tmp_path / "repo", n=20, policy=policy)
    done = run_ragstone(["gate", "--verbose"], root)
    assert done.returncode == 0
    said = " ".join(done.stdout.replace("\u00a0", " ").split())
    assert "≥ 0.5" in said
    assert "target 0.9999" in said
    assert "acceptable, not yet" in said
    out = root / "ragstone-run"
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    row = next(one for one in report["metrics"] if one["metric"] == "faithfulness")
    assert (row["target"], row["state"], row["status"]) == (0.9999, "acceptable, not yet good", "fail")
    for name in ("report.md", "report.html"):
        text = (out / name).read_text(encoding="utf-8").replace("\u00a0", " ").replace("&nbsp;", " ")
        assert "acceptable, not yet good" in text, name
        assert "target 0.9999" in text, name
    assert "warning: faithfulness is" in (out / "junit.xml").read_text(encoding="utf-8")
    check = run_ragstone(["check"], root)
    assert "faithfulness target 0.9999" in check.stdout
    plan = run_ragstone(["plan"], root)
    assert plan.returncode == 2  # no allowed drop to plan for
    (root / "thresholds.toml").write_text(policy + "max_drop = 0.05\n", encoding="utf-8")
    plan = run_ragstone(["plan"], root)
    assert "Targets only warn, by the estimate, and take no part in this: faithfulness, context_recall." in plan.stdout
