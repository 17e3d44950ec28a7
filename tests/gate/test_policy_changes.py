"""What one policy changes about another, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.policy_changes import loosened_bounds, policy_changes, sample_changes
from ragstone.golden.sample import Bound
from tests.gate.test_accepted import entry

RULE = {"min": 0.85, "max_drop": 0.02}


def policy(metrics: Any = None, **tables: Any) -> Policy:
    return policy_from_mapping({"metrics": metrics or {"faithfulness": RULE}, **tables})


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (policy({"faithfulness": {**RULE, "min": 0.8}}), "lowers metrics.faithfulness.min from 0.85 to 0.8"),
        (policy({"faithfulness": {**RULE, "max_drop": 0.1}}), "raises metrics.faithfulness.max_drop from 0.02 to 0.1"),
        (policy({"faithfulness": {**RULE, "action": "warn"}}), "changes metrics.faithfulness from block to warn"),
        (policy({"faithfulness": {"min": 0.85}}), "removes metrics.faithfulness.max_drop = 0.02"),
        (policy({"context_recall": RULE}, gate={"only_named": True}), "removes the rule metrics.faithfulness"),
        (policy({"context_recall": RULE}, gate={"only_named": True}), "sets gate.only_named = true"),
        (policy(gate={"min_coverage": 0.5}), "lowers gate.min_coverage from 0.9 to 0.5"),
        (
            policy(gate={"max_failed_judgements": 0.5}),
            "raises gate.max_failed_judgements from 0.03 to 0.5",
        ),
        (policy(gate={"decision": "point"}), "changes gate.decision from 'evidence' to 'point'"),
        (policy({"faithfulness": {**RULE, "min": 0.9}}), "raises metrics.faithfulness.min from 0.85 to 0.9"),
        (policy(system={"latency_p95_s": 3.0}), "adds system.latency_p95_s = 3"),
    ],
)
def test_a_change_is_named_with_its_key_and_both_values(head: Policy, says: str) -> None:
    assert says in policy_changes(policy(), head)


def test_nothing_is_said_of_the_same_policy_in_other_words() -> None:
    assert policy_changes(policy(), policy()) == ()
    assert policy_changes(policy(), policy({"faithfulness": {**RULE, "action": "block"}})) == ()
    assert policy_changes(default_policy(), default_policy()) == ()


def test_a_policy_that_is_taken_away_shows_what_no_longer_holds() -> None:
    strict = policy({"faithfulness": {"min": 0.99}, "mrr": {"min": 0.5}})
    found = policy_changes(strict, default_policy())
    assert "removes the rule metrics.mrr" in found
    assert "lowers metrics.faithfulness.min from 0.99 to 0.85" in found


def test_a_first_policy_takes_the_place_of_the_default_rules_in_one_phrase() -> None:
    rules = {"mrr": {"min": 0.5}, "faithfulness": {"min": 0.9}}
    added = policy_changes(default_policy(), policy(rules))
    assert not any(one.startswith("removes the rule") or "of its own" in one for one in added)
    found = policy_changes(default_policy(), policy(rules, gate={"only_named": True}))
    assert not any(one.startswith("removes the rule") for one in found)
    (own,) = [one for one in found if "a policy of its own" in one]
    assert own.startswith("has a policy of its own, in place of the default rules for answer_correctness, ")
    assert "adds metrics.mrr.min = 0.5" in found
    assert "raises metrics.faithfulness.min from 0.85 to 0.9" in found


def test_rules_of_slices_and_must_pass_samples_count_too() -> None:
    base = policy(slices={"de": {"metrics": {"faithfulness": {"min": 0.7}}}}, must_pass=["a", "b"])
    head = policy(slices={"de": {"metrics": {"faithfulness": {"min": 0.6}}}}, must_pass=["b"])
    assert policy_changes(base, head) == (
        "removes a from must_pass.samples",
        "lowers slices.de.metrics.faithfulness.min from 0.7 to 0.6",
    )


def test_what_is_accepted_comes_first_and_a_larger_size_is_no_old_entry() -> None:
    looser = policy({"faithfulness": {**RULE, "min": 0.8}})
    first, second = policy_changes(policy(), replace(looser, accepted=(entry(),)))
    assert first == f"accepts a drop of faithfulness of up to 0.06 ({entry().id}): half the latency"
    assert second.startswith("lowers")
    old = replace(policy(), accepted=(entry(),))
    assert policy_changes(old, old) == ()
    [larger] = policy_changes(old, replace(policy(), accepted=(entry(drop=0.5),)))
    assert "of up to 0.5" in larger


@pytest.mark.parametrize(
    ("base", "head", "keys"),
    [
        (
            policy(),
            policy({"faithfulness": {"min": 0.9, "max_drop": 0.1}}),
            ["metrics.faithfulness.max_drop", "metrics.faithfulness.min"],
        ),
        (
            policy(system={"latency_p95_s": 3.0}),
            policy(gate={"min_coverage": 0.99}, system={"latency_p95_s": 5.0, "max_empty": 0.9}),
            ["system.latency_p95_s", "system.max_empty", "gate.min_coverage"],
        ),
    ],
)
def test_what_weakens_the_gate_comes_before_what_does_not(base: Policy, head: Policy, keys: list[str]) -> None:
    assert [one.split()[1] for one in policy_changes(base, head)] == keys


def test_samples_that_are_gone_or_other_ones_are_counted_and_named() -> None:
    base = {f"q{i}": "1" for i in range(9)}
    head = {**base, "q0": "2", "new": "1"}
    for name in ("q1", "q2"):
        del head[name]
    assert sample_changes(base, head) == (
        "removes 2 samples from the golden set (q1, q2)",
        "changes 1 sample in the golden set (q0)",
    )
    assert sample_changes(base, base) == ()


def test_samples_that_are_turned_into_drafts_are_named_also_with_new_ids() -> None:
    base = {"q1": "content 1", "q2": "content 2", "q3": "content 3"}
    head = {"q1": "content 1", "renamed": "content 2", "q3": "content 3", "new": "content 4"}
    drafts, renamed = sample_changes(base, head, drafts={"q1", "renamed", "new"})
    assert "2 samples" in drafts
    assert "(q1, q2)" in drafts
    assert renamed == "gives new ids to 1 sample of the golden set (q2)"
    (draft,) = sample_changes(base, base, drafts={"q3"})
    assert "(q3)" in draft


def test_a_looser_floor_of_a_sample_is_said_also_under_a_new_id() -> None:
    base: dict[str, tuple[Bound, ...]] = {
        "q1": (("min", "faithfulness", 0.8), ("max", "toxicity", 0.2)),
        "q2": (("min", "mrr", 0.5),),
        "q3": (("min", "mrr", 0.5),),
    }
    tighter: dict[str, tuple[Bound, ...]] = {
        "q1": (("min", "faithfulness", 0.9), ("max", "toxicity", 0.1)),
        "new": (("min", "mrr", 0.5),),
    }
    assert loosened_bounds(base, tighter, {"q2": "new"}) == ()
    looser: dict[str, tuple[Bound, ...]] = {"q1": (("max", "toxicity", 0.3), ("min", "faithfulness", 0.8)), "new": ()}
    assert loosened_bounds(base, looser, {"q2": "new"}) == (
        "raises q1.toxicity.max from 0.2 to 0.3, removes q2.mrr.min = 0.5 in the golden set",
    )
