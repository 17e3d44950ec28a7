"""What a stored run must be before it is decided anew, comparison by comparison."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ragstone.errors import GoldenSetError, JudgeError
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.golden.sample import GoldenSet
from ragstone.judge.protocol import JudgeIdentity
from ragstone.pipeline.decide_again import strict
from ragstone.pipeline.requirements import (
    MAX_NAMED,
    require_judge,
    require_metrics,
    require_questions,
    uncompared_drops,
)
from tests.evaluation.builders import record, samples


def test_of_many_questions_the_first_are_named_the_others_counted_and_long_ids_are_cut() -> None:
    records = [record(dataclasses.replace(samples(1)[0], id=f"{number} {'x' * 1_000}")) for number in range(40)]
    with pytest.raises(GoldenSetError) as refused:
        require_questions(records, samples(0), "run")
    assert refused.value.message.count("is not in the golden set") == MAX_NAMED
    assert refused.value.message.endswith("and 20 more.")
    assert len(refused.value.message) < 4_000


def test_each_question_of_the_golden_set_counts_once() -> None:
    first, second, third = map(record, samples(3))
    moved = dataclasses.replace(second, sample=dataclasses.replace(second.sample, origin=None))
    require_questions([first, moved, third], samples(3), "run")
    require_questions([], GoldenSet(()), "run")
    with pytest.raises(GoldenSetError, match="'q0' is repeated, 'q2' is missing"):
        require_questions([first, second, first], samples(3), "run")


@pytest.mark.parametrize(
    ("judge", "name", "is_it"),
    [
        (("openai", "gpt-x"), "openai:gpt-x", True),
        (("openai", "gpt-x"), "openai:gpt-y", False),
        (("anthropic", "gpt-x"), "openai:gpt-x", False),
        (("offline", "lexical"), "offline", True),
        (("offline", "lexical"), "openai:gpt-x", False),
    ],
)
def test_the_judge_is_the_one_that_the_setting_names(judge: tuple[str, str], name: str, is_it: bool) -> None:
    identity = JudgeIdentity(provider=judge[0], model=judge[1], version="1")
    if is_it:
        require_judge(identity, name, "run")
        return
    with pytest.raises(JudgeError, match=f"the config names '{name}'"):
        require_judge(identity, name, "run")


def test_each_required_metric_must_be_measured() -> None:
    require_metrics({"a", "b"}, ["a"], {}, "run")
    with pytest.raises(JudgeError, match="b can't be computed from the stored judgements: it is version 0"):
        require_metrics({"a"}, ["a", "b"], {"b": "it is version 0"}, "run")


def drop_of(metric: str, tag: str | None = None, kind: CheckKind = CheckKind.DROP) -> Check:
    name = f"{metric}.{kind}" if tag is None else f"{tag}/{metric}.{kind}"
    return Check(name=name, kind=kind, status=Status.PASS, reason="", metric=metric, slice=tag, action=Action.BLOCK)


FAITHFULNESS = "faithfulness"


@pytest.mark.parametrize(
    ("rules", "checks", "left"),
    [
        ({FAITHFULNESS: {"max_drop": 0.1}}, [], [FAITHFULNESS]),
        ({FAITHFULNESS: {"max_drop": 0.1}}, [drop_of(FAITHFULNESS)], []),
        ({FAITHFULNESS: {"max_drop": 0.1}}, [drop_of(FAITHFULNESS, kind=CheckKind.FLOOR)], [FAITHFULNESS]),
        ({FAITHFULNESS: {"max_drop": 0.1}}, [drop_of(FAITHFULNESS, "even")], [FAITHFULNESS]),
        ({FAITHFULNESS: {"max_drop": 0.1, "action": "warn"}}, [], []),
        ({FAITHFULNESS: {"min": 0.1}}, [], []),
        ({"hallucination": {"max_rise": 0.1}}, [], ["hallucination"]),
        ({"context_recall": {"max_drop": 0.1}}, [], []),
    ],
    ids=[
        *("not compared", "compared", "its floor alone", "its slice alone", "only warns", "a floor", "a rise"),
        "without scores",
    ],
)
def test_a_drop_that_blocks_and_was_not_compared_is_left_over(
    rules: dict[str, Any], checks: list[Check], left: list[str]
) -> None:
    policy = policy_from_mapping({"gate": {"only_named": True}, "metrics": rules})
    assert uncompared_drops(policy, checks, {FAITHFULNESS, "hallucination", "pairwise_preference"}) == left


def test_the_drop_of_a_slice_is_compared_by_itself() -> None:
    slices = {"even": {"metrics": {FAITHFULNESS: {"max_drop": 0.1}}}}
    policy = policy_from_mapping({"gate": {"only_named": True}, "metrics": {FAITHFULNESS: {}}, "slices": slices})
    assert uncompared_drops(policy, [drop_of(FAITHFULNESS)], {FAITHFULNESS}) == ["faithfulness on 'even'"]


@pytest.mark.parametrize(
    ("written", "on_no_baseline"), [({}, "fail"), ({"on_no_baseline": "pass"}, "pass"), ({"confirm": False}, "fail")]
)
def test_a_stored_run_gets_no_benefit_of_the_doubt(written: dict[str, Any], on_no_baseline: str) -> None:
    gate = strict(policy_from_mapping({"gate": {"inconclusive": "pass", **written}})).gate
    assert (gate.inconclusive, gate.on_judge_change, gate.on_no_baseline) == ("fail", "fail", on_no_baseline)
