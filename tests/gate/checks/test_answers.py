"""A system that does not answer fails, whichever judge scores it and whatever blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores, SystemFacts, fingerprint
from ragstone.gate.verdict import CheckKind, Status
from tests.gate.conftest import build_run, checks_of, decide, failed, make_manifest, named


def answering(
    answers: list[str | None],
    *,
    recall: float = 1.0,
    references: list[str | None] | None = None,
    questions: int = 99,
    unanswerable: int = 0,
    state: str = "finished",
    part: str | None = None,
    **more: Any,
) -> RunScores:
    """A run under the offline judge with these answers, and context recall as given."""
    n = len(answers)
    manifest = make_manifest(provider="offline", state=state)
    manifest = manifest.model_copy(update={"system": manifest.system.model_copy(update={"part": part})})
    found = build_run({"context_recall": [recall] * n}, manifest=manifest, **more)
    facts = {
        name: replace(
            found.samples[name],
            question=f"question {i % questions}",
            answerable=i < n - unanswerable,
            reference=references[i] if references else f"reference {i}",
        )
        for i, name in enumerate(named(n))
    }
    given: dict[str, tuple[str, ...]]
    given = {f"s{i}": (fingerprint(answer),) for i, answer in enumerate(answers) if answer is not None}
    return replace(found, samples=facts, system=SystemFacts(answers=given))


def failing(run: RunScores, **tables: Any) -> Mapping[str, str]:
    """The checks of answers that fail, each with its reason."""
    checks = checks_of(decide(run, **tables), CheckKind.ANSWERS)
    return {check.name: check.reason for check in checks if check.status is Status.FAIL}


EACH: list[str | None] = [f"answer {i}" for i in range(40)]


@pytest.mark.parametrize(
    ("answers", "more", "says"),
    [
        (["", " ", "–", ""], {}, "4 of 4 answers to answerable questions are empty"),
        (["", "", *EACH[:8]], {}, ""),  # a fifth may be empty
        (["", "", "", *EACH[:7]], {}, "3 of 10 answers to answerable questions are empty"),
        (["See our web site.", "see our  web site."], {}, "the same answer to each of 2"),
        (["Yes."] * 6, {"references": ["yes"] * 6}, ""),  # the right answer to each
        (["Yes."] * 6, {"references": ["yes"] * 5 + ["no"]}, "the same answer to each of 6"),
        (["Yes."] * 4, {"questions": 1}, ""),
        (["Yes."] * 4, {"references": [None] * 4}, ""),  # four of one kind happen
        (["Yes."] * 5, {"references": [None] * 5}, "the same answer to each of 5"),
        (["Yes.", "Yes.", None, None], {}, ""),  # the others failed, which is told otherwise
        (["One.", "Two.", "", "", "I don't know.", "I don't know."], {"unanswerable": 4}, ""),
        ([""] * 4, {"unanswerable": 4}, ""),
        ([""] * 4, {"part": "retrieval"}, ""),
    ],
)
def test_empty_and_like_answers(answers: list[str | None], more: dict[str, Any], says: str) -> None:
    """By the offline judge all floors only warn."""
    run = answering(answers, **more)
    found = failing(run)
    assert says in found.get("system.answers", "")
    assert bool(found) is bool(says)
    assert decide(run).exit_code == bool(says)


def test_an_empty_answer_counts_whichever_it_is() -> None:
    one = answering(EACH[:10])
    answers = {name: (*given, given[0], "") for name, given in one.system.answers.items()}
    thrice = replace(one, manifest=make_manifest(answers=3), system=SystemFacts(answers=answers))
    said = "10 of 30 answers to answerable questions are empty, more than the 20 % allowed."
    assert failing(thrice) == {"system.answers": said}
    assert failing(thrice, system={"max_empty": 0.4}) == {}


def test_a_run_of_which_not_all_is_known_stays_an_error_or_has_no_such_check() -> None:
    assert decide(answering([""] * 10, state="stopped")).exit_code == 5
    allowed: dict[str, Any] = {"system": {"max_empty": 1.0}, "metrics": {"context_recall": {"min": 0.5}}}
    assert decide(answering([""] * 10), **allowed).status is Status.PASS
    unknown = replace(answering([""] * 10, recall=0.0), system=SystemFacts())
    assert failing(unknown) == {}


@pytest.mark.parametrize(
    ("n", "recall", "metrics", "says"),
    [
        (40, 0.1, {}, "shown to be less than 0.40, which fails with any judge."),
        (40, 0.4, {}, None),
        (2, 0.0, {}, None),
        (40, 0.3, {"context_recall": {"min": 0.5}}, None),
        (40, 0.1, {"context_recall": {"max_drop": 0.1}}, "less than 0.40"),
    ],
)
def test_a_mean_of_less_than_half_its_floor_fails(n: int, recall: float, metrics: Any, says: str | None) -> None:
    reason = failing(answering(EACH[:n], recall=recall), metrics=metrics).get("context_recall.answers")
    assert reason is None if says is None else says in (reason or "")


def test_a_metric_without_a_floor_has_a_line_of_its_own() -> None:
    one = answering(EACH)
    relevancy = build_run({"answer_relevancy": [0.1] * 40}).metrics
    reason = failing(replace(one, metrics=relevancy))["answer_relevancy.answers"]
    assert reason.endswith("shown to be less than 0.20, which fails with any judge.")
    nothing = build_run({"answer_relevancy": [0.0] * 40}).metrics
    assert "entrypoint" not in failing(replace(one, metrics=nothing))["answer_relevancy.answers"]


def test_a_system_that_does_not_answer_fails_though_its_coverage_is_too_low() -> None:
    rules: dict[str, Any] = {"metrics": {"faithfulness": {"min": 0.85}, "context_recall": {"min": 0.8}}}
    broken = {"context_recall": failed(named(10), why="nothing to judge")}
    verdict = decide(answering([""] * 20, failed=broken), **rules)
    assert Status.ERROR in {check.status for check in verdict.checks}
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    spoken = decide(answering(EACH[:20], failed=broken), **rules)
    assert (spoken.status, spoken.exit_code) == (Status.ERROR, 5)


@pytest.mark.parametrize(
    ("one", "other", "same"), [("Yes.", "yes. ", True), ("Yes.", "No.", False), ("…", "", True), ("東京", "", False)]
)
def test_fingerprints(one: str, other: str, same: bool) -> None:
    assert (fingerprint(one) == fingerprint(other)) is same


def test_that_a_system_does_not_answer_is_said_first_and_each_other_failure_counted_once() -> None:
    verdict = decide(answering([""] * 40, recall=0.05))
    failed_checks = [check for check in verdict.checks if check.blocks and check.failed]
    of_answers = [check for check in failed_checks if check.kind is CheckKind.ANSWERS]
    assert len(of_answers) < len(failed_checks)
    assert verdict.reason.startswith(of_answers[0].reason)
    assert f" {len(failed_checks) - 1} more blocking check" in verdict.reason
