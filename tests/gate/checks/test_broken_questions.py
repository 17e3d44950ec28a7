"""Questions that broke: facts of a system that says the same, evidence of another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.manifest import SystemManifest
from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.confirm import doubts, settled
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, GateVerdict, Status
from tests.gate.conftest import build_run, make_manifest

RULES: dict[str, Any] = {"metrics": {"context_recall": {"max_drop": 0.02}}, "gate": {"only_named": True}}


def run(scores: list[Any], *, steady: bool = False, answers: list[str] | None = None, **more: Any) -> RunScores:
    """A run with these scores; with `answers`, those were recorded, from the same contexts."""
    manifest = make_manifest()
    if answers is not None:
        manifest = manifest.model_copy(update={"system": SystemManifest(entrypoint="file:answers.jsonl")})
    built = build_run({"context_recall": scores}, manifest=manifest, **more)
    built = replace(built, rounds=RoundFacts(confirm=ConfirmFacts(steady=steady)))
    if answers is None:
        return built
    given: dict[str, tuple[str, ...]] = {f"s{index}": (answer,) for index, answer in enumerate(answers)}
    return replace(built, system=replace(built.system, answers=given, contexts=dict.fromkeys(given, 1)))


def decided(now: RunScores, then: RunScores, **gate: Any) -> tuple[GateVerdict, Check]:
    rules = policy_from_mapping({**RULES, "gate": {"only_named": True, **gate}})
    verdict = decide_gate(now, then, rules)
    (check,) = (check for check in verdict.checks if check.name == "questions.broken")
    return verdict, check


def flipped(broken: int, mended: int, n: int) -> tuple[list[float], list[float]]:
    """Scores before and now of `n` questions: `broken` are lost, `mended` won, the others right both times."""
    rest = [1.0] * (n - broken - mended)
    return [1.0] * broken + [0.0] * mended + rest, [0.0] * broken + [1.0] * mended + rest


@pytest.mark.parametrize(
    ("broken", "mended", "n", "status"),
    [
        pytest.param(3, 0, 15, "fail", id="three of fifteen"),
        pytest.param(2, 0, 15, "inconclusive", id="two of fifteen are no pass"),
        pytest.param(1, 0, 15, "pass", id="one may be"),
        pytest.param(4, 0, 20, "fail", id="four of twenty"),
        pytest.param(10, 10, 100, "inconclusive", id="a reshuffle"),
        pytest.param(5, 0, 100, "pass", id="not more than the policy allows"),
        pytest.param(6, 0, 100, "fail", id="more than the policy allows"),
        pytest.param(6, 4, 100, "inconclusive", id="hardly more than were mended"),
    ],
)
def test_a_system_that_says_the_same_breaks_questions_as_a_fact(broken: int, mended: int, n: int, status: str) -> None:
    before, after = flipped(broken, mended, n)
    verdict, check = decided(run(after, steady=True), run(before))
    assert check.status == status
    assert status == "pass" or verdict.status == status
    better = f"{mended} better" if mended else "none better"
    assert f"{broken} of {n} questions got worse, {better}" in check.reason
    assert not check.unsettled
    assert key_of_check(check) == ("gate", "max_broken_questions")


def test_recorded_answers_to_the_other_questions_show_that_a_system_says_the_same() -> None:
    before, after = flipped(3, 0, 15)
    same = [f"answer {index}" for index in range(15)]
    then = run(before, answers=same)
    verdict, _ = decided(run(after, answers=["another"] * 3 + same[3:]), then)
    assert verdict.status is Status.FAIL
    reworded, check = decided(run(after, answers=[f"so {answer}" for answer in same]), then)
    assert (reworded.status, check.unsettled) == (Status.INCONCLUSIVE, True)


def test_a_system_that_varies_is_suspected_and_asked_again() -> None:
    before, after = flipped(3, 0, 15)
    first, check = decided(run(after), run(before))
    assert check.status is Status.INCONCLUSIVE
    assert check in doubts(first, 0.05)
    assert not settled(first, 0.05)
    again = [[0.0] * 6] * 3 + [[1.0] * 6] * 12
    assert decided(run(again), run(before))[0].status is Status.FAIL
    by_chance = [[0.0, 1.0, 0.0, 1.0, 1.0, 0.0]] * 3 + [[1.0] * 6] * 12
    assert decided(run(by_chance), run(before))[0].status is Status.PASS


def test_scores_that_differ_between_the_runs_of_the_baseline_are_no_facts() -> None:
    then = run([[1.0, 1.0]] * 3 + [[1.0, 0.0]] * 12)
    _, check = decided(run([0.0] * 3 + [1.0] * 12, steady=True), then)
    assert check.status is Status.PASS
    assert check.p_value is not None
    assert check.p_value > 0.5


def test_as_many_won_as_lost_by_a_system_that_varies_is_chance() -> None:
    before, after = flipped(5, 5, 80)
    verdict, check = decided(run(after), run(before))
    assert verdict.status is Status.PASS
    assert "which chance explains" in check.reason


def test_a_failure_of_the_system_is_a_broken_question() -> None:
    before, after = flipped(0, 0, 15)
    crashed = {f"s{index}": "time-out" for index in range(15, 19)}
    verdict, check = decided(run(after, steady=True, system_failures=crashed), run([*before, *[1.0] * 4]))
    assert "4 of 19 questions got worse" in check.reason
    assert verdict.status is Status.FAIL


def test_the_policy_says_how_many_may_break() -> None:
    before, after = flipped(3, 0, 15)
    assert decided(run(after, steady=True), run(before), max_broken_questions=0.3)[1].status is Status.PASS
    wide = policy_from_mapping({**RULES, "metrics": {"context_recall": {"max_drop": 0.3}}})
    assert decide_gate(run(after, steady=True), run(before), wide).status is Status.PASS
    plain = policy_from_mapping({**RULES, "gate": {"only_named": True, "decision": "point"}})
    checks = decide_gate(run(after), run(before), plain).checks
    assert not any(check.name == "questions.broken" for check in checks)


def test_a_drop_that_comes_from_broken_questions_does_not_pass_beside_them() -> None:
    before, after = flipped(3, 0, 50)
    verdict, _ = decided(run(after, steady=True), run(before))
    (drop,) = (check for check in verdict.checks if check.kind == "drop")
    assert drop.status is Status.INCONCLUSIVE
    assert "by 3 questions that broke" in drop.reason
