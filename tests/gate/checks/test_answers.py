"""A system that does not answer fails, whichever judge scores it and whatever blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores, SystemFacts, fingerprint
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import default_policy, policy_from_mapping
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.metrics.score import Failed

MakeRun = Callable[..., RunScores]
MakeManifest = Callable[..., Manifest]


@pytest.fixture
def answering(run: MakeRun, manifest: MakeManifest) -> Callable[..., RunScores]:
    """A run under the offline judge with these answers, and context recall as given."""

    def make(
        answers: list[str | None],
        *,
        recall: float = 1.0,
        references: list[str | None] | None = None,
        unanswerable: int = 0,
        state: str = "finished",
        **more: Any,
    ) -> RunScores:
        n = len(answers)
        found = run({"context_recall": [recall] * n}, manifest=manifest(provider="offline", state=state), **more)
        facts = {
            f"s{i}": replace(
                found.samples[f"s{i}"],
                question=f"question {i}",
                answerable=i < n - unanswerable,
                reference=references[i] if references else f"reference {i}",
            )
            for i in range(n)
        }
        given = {f"s{i}": (fingerprint(answer),) for i, answer in enumerate(answers) if answer is not None}
        return replace(found, samples=facts, system=SystemFacts(answers=given))

    return make


def failing(verdict: GateVerdict) -> Mapping[str, str]:
    return {
        check.name: check.reason
        for check in verdict.checks
        if check.kind is CheckKind.ANSWERS and check.status is Status.FAIL
    }


def test_empty_answers_fail_the_run_though_its_floors_only_warn(answering: Callable[..., RunScores]) -> None:
    verdict = decide_gate(answering(["", " ", "–", ""]), None, default_policy())
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert verdict.reason.startswith("the system gave an empty answer to 4 of 4 answerable samples")


@pytest.mark.parametrize(("empty", "status"), [(2, Status.PASS), (3, Status.FAIL)])
def test_a_fifth_of_the_answers_may_be_empty(answering: Callable[..., RunScores], empty: int, status: Status) -> None:
    one = answering([""] * empty + [f"answer {i}" for i in range(10 - empty)])
    assert decide_gate(one, None, default_policy()).status is status


def test_an_empty_answer_counts_whichever_it_is(answering: Callable[..., RunScores]) -> None:
    one = answering([f"answer {i}" for i in range(10)])
    assert one.manifest is not None
    thrice = replace(
        one,
        manifest=one.manifest.model_copy(update={"answers": 3}),
        system=SystemFacts(answers={name: (*given, given[0], "") for name, given in one.system.answers.items()}),
    )
    assert failing(decide_gate(thrice, None, default_policy())) == {
        "system.answers": "the system gave 10 empty answers to 10 answerable samples, each asked 3 times, more than "
        "the 20 % allowed."
    }


def test_the_policy_may_allow_more_empty_answers(answering: Callable[..., RunScores]) -> None:
    rules = policy_from_mapping({"system": {"max_empty": 1.0}, "metrics": {"context_recall": {"min": 0.5}}})
    assert decide_gate(answering([""] * 10), None, rules).status is Status.PASS


def test_one_answer_to_everything_fails(answering: Callable[..., RunScores]) -> None:
    verdict = decide_gate(answering(["See our web site.", "see our  web site."]), None, default_policy())
    assert failing(verdict) == {"system.answers": "the system gave the same answer to each of 2 answerable samples."}
    assert verdict.exit_code == 1


@pytest.mark.parametrize(
    ("answers", "references"),
    [
        (["Yes."] * 6, ["yes"] * 6),  # the right answer to each
        (["Yes."] * 4, [None] * 4),  # four of one kind happen
        (["Yes.", None, None, None], None),  # the others failed, which is told otherwise
    ],
)
def test_like_answers_that_may_be_right_do_not_fail(
    answering: Callable[..., RunScores], answers: list[str | None], references: list[str | None] | None
) -> None:
    assert failing(decide_gate(answering(answers, references=references), None, default_policy())) == {}


def test_abstaining_on_unanswerable_samples_is_not_held_against_a_system(
    answering: Callable[..., RunScores],
) -> None:
    one = answering(["The first.", "The second.", "", "", "I don't know.", "I don't know."], unanswerable=4)
    assert decide_gate(one, None, default_policy()).status is Status.PASS


def test_recall_of_less_than_half_its_floor_fails_under_the_offline_judge(
    answering: Callable[..., RunScores],
) -> None:
    answers: list[str | None] = [f"answer {i}" for i in range(40)]
    verdict = decide_gate(answering(answers, recall=0.1), None, default_policy())
    assert verdict.exit_code == 1
    assert "shown to be less than half of its floor of 0.80" in failing(verdict)["context_recall.answers"]
    nothing = decide_gate(answering(answers, recall=0.0), None, default_policy())
    assert failing(nothing)["context_recall.answers"].endswith("Does the entrypoint return the contexts?")
    assert failing(decide_gate(answering(answers, recall=0.5), None, default_policy())) == {}
    assert failing(decide_gate(answering(answers[:2], recall=0.0), None, default_policy())) == {}


def test_a_system_that_does_not_answer_fails_though_its_coverage_is_too_low(
    answering: Callable[..., RunScores],
) -> None:
    rules = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.85}, "context_recall": {"min": 0.8}}})
    broken = {f"s{i}": Failed("judge", "nothing to judge") for i in range(10)}
    one = answering([""] * 20, failed={"context_recall": broken})
    verdict = decide_gate(one, None, rules)
    assert Status.ERROR in {check.status for check in verdict.checks}
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    spoken = decide_gate(answering([f"answer {i}" for i in range(20)], failed={"context_recall": broken}), None, rules)
    assert (spoken.status, spoken.exit_code) == (Status.ERROR, 5)


def test_a_run_that_did_not_finish_stays_an_error(answering: Callable[..., RunScores]) -> None:
    assert decide_gate(answering([""] * 10, state="stopped"), None, default_policy()).exit_code == 5


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("Yes.", "yes. ", True), ("Yes.", "No.", False), ("…", "", True), ("東京", "", False)],
)
def test_fingerprints(one: str, other: str, same: bool) -> None:
    assert (fingerprint(one) == fingerprint(other)) is same
