"""How many samples it takes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from ragstone.cli.plan import command
from ragstone.errors import ConfigError
from ragstone.evaluation.score_files import scores_from_mapping
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import Status
from ragstone.pipeline.plan import plan, plan_text
from ragstone.stats.sensitivity import LOST
from tests.gate.conftest import make_manifest


def policy(max_drop: float = 0.0, **more: Any) -> Policy:
    return policy_from_mapping({"metrics": {"m": {"max_drop": max_drop}}, **more})


def run_of(values: list[float], groups: list[str] | None = None) -> RunScores:
    facts = {f"s{i}": SampleFacts(group=groups[i] if groups else None) for i in range(len(values))}
    return RunScores("run", {"m": MetricScores({f"s{i}": value for i, value in enumerate(values)})}, facts)


def test_a_smaller_drop_takes_more_samples() -> None:
    scores = scores_from_mapping({"m": {str(i): random.Random(i).random() for i in range(50)}})
    large, small = plan(policy(), drops=[0.1, 0.05], run=scores).needed
    assert large is not None
    assert small is not None
    assert 2 * large < small < 6 * large


def test_what_is_allowed_to_drop_comes_on_top_and_a_drop_that_is_allowed_is_never_seen() -> None:
    scores = scores_from_mapping({"m": {str(i): random.Random(i).random() for i in range(50)}})
    allowed, strict = (plan(policy(bound), drops=[0.05], run=scores).needed[0] for bound in (0.04, 0.0))
    assert allowed is not None
    assert strict is not None
    assert allowed > strict
    assert plan(policy_from_mapping({}), drops=[0.02]).needed == (None,)


def test_more_blocking_checks_take_more_samples() -> None:
    scores = run_of([0.2, 0.9, 0.5, 1.0] * 10)
    one = plan(policy(), drops=[0.05], run=scores)
    both = RunScores("run", {"m": scores["m"], "k": scores["m"]}, scores.samples)
    rules = {"metrics": {"m": {"max_drop": 0.0}, "k": {"max_drop": 0.0}}}
    two = plan(policy_from_mapping(rules), drops=[0.05], run=both)
    assert (one.tests, two.tests) == (1, 2)
    assert (one.needed[0] or 0) < (two.needed[0] or 0)


def test_samples_that_move_together_count_for_less() -> None:
    values = [0.2] * 20 + [0.9] * 20 + [0.5] * 20 + [0.7] * 20
    alone = plan(policy(), drops=[0.05], run=run_of(values)).needed[0] or 0
    grouped = plan(policy(), drops=[0.05], run=run_of(values, [f"g{i // 20}" for i in range(80)])).needed[0] or 0
    assert grouped > 10 * alone


@pytest.mark.heavy
def test_the_planned_number_of_samples_sees_the_drop_about_as_often_as_promised() -> None:
    rng = np.random.default_rng(7)

    def asked(chances: NDArray[np.float64]) -> RunScores:
        return run_of((rng.binomial(4, chances) / 4).tolist())

    at_once = policy(gate={"confirm": False})
    chances = rng.beta(6.0, 0.6, 400)
    (needed,) = plan(at_once, drops=[0.1], run=asked(chances), baseline=asked(chances)).needed
    assert needed is not None
    seen = 0
    for _ in range(40):
        healthy = rng.beta(6.0, 0.6, needed)
        lost = rng.permutation(needed) < round(0.1 * needed / (LOST * healthy.mean()))
        broken = np.where(lost, (1.0 - LOST) * healthy, healthy)
        seen += decide_gate(asked(broken), asked(healthy), at_once).status is Status.FAIL
    assert 24 <= seen <= 39


def test_two_runs_that_do_not_differ_say_no_more_than_one() -> None:
    varied = run_of([0.2, 0.9, 0.5, 1.0] * 10)
    same = plan(policy(), drops=[0.05], run=varied, baseline=varied).metrics[0]
    assert same == plan(policy(), drops=[0.05], run=varied).metrics[0]


NO_DROPS = policy_from_mapping({"gate": {"only_named": True}, "metrics": {"faithfulness": {"min": 0.8}}})


@pytest.mark.parametrize(
    ("rules", "numbers", "says"),
    [
        (policy(), {"drops": [3.0]}, r"--drop 0\.03"),
        (policy(), {"drops": [0.03], "power": 1.0}, "0 < power < 1"),
        (NO_DROPS, {"drops": [0.03]}, "max_drop"),
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
    assert document["drops"] == [0.1]
    assert document["needed"] == document["metrics"][0]["needed"]
    usual = json.loads(CliRunner().invoke(command, [str(scores), "--format", "json"]).stdout)
    assert len(usual["needed"]) == len(usual["drops"]) == 3


def test_several_answers_to_each_question_say_how_much_the_system_varies() -> None:
    rng = np.random.default_rng(2)
    means = rng.random(200)
    answers = {f"s{i}": tuple(np.clip(mean + rng.normal(0.0, 0.1, 3), 0.0, 1.0)) for i, mean in enumerate(means)}
    rounds: dict[str, tuple[tuple[float, ...], ...]]
    rounds = {i: tuple((value,) for value in each) for i, each in answers.items()}
    scores = MetricScores({i: float(np.mean(each)) for i, each in answers.items()}, answers=answers, readings=rounds)
    manifest = make_manifest(answers=3)
    several = RunScores("run", {"m": scores}, {i: SampleFacts() for i in answers}, manifest=manifest)
    found = plan(policy(), drops=[0.05], run=several)
    (row,) = found.metrics
    assert row.source == "200 samples with 3 answers each"
    assert "variance of a score: samples " in plan_text(found)
