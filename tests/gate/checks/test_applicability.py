"""Did a metric apply to so few answers that a rule on it says nothing of the others?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, GateVerdict, Status
from tests.gate.conftest import build_run, make_manifest

NO_CLAIM = "the answer makes no claim"
NO_REFERENCE = "the sample has no reference"
WRITTEN = {"faithfulness": {"min": 0.5}}


def run(applies: int, total: int, reason: str = NO_CLAIM, metric: str = "faithfulness") -> RunScores:
    excused = {f"s{number}": reason for number in range(applies, total)}
    return build_run(
        {metric: [1.0] * applies, "politeness": [1.0] * total},
        not_applicable={metric: excused},
        manifest=make_manifest(),
    )


def decided(current: RunScores, metrics: dict[str, Any] | None = None, **tables: Any) -> GateVerdict:
    rules = {"metrics": WRITTEN if metrics is None else metrics, **tables}
    return decide_gate(current, None, policy_from_mapping(rules))


def hardly(verdict: GateVerdict) -> list[Check]:
    return [check for check in verdict.checks if check.kind is CheckKind.APPLICABILITY]


def test_a_rule_on_a_metric_that_applied_to_two_of_thirty_answers_is_no_pass() -> None:
    verdict = decided(run(2, 30))
    [check] = hardly(verdict)
    assert (verdict.status, check.status, check.action) == (Status.INCONCLUSIVE, Status.INCONCLUSIVE, Action.BLOCK)
    assert check.reason == (
        "faithfulness could be judged for 2 of 30 answers, most often because the answer makes no claim."
    )
    assert not any("could be judged" in warning for warning in verdict.warnings), "once is enough"


@pytest.mark.parametrize(("applies", "total", "few"), [(5, 30, True), (6, 30, False), (1, 5, False), (1, 6, True)])
def test_hardly_any_is_less_than_a_fifth(applies: int, total: int, few: bool) -> None:
    verdict = decided(run(applies, total))
    assert bool(hardly(verdict)) is few
    assert verdict.status is (Status.INCONCLUSIVE if few else Status.PASS)


def test_a_rule_that_only_warns_is_said_at_the_top() -> None:
    verdict = decided(run(2, 30), {"faithfulness": {"min": 0.5, "action": "warn"}})
    [check] = hardly(verdict)
    assert (verdict.status, check.action) == (Status.PASS, Action.WARN)
    said = "faithfulness could be judged for 2 of 30 answers, most often because the answer makes no claim."
    assert said in verdict.warnings


def test_a_default_rule_without_labels_is_said_and_raises_no_doubt() -> None:
    """Without a single reference it would not count either, and nobody named it."""
    verdict = decided(run(2, 30, NO_REFERENCE, "context_recall"), {"politeness": {"min": 0.5}})
    assert (verdict.status, hardly(verdict)) == (Status.PASS, [])
    assert any(warning.startswith("context_recall could be judged for 2 of 30") for warning in verdict.warnings)
    named = decided(run(2, 30, NO_REFERENCE, "context_recall"), {"context_recall": {"min": 0.5}})
    assert named.status is Status.INCONCLUSIVE
    by_the_answers = decided(run(2, 30, NO_CLAIM, "context_recall"), {"politeness": {"min": 0.5}})
    assert by_the_answers.status is Status.INCONCLUSIVE


def test_a_family_of_metrics_applies_where_one_of_them_does() -> None:
    with_reference = {f"s{number}": "the sample has a reference" for number in range(4)}
    without = {f"s{number}": NO_REFERENCE for number in range(4, 40)}
    current = build_run(
        {"context_precision": [0.9] * 4, "context_precision_no_reference": [0.9] * 36},
        not_applicable={"context_precision": without, "context_precision_no_reference": with_reference},
        manifest=make_manifest(),
    )
    verdict = decided(current, {"context_precision": {"min": 0.5}})
    assert (verdict.status, hardly(verdict)) == (Status.PASS, [])


def test_a_slice_is_asked_about_its_own_answers() -> None:
    tags = {f"s{number}": ("rare",) for number in range(20, 30)}
    excused = {f"s{number}": NO_CLAIM for number in range(21, 30)}
    current = build_run(
        {"faithfulness": [1.0] * 21},
        tags={**tags},
        not_applicable={"faithfulness": excused},
        manifest=make_manifest(),
    )
    verdict = decided(current, WRITTEN, slices={"rare": {"metrics": WRITTEN}})
    [check] = hardly(verdict)
    assert (check.slice, check.n) == ("rare", 10)
    assert "1 of 10 answers" in check.reason


def test_what_could_not_be_judged_is_another_check() -> None:
    assert not hardly(decided(run(0, 30)))


def test_a_few_labels_in_a_large_golden_set_may_be_meant() -> None:
    metrics = {"context_recall": {"min": 0.5}}
    assert decided(run(5, 100, NO_REFERENCE, "context_recall"), metrics).status is Status.PASS
    assert decided(run(4, 100, NO_REFERENCE, "context_recall"), metrics).status is Status.INCONCLUSIVE
    assert decided(run(5, 100, NO_CLAIM, "context_recall"), metrics).status is Status.INCONCLUSIVE


def test_questions_that_can_not_be_answered_do_not_count() -> None:
    current = run(10, 90, "the answer abstains")
    unanswerable = {name: replace(facts, answerable=int(name[1:]) < 10) for name, facts in current.samples.items()}
    assert decided(current).status is Status.INCONCLUSIVE
    assert decided(replace(current, samples=unanswerable)).status is Status.PASS
