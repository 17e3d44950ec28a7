"""Early stopping: looking all the time must not make the gate cry wolf."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragstone.gate.decide import decide_gate
from ragstone.gate.early import EarlyStop, random_order
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Scored
from ragstone.run.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.run.scores import MetricScores, RunScores, SampleFacts

MANIFEST = Manifest(
    ragstone_version="0",
    state="running",
    created_at="2026-01-01T00:00:00+00:00",
    golden=GoldenManifest(files=("g.jsonl",), content_hash="0", samples=0),
    judge=JudgeIdentity(provider="scripted", model="script", version="1"),
    system=SystemManifest(entrypoint="python:x:y"),
    metrics={"faithfulness": "1"},
)


def policy(**more: object) -> Policy:
    return policy_from_mapping({"metrics": {"faithfulness": {"min": 0.8}}, **more})


def whole(values: dict[str, float], tags: dict[str, tuple[str, ...]] | None = None) -> RunScores:
    return RunScores(
        label="run",
        metrics={"faithfulness": MetricScores(values, version="1")},
        samples={i: SampleFacts(tags=(tags or {}).get(i, ())) for i in values},
        manifest=MANIFEST,
    )


def run(values: dict[str, float], rules: Policy, seed: int = 0) -> tuple[EarlyStop, RunScores]:
    """Feed samples in the seeded order until the watcher has seen enough."""
    early = EarlyStop(random_order(tuple(values), seed), whole(values).samples, rules, MANIFEST, None)
    seen: dict[str, float] = {}
    for sample_id in early.order:
        if early.enough():
            break
        seen[sample_id] = values[sample_id]
        early.add(sample_id, {"faithfulness": Scored(values[sample_id])})
    return early, whole(seen)


def verdict_of(early: EarlyStop, current: RunScores) -> GateVerdict:
    finished = replace(current, manifest=MANIFEST.model_copy(update={"state": "finished"}))
    return decide_gate(finished, None, policy(), looked_in_order=early.order)


def test_a_clear_failure_and_a_clear_pass_stop_early_and_the_verdict_agrees() -> None:
    for value, status in ((0.2, Status.FAIL), (1.0, Status.PASS)):
        values = {f"q{i}": value for i in range(400)}
        early, current = run(values, policy())
        assert len(current.samples) < 100
        verdict = verdict_of(early, current)
        assert verdict.status is status
        floor = next(check for check in verdict.checks if check.kind == "floor")
        assert floor.interval is not None
        assert "every look" in floor.interval.method


def test_a_close_call_takes_all_samples() -> None:
    values = {f"q{i}": float(i % 5 != 0) for i in range(120)}
    taken = [len(run(values, policy(), seed)[1].samples) for seed in range(5)]
    assert taken.count(120) >= 4


def test_the_order_is_the_seeds_and_not_the_files() -> None:
    ids = tuple(f"q{i}" for i in range(50))
    assert random_order(ids, 3) == random_order(ids[::-1], 3)
    assert random_order(ids, 3) != random_order(ids, 4)
    assert sorted(random_order(ids, 3)) == sorted(ids)


def test_samples_count_in_the_order_drawn_and_not_as_they_finish() -> None:
    early = EarlyStop(("a", "b", "c"), whole({"a": 1, "b": 1, "c": 1}).samples, policy(), MANIFEST, None)
    early.add("c", {"faithfulness": Scored(1.0)})
    prefixes = [early.prefix]
    for name in ("a", "b"):
        early.add(name, {"faithfulness": Scored(1.0)})
        prefixes.append(early.prefix)
    assert prefixes == [(), ("a",), ("a", "b", "c")]


def test_it_goes_on_until_samples_that_must_pass_have_been_seen() -> None:
    values = {f"q{i}": 1.0 for i in range(300)}
    last = random_order(tuple(values), 0)[250]
    _, current = run(values, policy(must_pass={"samples": [last], "min": 0.5, "metrics": ["faithfulness"]}))
    assert last in current.samples


@pytest.mark.heavy
def test_a_system_exactly_at_its_floor_fails_in_at_most_five_percent_of_runs() -> None:
    failed = 0
    for seed in range(200):
        chance = np.random.default_rng(seed)
        values = {f"q{i}": float(v) for i, v in enumerate(chance.choice([0.0, 1.0], 200, p=[0.2, 0.8]))}
        early, current = run(values, policy(), seed)
        failed += verdict_of(early, current).status is Status.FAIL
    assert failed <= 18  # 5 % of 200 is 10; 18 lies beyond the 99th percentile of a true 5 %
