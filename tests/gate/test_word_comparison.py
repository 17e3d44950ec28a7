"""A loss that only the words of the offline judge show warns; a loss of facts blocks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from ragstone.evaluation.rewording import Rewording
from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.headline import headline_of
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import Action, Check, GateVerdict, Status
from tests.gate.conftest import build_run, make_manifest

N = 60


def policy(metric: str) -> Policy:
    """One that looks at nothing but the drop of the metric."""
    return policy_from_mapping(
        {"metrics": {metric: {"max_drop": 0.02}}, "gate": {"only_named": True}, "system": {"max_broken": 1.0}}
    )


def scores(metric: str, values: list[float], *, provider: str = "offline", reworded: Collection[int] = ()) -> RunScores:
    run = build_run({metric: values}, manifest=make_manifest(provider=provider))
    samples = {name: replace(facts, reference=f"r{name}") for name, facts in run.samples.items()}
    facts = {f"s{i}": Rewording(grounded=True, states_reference=True) for i in reworded}
    return replace(run, samples=samples, system=replace(run.system, reworded=facts))


def after(metric: str, lost: int, reworded: Collection[int], provider: str = "offline") -> GateVerdict:
    before = scores(metric, [0.95] * N, provider=provider)
    now = scores(metric, [0.5] * lost + [0.95] * (N - lost), provider=provider, reworded=reworded)
    return decide_gate(now, before, policy(metric))


def drop(verdict: GateVerdict) -> Check:
    return next(check for check in verdict.checks if check.name.endswith(".drop"))


@pytest.mark.parametrize("metric", ["faithfulness", "answer_correctness"])
def test_a_drop_among_answers_with_the_same_facts_warns(metric: str) -> None:
    verdict = after(metric, 20, range(20))
    check = drop(verdict)
    assert (check.status, check.action, check.by_words) == (Status.FAIL, Action.WARN, True)
    assert verdict.status is Status.PASS
    assert verdict.explanation.attribution is None
    line = str(headline_of(verdict, samples=N))
    assert f"By word comparison, {metric.replace('_', ' ')} 0.95 → 0.80." in line


@pytest.mark.parametrize(
    ("lost", "reworded", "status", "action"),
    [
        (20, (), Status.FAIL, Action.BLOCK),
        (20, range(8), Status.FAIL, Action.BLOCK),  # twelve others lost facts
        (20, range(14), Status.FAIL, Action.BLOCK),  # six did
        (20, range(18), Status.FAIL, Action.WARN),  # two alone show nothing
        (2, range(2), Status.PASS, Action.BLOCK),
    ],
)
def test_what_other_answers_lost_decides(lost: int, reworded: Collection[int], status: Status, action: Action) -> None:
    check = drop(after("faithfulness", lost, reworded))
    assert (check.status, check.action) == (status, action)


def test_a_model_is_believed_whatever_the_words() -> None:
    assert drop(after("faithfulness", 20, range(20), "openai")).action is Action.BLOCK


def test_an_answer_without_the_facts_of_its_reference_is_less_correct() -> None:
    before = scores("answer_correctness", [0.95] * N)
    now = scores("answer_correctness", [0.5] * 20 + [0.95] * 40)
    grounded = {f"s{i}": Rewording(grounded=True) for i in range(20)}
    now = replace(now, system=replace(now.system, reworded=grounded))
    assert drop(decide_gate(now, before, policy("answer_correctness"))).action is Action.BLOCK


@pytest.mark.parametrize(("reworded", "action"), [(range(20), Action.WARN), (range(19), Action.BLOCK)])
def test_a_mean_below_its_floor_by_words_alone_warns(reworded: Collection[int], action: Action) -> None:
    before = scores("faithfulness", [0.95] * N)
    now = scores("faithfulness", [0.5] * 20 + [0.95] * 40, reworded=reworded)
    rules = {"metrics": {"faithfulness": {"min": 0.95}}, "gate": {"only_named": True}, "system": {"max_broken": 1.0}}
    verdict = decide_gate(now, before, policy_from_mapping(rules))
    check = next(check for check in verdict.checks if check.name == "faithfulness.floor")
    assert (check.status, check.action, check.by_words) == (Status.FAIL, action, action is Action.WARN)
    if check.by_words:
        assert "By word comparison, faithfulness 0.80 (floor 0.95)." in str(headline_of(verdict, samples=N))
    first = decide_gate(now, None, policy_from_mapping(rules))
    assert first.status is Status.FAIL
