"""Early stopping: looking all the time must not make the gate cry wolf."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ragstone.gate.decide import decide_gate
from ragstone.gate.early import EarlyStop, draw_samples
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
    facts = whole(values).samples
    early = EarlyStop(draw_samples(facts, seed), facts, rules, MANIFEST, None)
    seen: dict[str, float] = {}
    for sample_id in early.order:
        if early.enough():
            break
        seen[sample_id] = values[sample_id]
        early.add(sample_id, {"faithfulness": Scored(values[sample_id])})
    return early, whole(seen)


def verdict_of(early: EarlyStop, current: RunScores) -> GateVerdict:
    finished = replace(current, manifest=MANIFEST.model_copy(update={"state": "finished", "drawn": early.drawn}))
    return decide_gate(finished, None, policy())


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
    facts = whole({f"q{i}": 1.0 for i in range(50)}).samples
    order = draw_samples(facts, 3)
    assert order == draw_samples(dict(reversed(list(facts.items()))), 3)
    assert order.ids != draw_samples(facts, 4).ids
    assert sorted(order.ids) == sorted(facts)


def test_samples_count_in_the_order_drawn_and_not_as_they_finish() -> None:
    facts = whole({"a": 1, "b": 1, "c": 1}).samples
    early = EarlyStop(draw_samples(facts, 0), facts, policy(), MANIFEST, None)
    one, two, three = early.order
    early.add(three, {"faithfulness": Scored(1.0)})
    prefixes = [early.prefix]
    for name in (one, two):
        early.add(name, {"faithfulness": Scored(1.0)})
        prefixes.append(early.prefix)
    assert prefixes == [(), (one,), (one, two, three)]


def test_it_goes_on_until_samples_that_must_pass_have_been_seen() -> None:
    values = {f"q{i}": 1.0 for i in range(300)}
    last = draw_samples(whole(values).samples, 0).ids[250]
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


DROP = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})


def movers(n: int = 200) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """The level of questions of which two in five move, and what a history says of them: levels and noise (n, 1)."""
    levels = {f"q{i:03}": 0.65 if i % 5 < 2 else 1.0 for i in range(n)}
    noise = [0.12 if i % 5 < 2 else 0.002 for i in range(n)]
    return levels, np.array(list(levels.values()))[:, None], np.array(noise)[:, None]


def answered(levels: dict[str, float], seed: int, lost: int = 0) -> dict[str, float]:
    """A run: what moves is a little higher or lower, and the first `lost` others are wrong."""
    chance = np.random.default_rng(seed)
    found = {name: level if level == 1.0 else float(chance.choice([0.3, 1.0])) for name, level in levels.items()}
    return found | dict.fromkeys([name for name, level in levels.items() if level == 1.0][:lost], 0.0)


def stopped_run(
    levels: dict[str, float], now: dict[str, float], seed: int, *history: np.ndarray
) -> tuple[RunScores, GateVerdict]:
    """What is asked of a run that may stop early, and its verdict."""
    before, facts = whole(levels), whole(now).samples
    known, noise = history or (None, None)
    early = EarlyStop(draw_samples(facts, seed, levels=known, noise=noise), facts, DROP, MANIFEST, before)
    seen: dict[str, float] = {}
    for name in early.order:
        if early.enough():
            break
        seen[name] = now[name]
        early.add(name, {"faithfulness": Scored(now[name])})
    manifest = MANIFEST.model_copy(update={"state": "finished", "drawn": early.drawn})
    current = replace(whole(seen), manifest=manifest)
    return current, decide_gate(current, before, DROP)


def test_a_healthy_run_asks_few_questions_of_those_that_never_moved() -> None:
    levels, *history = movers()
    shares, moving, passed = [], [], 0
    for seed in range(20):
        current, verdict = stopped_run(levels, answered(levels, seed), seed, *history)
        passed += verdict.status is Status.PASS
        shares.append(len(current.samples) / 200)
        moving.append(np.mean([levels[name] < 1.0 for name in current.samples]))
    assert passed >= 19
    assert sorted(shares)[17] <= 0.4
    assert np.mean(moving) > 0.44, "two in five of all"


def test_a_loss_is_found_whatever_the_history_says() -> None:
    levels, *_ = movers()
    hostile = np.full((200, 1), 1.0), np.array([[1e-4 if i % 5 >= 2 else 1.0] for i in range(200)])
    found = [stopped_run(levels, answered(levels, seed, lost=20), seed, *hostile)[1].status for seed in range(20)]
    assert found.count(Status.FAIL) >= 18


def test_what_is_shown_of_a_stopped_run_is_an_estimate_for_all_questions() -> None:
    levels, *history = movers()
    off, plain, held = [], [], 0
    for seed in range(40):
        now = answered(levels, 0)
        truth = float(np.mean([now[name] - levels[name] for name in levels]))
        current, verdict = stopped_run(levels, now, seed, *history)
        [check] = [one for one in verdict.checks if one.kind == "drop"]
        assert check.estimate is not None
        assert check.interval is not None
        assert check.baseline is not None
        assert check.baseline == pytest.approx(float(np.mean(list(levels.values()))))
        assert check.current == pytest.approx(check.baseline + check.estimate)
        off.append(check.estimate - truth)
        plain.append(np.mean([now[name] for name in current.samples]) - np.mean(list(now.values())))
        held += check.interval.low <= truth <= check.interval.high
    # Stopping prefers what looks well a little; at any fixed number of questions, there is no bias.
    assert abs(np.mean(off)) < 0.01
    assert held >= 34
    assert np.mean(plain) < -0.015, "the plain mean is of the questions that move"


def test_a_run_that_asks_every_question_is_decided_as_any_other() -> None:
    levels, *history = movers(40)
    now = answered(levels, 0, lost=14)
    drawn = draw_samples(whole(now).samples, 0, levels=history[0], noise=history[1])
    current = replace(whole(now), manifest=MANIFEST.model_copy(update={"state": "finished", "drawn": drawn}))
    known = replace(whole(now), manifest=MANIFEST.model_copy(update={"state": "finished"}))
    found, usual = (decide_gate(one, whole(levels), DROP) for one in (current, known))
    assert found.status is usual.status is Status.FAIL
    assert found.checks == usual.checks


def test_a_pull_request_can_not_choose_the_order_by_new_ids() -> None:
    levels, *history = movers(50)
    facts = whole(levels).samples
    known = partial(draw_samples, levels=history[0], noise=history[1])
    drawn = known(facts, 3, basis="f" * 16)
    names = {f"a{name}": name for name in facts}
    renamed = known({new: facts[old] for new, old in names.items()}, 3, names=names, basis="f" * 16)
    assert [names[new] for new in renamed.ids] == list(drawn.ids)
    assert known(facts, 3, basis="0" * 16).ids != drawn.ids


def test_it_asks_everything_if_questions_were_edited() -> None:
    levels, *_ = movers(100)
    facts = {name: SampleFacts(content_hash="b" * 64) for name in levels}
    before = replace(whole(levels), samples={name: SampleFacts(content_hash="a" * 64) for name in levels})
    early = EarlyStop(draw_samples(facts, 0), facts, DROP, MANIFEST, before)
    for name in early.order[:-1]:
        early.add(name, {"faithfulness": Scored(levels[name])})
        assert not early.enough()


@pytest.mark.parametrize("decision", ["assured", "point"])
def test_other_kinds_of_decision_are_those_of_all_questions(decision: str) -> None:
    rules = policy(gate={"decision": decision, "confirm": False})
    for value, status in ((0.2, Status.FAIL), (1.0, Status.PASS)):
        values = {f"q{i}": value for i in range(600)}
        early, current = run(values, rules)
        assert len(current.samples) < 600
        finished = replace(current, manifest=MANIFEST.model_copy(update={"state": "finished", "drawn": early.drawn}))
        assert decide_gate(finished, None, rules).status is status
