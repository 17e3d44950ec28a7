"""Must-pass samples of a system that varies, of the baseline, and by their question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.confirm import doubts, settled
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from tests.gate.conftest import build_run, make_manifest

RULES = {"faithfulness": {"min": 0.5}}


def run(scores: list[Any], answers: int = 1, **manifest: Any) -> RunScores:
    described = make_manifest(answers=answers).model_copy(update=manifest)
    return build_run({"faithfulness": scores}, manifest=described)


def decided(now: RunScores, must_pass: Any, then: RunScores | None = None) -> tuple[GateVerdict, list[Check]]:
    rules = policy_from_mapping({"metrics": RULES, "must_pass": must_pass, "gate": {"only_named": True}})
    verdict = decide_gate(now, then, rules)
    return verdict, [check for check in verdict.checks if check.kind is CheckKind.MUST_PASS]


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        pytest.param([1.0, 0.0, 1.0], "pass", id="most pass"),
        pytest.param([1.0, 0.0], "pass", id="half pass"),
        pytest.param([1.0, 0.0, 0.0], "fail", id="most fail"),
        pytest.param([1.0, 0.4, 0.9, None], "pass", id="an answer that the metric does not apply to"),
    ],
)
def test_the_majority_of_the_answers_decides(answers: list[float | None], status: str) -> None:
    _, checks = decided(run([answers, *[[1.0]] * 20], answers=len(answers)), ["s0"])
    assert [check.status for check in checks] == [status]
    assert status == "pass" or "2 of 3 answers fail" in checks[0].reason


def test_a_failure_of_first_answers_is_asked_again_before_the_run_fails() -> None:
    verdict, (check,) = decided(run([0.0, *[1.0] * 20]), ["s0"])
    assert verdict.status is Status.FAIL
    assert doubts(verdict, 0.05) == (check,)
    assert not settled(verdict, 0.05)
    now = replace(run([0.0, *[1.0] * 20]), rounds=RoundFacts(confirm=ConfirmFacts(steady=True)))
    steady, _ = decided(now, ["s0"])
    assert settled(steady, 0.05)


def test_every_question_that_passed_in_all_runs_of_the_baseline_must_pass() -> None:
    then = run([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], *[[1.0, 1.0]] * 20])
    verdict, checks = decided(run([1.0, 0.0, 0.0, *[1.0] * 20]), "baseline", then)
    assert verdict.exit_code == 0
    assert "21 of 21 must-pass samples passed." in [check.reason for check in checks]
    lost, checks = decided(run([0.0, 0.0, 0.0, *[1.0] * 20]), "baseline", then)
    assert lost.status is Status.FAIL
    assert [check.sample for check in checks if check.status is Status.FAIL] == ["s0"]
    assert decided(run([0.0, *[1.0] * 20]), "baseline")[1] == []


def asking(run: RunScores, **questions: str) -> RunScores:
    samples = {
        name: replace(facts, question=questions.get(name, name), parts=(questions.get(name, name),))
        for name, facts in run.samples.items()
    }
    return replace(run, samples=samples)


def test_another_question_under_a_pinned_id_is_an_error() -> None:
    pinned = {"questions": {"s0": "How long is  the notice?"}}
    assert decided(asking(run([1.0] * 9), s0="How long is the notice?"), pinned)[0].exit_code == 0
    verdict, (check,) = decided(asking(run([1.0] * 9), s0="What is easy?"), pinned)
    assert verdict.exit_code == 5
    assert "it asks “What is easy?” instead of “How long is the notice?”" in " ".join(check.reason.split())


def test_swapping_the_ids_of_two_questions_does_not_evade_the_check() -> None:
    then = asking(run([1.0] * 20), s0="hard", s1="easy")
    swapped = asking(run([1.0, 0.0, *[1.0] * 18]), s0="easy", s1="hard")
    verdict, (check,) = decided(swapped, ["s0"], then)
    assert verdict.status is Status.ERROR
    assert "instead of “hard”" in check.reason
