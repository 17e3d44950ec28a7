"""A system that does not answer fails, whichever judge scores it and whatever blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores, SystemFacts, fingerprint
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import default_policy, policy_from_mapping
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.metrics.score import Failed
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest


def answering(
    answers: list[str | None],
    *,
    recall: float = 1.0,
    references: list[str | None] | None = None,
    unanswerable: int = 0,
    state: str = "finished",
    **more: Any,
) -> RunScores:
    """A run under the offline judge with these answers, and context recall as given."""
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
    given: dict[str, tuple[str, ...]]
    given = {f"s{i}": (fingerprint(answer),) for i, answer in enumerate(answers) if answer is not None}
    return replace(found, samples=facts, system=SystemFacts(answers=given))


def failing(verdict: GateVerdict) -> Mapping[str, str]:
    return {
        check.name: check.reason
        for check in verdict.checks
        if check.kind is CheckKind.ANSWERS and check.status is Status.FAIL
    }


def test_empty_answers_fail_the_run_though_its_floors_only_warn() -> None:
    verdict = decide_gate(answering(["", " ", "–", ""]), None, default_policy())
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert verdict.reason.startswith("the system gave an empty answer to 4 of 4 answerable samples")


def test_an_empty_answer_counts_whichever_it_is() -> None:
    one = answering([f"answer {i}" for i in range(10)])
    assert one.manifest is not None
    thrice = replace(
        one,
        manifest=one.manifest.model_copy(update={"answers": 3}),
        system=SystemFacts(answers={name: (*given, given[0], "") for name, given in one.system.answers.items()}),
    )
    assert failing(decide_gate(thrice, None, default_policy())) == {
        "system.answers": "the system gave 10 empty answers of 30 to 10 answerable samples, more than the 20 % allowed."
    }


@pytest.mark.parametrize(
    ("answers", "more", "says"),
    [
        ([""] * 2 + [f"answer {i}" for i in range(8)], {}, ""),  # a fifth may be empty
        ([""] * 3 + [f"answer {i}" for i in range(7)], {}, "an empty answer to 3 of 10"),
        (["See our web site.", "see our  web site."], {}, "the same answer to each of 2"),
        (["Yes."] * 6, {"references": ["yes"] * 6}, ""),  # the right answer to each
        (["Yes."] * 6, {"references": ["yes"] * 5 + ["no"]}, "the same answer to each of 6"),
        (["Yes."] * 4, {"references": [None] * 4}, ""),  # four of one kind happen
        (["Yes.", None, None, None], {}, ""),  # the others failed, which is told otherwise
        (["One.", "Two.", "", "", "I don't know.", "I don't know."], {"unanswerable": 4}, ""),
    ],
)
def test_empty_and_like_answers(answers: list[str | None], more: dict[str, Any], says: str) -> None:
    verdict = decide_gate(answering(answers, **more), None, default_policy())
    found = failing(verdict)
    assert says in found.get("system.answers", "")
    assert bool(found) is bool(says)
    assert verdict.exit_code == bool(says)


def test_the_policy_may_allow_more_empty_answers() -> None:
    rules = policy_from_mapping({"system": {"max_empty": 1.0}, "metrics": {"context_recall": {"min": 0.5}}})
    assert decide_gate(answering([""] * 10), None, rules).status is Status.PASS


def test_recall_of_less_than_half_its_floor_fails_under_the_offline_judge() -> None:
    answers: list[str | None] = [f"answer {i}" for i in range(40)]
    verdict = decide_gate(answering(answers, recall=0.1), None, default_policy())
    assert verdict.exit_code == 1
    assert "shown to be less than half of its floor of 0.80" in failing(verdict)["context_recall.answers"]
    nothing = decide_gate(answering(answers, recall=0.0), None, default_policy())
    assert failing(nothing)["context_recall.answers"].endswith("Does the entrypoint return the contexts?")
    assert failing(decide_gate(answering(answers, recall=0.5), None, default_policy())) == {}
    assert failing(decide_gate(answering(answers[:2], recall=0.0), None, default_policy())) == {}


def test_a_system_that_does_not_answer_fails_though_its_coverage_is_too_low() -> None:
    rules = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.85}, "context_recall": {"min": 0.8}}})
    broken = {f"s{i}": Failed("judge", "nothing to judge") for i in range(10)}
    one = answering([""] * 20, failed={"context_recall": broken})
    verdict = decide_gate(one, None, rules)
    assert Status.ERROR in {check.status for check in verdict.checks}
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    spoken = decide_gate(answering([f"answer {i}" for i in range(20)], failed={"context_recall": broken}), None, rules)
    assert (spoken.status, spoken.exit_code) == (Status.ERROR, 5)


def test_a_run_that_did_not_finish_stays_an_error() -> None:
    assert decide_gate(answering([""] * 10, state="stopped"), None, default_policy()).exit_code == 5


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("Yes.", "yes. ", True), ("Yes.", "No.", False), ("…", "", True), ("東京", "", False)],
)
def test_fingerprints(one: str, other: str, same: bool) -> None:
    assert (fingerprint(one) == fingerprint(other)) is same
