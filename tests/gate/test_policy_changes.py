"""What one policy changes about another, in words."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.policy_changes import (
    loosened_bounds,
    metric_changes,
    moved_must_pass,
    policy_changes,
    sample_changes,
)
from ragstone.golden.sample import Sample
from ragstone.settings.settings import CustomMetric
from tests.gate.test_accepted import entry

RULE = {"min": 0.85, "max_drop": 0.02}
STRICT = {"faithfulness": {"min": 0.9, "max_drop": 0.1}}
WEAKER_FIRST = ("max_drop from 0.02 to 0.1", "min from 0.85 to 0.9")
OTHER = {"metrics": {"context_recall": RULE}, "gate": {"only_named": True}}
DE = [{"de": {"metrics": {"faithfulness": {"min": number}}}} for number in (0.7, 0.6)]


def policy(**tables: Any) -> Policy:
    return policy_from_mapping({"metrics": {"faithfulness": RULE}, **tables})


def ruled(**changed: Any) -> Policy:
    return policy(metrics={"faithfulness": {**RULE, **changed}})


@pytest.mark.parametrize(
    ("base", "head", "said"),
    [
        (policy(), policy(), []),
        (policy(), ruled(action="block"), []),
        (policy(), ruled(min=0.8), ["changes metrics.faithfulness.min from 0.85 to 0.8"]),
        (policy(), ruled(action="warn"), ["changes metrics.faithfulness.action from unset to 'warn'"]),
        (policy(), ruled(max_drop=None), ["changes metrics.faithfulness.max_drop from 0.02 to unset"]),
        (policy(), policy(gate={"inconclusive": "pass"}), ["changes gate.inconclusive from 'warn' to 'pass'"]),
        (policy(), policy(system={"latency_p95_s": 3.0}), ["changes system.latency_p95_s from unset to 3"]),
        (policy(must_pass=["a", "b"]), policy(must_pass=["b"]), ["changes must_pass.samples from ['a', 'b'] to ['b']"]),
        (policy(slices=DE[0]), policy(slices=DE[1]), ["changes slices.de.metrics.faithfulness.min from 0.7 to 0.6"]),
        # What weakens the gate comes first.
        (policy(), policy(metrics=STRICT), [f"changes metrics.faithfulness.{key}" for key in WEAKER_FIRST]),
        (
            policy(system={"latency_p95_s": 3.0}),
            policy(gate={"min_coverage": 0.99}, system={"latency_p95_s": 5.0, "max_empty": 0.9}),
            [
                "changes system.latency_p95_s from 3 to 5",
                "changes system.max_empty from 0.2 to 0.9",
                "changes gate.min_coverage from 0.9 to 0.99",
            ],
        ),
        # A policy that is taken away shows what no longer holds.
        (
            policy(metrics={"faithfulness": {"min": 0.99, "max_drop": 0.02}, "mrr": {"min": 0.5}}),
            default_policy(),
            ["removes the rule metrics.mrr", "changes metrics.faithfulness.min from 0.99 to 0.85"],
        ),
    ],
)
def test_a_change_is_named_with_its_key_and_both_values(base: Policy, head: Policy, said: list[str]) -> None:
    assert list(policy_changes(base, head)) == said


@pytest.mark.parametrize(
    ("table", "key", "weaker", "stricter"),
    [
        ("gate", "inconclusive", "pass", "warn"),
        ("gate", "on_no_baseline", "warn", "fail"),
        ("gate", "on_judge_change", "skip", "rejudge"),
        ("gate", "decision", "evidence", "assured"),
        ("system", "action", "warn", "block"),
    ],
)
def test_words_have_an_order_from_weak_to_strict(table: str, key: str, weaker: Any, stricter: Any) -> None:
    neutral_change = {"drift": {"days": 30}}
    weak = policy(**{table: {key: weaker}}, **neutral_change)
    strict = policy(**{table: {key: stricter}})
    assert f"{table}.{key}" in policy_changes(strict, weak)[0], "what weakens the gate is first"
    assert f"{table}.{key}" in policy_changes(weak, strict)[-1]


def test_a_check_that_blocks_says_so() -> None:
    warns = policy(system={"action": "warn"})
    assert policy_changes(policy(), warns) == ("changes system.action from 'block' to 'warn'",)
    assert policy_changes(warns, policy()) == ("changes system.action from 'warn' to 'block'",)
    assert policy_changes(ruled(action="warn"), policy()) == (
        "changes metrics.faithfulness.action from 'warn' to unset",
    )


def test_a_rule_is_removed_and_the_others_are_no_longer_by_default() -> None:
    found = policy_changes(policy(), policy_from_mapping(OTHER))
    assert {"removes the rule metrics.faithfulness", "changes gate.only_named from false to true"} <= set(found)


def test_what_is_accepted_comes_first_and_a_larger_size_is_no_old_entry() -> None:
    first, second = policy_changes(policy(), ruled(min=0.8).model_copy(update={"accepted": (entry(),)}))
    assert first == f"accepts a drop of faithfulness of up to 0.06 ({entry().id}): half the latency"
    assert second.startswith("changes")
    old = policy().model_copy(update={"accepted": (entry(),)})
    assert policy_changes(old, old) == ()
    [larger] = policy_changes(old, policy().model_copy(update={"accepted": (entry(drop=0.5),)}))
    assert "of up to 0.5" in larger


BASE = {"q1": "1", "q2": "2", "q3": "3"}


@pytest.mark.parametrize(
    ("head", "drafts", "said"),
    [
        (BASE, (), ()),
        ({"q3": "3"}, (), ("removes 2 samples from the golden set (q1, q2)",)),
        ({**BASE, "q1": "9"}, (), ("changes 1 sample in the golden set (q1)",)),
        ({**BASE, "q2": "1", "q1": "9"}, (), ("removes 1 sample", "gives new ids to 1 sample of the golden set (q1)")),
        (BASE, {"q3"}, ("turns 1 sample into drafts, which count in no check (q3)",)),
        (
            {"q1": "1", "renamed": "2", "q3": "3", "new": "4"},
            {"q1", "renamed", "new"},
            ("turns 2 samples into drafts, which count in no check (q1, q2)", "gives new ids to 1 sample of the"),
        ),
    ],
)
def test_samples_that_are_gone_or_others(head: Any, drafts: Any, said: tuple[str, ...]) -> None:
    found = sample_changes(BASE, head, drafts=drafts)
    assert [one[: len(part)] for one, part in zip(found, said, strict=True)] == list(said)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"q1": (("min", "faithfulness", 0.9), ("max", "toxicity", 0.1)), "new": (("min", "mrr", 0.5),)}, ()),
        ({"q1": (("min", "faithfulness", 0.8), ("max", "toxicity", 0.2)), "new": (("min", "mrr", 0.5),)}, ()),
        (
            {"q1": (("max", "toxicity", 0.3), ("min", "faithfulness", 0.8)), "new": ()},
            ("changes q1.toxicity.max from 0.2 to 0.3, changes q2.mrr.min from 0.5 to unset in the golden set",),
        ),
    ],
)
def test_a_looser_floor_of_a_sample_is_said_also_under_a_new_id(head: Any, said: tuple[str, ...]) -> None:
    base: Any = {
        "q1": (("min", "faithfulness", 0.8), ("max", "toxicity", 0.2)),
        "q2": (("min", "mrr", 0.5),),
        "q3": (("min", "mrr", 0.5),),
    }
    assert tuple(loosened_bounds(base, head, {"q2": "new"})) == said


@pytest.mark.parametrize(
    ("must_pass", "question", "moved"),
    [
        (["a"], "Why now?", ["a"]),
        (["a"], " Why? ", []),
        (["b"], "Why now?", []),
        ({"questions": {"a": "Why?"}}, "Why now?", []),
    ],
)
def test_must_pass_samples_that_ask_another_question(must_pass: Any, question: str, moved: list[str]) -> None:
    head = [Sample("a", question)]
    assert moved_must_pass(policy(must_pass=must_pass), [Sample("a", "Why?"), Sample("c", "?")], head) == moved
    assert moved_must_pass(policy(must_pass=["c"]), [Sample("c", "?")], head) == [], "it is gone"


def test_changes_of_a_projects_own_metrics() -> None:
    tone, short = CustomMetric(rubric="Is it polite?"), CustomMetric(python="checks.py:short")
    base = {"tone": tone, "short": short, "old": short}
    head = {"tone": CustomMetric(rubric="Is it rude?"), "short": short}
    assert tuple(metric_changes(base, head, {"short": "checks.py"})) == (
        "removes the metric old",
        "changes checks.py, the code of the metric short",
        "changes metrics.tone.rubric from 'Is it polite?' to 'Is it rude?'",
    )
    assert not list(metric_changes(base, base, {}))
    function = list(metric_changes({"tone": tone}, {"tone": short}, {}))
    assert "changes metrics.tone.python from unset to 'checks.py:short'" in function
