"""How many samples it takes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragstone.cli.plan import command
from ragstone.errors import ConfigError
from ragstone.evaluation.score_files import scores_from_mapping
from ragstone.evaluation.scores import RunScores
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.pipeline.plan import plan


def policy(max_drop: float = 0.0, **more: Any) -> Policy:
    return policy_from_mapping({"metrics": {"m": {"max_drop": max_drop}}, **more})


def needed(rules: Policy, drop: float, run: RunScores) -> int:
    number = plan(rules, drop=drop, run=run).needed
    assert number is not None
    return number


def test_a_smaller_drop_an_allowed_one_and_more_checks_take_more_samples() -> None:
    scores = scores_from_mapping({"m": {str(i): random.Random(i).random() for i in range(50)}})
    large, small = needed(policy(), 0.1, scores), needed(policy(), 0.05, scores)
    assert 2 * large < small < 6 * large
    assert needed(policy(0.04), 0.05, scores) > small
    both = RunScores("run", {"m": scores["m"], "k": scores["m"]}, scores.samples)
    rules = policy_from_mapping({"metrics": {"m": {"max_drop": 0.0}, "k": {"max_drop": 0.0}}})
    assert needed(rules, 0.05, both) > small
    assert plan(policy_from_mapping({}), drop=0.02).needed is None, "it is allowed, and never seen"


NO_DROPS = policy_from_mapping({"gate": {"only_named": True}, "metrics": {"faithfulness": {"min": 0.8}}})


@pytest.mark.parametrize(
    ("rules", "numbers", "says"),
    [
        (policy(), {"drop": 3.0}, r"--drop 0\.03"),
        (policy(), {"drop": 0.0}, "above 0 and at most 1, found 0"),
        (NO_DROPS, {"drop": 0.03}, "max_drop"),
    ],
)
def test_what_can_not_be_planned_is_refused(rules: Policy, numbers: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        plan(rules, **numbers)


def test_the_command_prints_a_plan_for_people_and_for_programs(tmp_path: Path) -> None:
    scores = tmp_path / "scores.csv"
    scores.write_text("id,metric,value\n" + "".join(f"q{i},m,{i % 3 / 2}\n" for i in range(30)))
    text = CliRunner().invoke(command, [str(scores), "--drop", "0.1"])
    assert "the current 30 samples detect a drop of" in text.output
    document = json.loads(CliRunner().invoke(command, [str(scores), "--drop", "0.1", "--format", "json"]).stdout)
    assert document["metrics"][0]["metric"] == "m"
    assert document["drop"] == 0.1
    assert document["needed"] == document["metrics"][0]["needed"]
    usual = json.loads(CliRunner().invoke(command, [str(scores), "--format", "json"]).stdout)
    assert usual["drop"] == 0.1
