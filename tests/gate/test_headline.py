"""Line one: what happened, in how many answers, and whether it blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.gate.diagnosis import Cause, diagnosis_of
from ragstone.gate.findings import QUESTIONS, Finding, Level
from ragstone.gate.headline import headline_of
from ragstone.gate.question_changes import QuestionChanges
from ragstone.gate.verdict import (
    Action,
    Attribution,
    Check,
    CheckKind,
    Comparability,
    GateVerdict,
    RetrievalChanges,
    Sensitivity,
    Side,
    Status,
)
from tests.gate.verdicts import verdict_of

COMPARED = Comparability(True, paired=51, total=51)


def check(kind: CheckKind = CheckKind.DROP, status: Status = Status.FAIL, **fields: Any) -> Check:
    given: dict[str, Any] = {
        "name": "context_recall.drop",
        "action": Action.BLOCK,
        "reason": "it dropped",
        "metric": "context_recall",
        "estimate": -0.04,
        "threshold": -0.02,
        "current": 0.82,
        "baseline": 0.86,
        "n": 51,
    }
    return Check(kind=kind, status=status, **{**given, **fields})


def verdict(status: Status, *checks: Check, **fields: Any) -> GateVerdict:
    return verdict_of(status, "the reason.", checks, **{"comparability": COMPARED, **fields})


def blamed(side: Side, **counts: int) -> Attribution:
    causes = {f"{name}-{i}": (Cause(name),) for name, count in counts.items() for i in range(count)}
    found = diagnosis_of(causes, confidence=0.95)
    assert found is not None
    return Attribution(side, "", found.cause(side))


def line(found: GateVerdict, **more: Any) -> str:
    return str(headline_of(found, **{"samples": 51, **more}))


MIXED = {"not_retrieved": 20, "invented": 9}
LOST = verdict(Status.FAIL, check(), attribution=blamed(Side.RETRIEVAL, **MIXED))
SILENT = check(CheckKind.SHARE, name="system.unanswered", metric=None, reason="8 of 40 are not answered.")
SAME = check(CheckKind.ANSWERS, name="system.answers", metric=None, reason="the system gave the same to all 40.")
UNSCORED = check(CheckKind.COVERAGE, Status.ERROR, metric=None, reason="only 3 of 51 have a score.")
UNMEASURED = replace(UNSCORED, metric="mrr", slice="new", reason="mrr: …", short_reason="the policy names it.")
LOWER = RetrievalChanges({}, tuple(f"q{i}" for i in range(30)), (), ())


@pytest.mark.parametrize(
    ("found", "more", "parts"),
    [
        (LOST, {}, ("Blocked: retrieval", "no longer", "20 of 51 questions")),
        (replace(LOST, comparability=None), {}, ("Blocked: retrieval", "not retrieved for 20 of 51 questions")),
        (LOST, {"advisory": True}, ("Failed, but not blocked: retrieval", "fail_on is 'never'. ", "20 of 51")),
        (
            verdict(Status.FAIL, check(), attribution=blamed(Side.GENERATION, **MIXED)),
            {},
            ("Blocked: answers", "9 of 51 questions"),
        ),
        (  # a cause of few samples is no headline
            verdict(Status.FAIL, check(), attribution=blamed(Side.GENERATION, invented=4)),
            {},
            ("Blocked: Context recall", "0.86 to 0.82 on 51 questions", "0.02"),
        ),
        (  # what is not answered is counted once
            verdict(Status.FAIL, check(), SILENT, attribution=blamed(Side.GENERATION, evasive=7)),
            {},
            ("Blocked: answers", "8 of 40 are not answered."),
        ),
        (  # no answers, or the same to all, come before what follows from them
            verdict(Status.FAIL, check(), SAME, attribution=blamed(Side.GENERATION, ignored=30)),
            {},
            ("Blocked: The system gave the same to all 40.",),
        ),
        (  # evidence that ranks lower is counted where answers still draw on it
            verdict(Status.FAIL, check(), attribution=blamed(Side.RETRIEVAL, ranked_low=7), retrieval=LOWER),
            {},
            ("Blocked: retrieval", "ranks lower for 30 of 51 questions"),
        ),
        (
            verdict(Status.FAIL, *(check(CheckKind.MUST_PASS, sample=name) for name in ("a", "b"))),
            {},
            ("Blocked: 2 must-pass samples", "a, b"),
        ),
        (verdict(Status.ERROR, UNSCORED), {}, ("Blocked: nothing is decided.", "Only 3 of 51 have a score.")),
        (verdict(Status.ERROR, UNMEASURED), {}, ("Blocked: nothing is decided.", "Reciprocal rank on 'new'")),
        (verdict(Status.ERROR), {}, ("Blocked: nothing is decided.", "The reason.")),
        (verdict(Status.FAIL), {}, ("Blocked: The reason.",)),
    ],
)
def test_what_failed_is_counted_and_whether_it_blocks(
    found: GateVerdict, more: dict[str, Any], parts: tuple[str, ...]
) -> None:
    said = line(found, **more)
    assert said.startswith(parts[0])
    assert [part for part in parts if part not in said] == []


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("compared", [True, False])
def test_every_cause_has_a_sentence(cause: Cause, compared: bool) -> None:
    found = verdict(Status.FAIL, check(), attribution=blamed(Side.UNCLEAR, **{cause.value: 7}))
    said = line(found if compared else replace(found, comparability=None))
    assert "7 of 51 questions" in said
    assert said.count(".") == 2
    assert "{" not in said


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"kind": CheckKind.FLOOR, "estimate": 0.7, "threshold": 0.85},
            "0.70 on 51 questions, below its floor of",
        ),
        ({"kind": CheckKind.CEILING, "estimate": 0.7, "threshold": 0.5}, "0.70 on 51 questions, above its ceiling of"),
        ({"kind": CheckKind.RISE, "threshold": 0.0}, "rose from 0.86 to 0.82 on 51 questions; no loss"),
        ({"slice": "tag:de"}, "Context recall on 'tag:de' fell from 0.86"),
        ({"n": 1}, "on 1 question;"),
        ({"metric": "my_metric"}, "Blocked: my_metric fell from"),
        ({"kind": CheckKind.LATENCY, "metric": None, "reason": "answers take 3 s"}, "Blocked: Answers take 3 s"),
        ({"current": None, "reason": "mrr can't be told"}, "Blocked: Mrr can't be told"),
        ({"baseline": None, "reason": "mrr can't be told"}, "Blocked: Mrr can't be told"),
        ({"estimate": None, "reason": "mrr can't be told"}, "Blocked: Mrr can't be told"),
        ({"threshold": None, "reason": "mrr can't be told"}, "Blocked: Mrr can't be told"),
    ],
)
def test_a_check_is_one_sentence(fields: dict[str, Any], says: str) -> None:
    assert says in line(verdict(Status.FAIL, check(**fields)))


def test_what_is_not_settled_says_whether_it_blocks_and_how_often_was_asked() -> None:
    found = verdict(Status.INCONCLUSIVE, check(status=Status.INCONCLUSIVE), check(status=Status.PASS, metric="mrr"))
    assert line(found).startswith("Not blocked, but look: Context recall fell from 0.86 to 0.82")
    assert "Asked 4 times" in line(found, answers=4)
    assert "Asked" not in line(found, answers=1)
    blocks = replace(found, inconclusive_blocks=True)
    assert line(blocks).startswith("Blocked: not settled. Context recall")
    assert line(blocks, advisory=True).startswith("Not blocked, but look (fail_on is 'never'): ")
    assert line(verdict(Status.INCONCLUSIVE)) == "Not blocked, but look: The reason."


def passed(
    broken: int = 0, mended: int = 0, samples: int = 51, loss: float | None = 0.123, least: int | None = 3
) -> str:
    ids = tuple(map(str, range(broken))), tuple(map(str, range(mended)))
    changes = QuestionChanges(samples, *ids, steady=True, seems_steady=True, p_value=1.0)
    found = verdict(Status.PASS, check(status=Status.PASS), check(CheckKind.FLOOR, action=Action.WARN))
    facts = (
        Finding(QUESTIONS, Level.FACT, "", data=changes),
        Finding("sensitivity", Level.FACT, "", data=Sensitivity(loss, least)),
    )
    return line(found.with_findings(after=facts), samples=samples)


def test_a_pass_counts_questions_and_says_what_would_have_been_seen() -> None:
    said = passed()
    assert said.startswith("Nothing is shown to be worse. 51 questions; 3 questions that break would show")
    assert "4 of 5 losses of 12 points in one metric" in said
    assert "1 check that only warns" in said
    assert passed(broken=1, mended=2).startswith("Passed. 1 of 51 questions got worse, 2 better; ")
    assert passed(mended=2).startswith("Nothing is shown to be worse. 0 of 51 questions got worse, 2 better; ")


def test_a_pass_of_few_questions_says_what_they_cannot_show() -> None:
    assert "fewer than 3 that break would not show" in passed(samples=9)
    assert "so few questions can't show a loss" in passed(samples=2, loss=None, least=None)
    assert "12 points" not in passed(samples=9)


def test_a_pass_with_a_loss_that_only_warns_or_nothing_to_compare_with_says_so() -> None:
    held = check(status=Status.PASS)
    lost = verdict(Status.PASS, held, check(action=Action.WARN))
    assert line(lost).startswith("Nothing that blocks is shown to be worse.")
    assert line(verdict(Status.PASS, held)).endswith(" 51 questions.")
    assert line(verdict(Status.PASS, held, comparability=None)).startswith("Passed, with nothing to compare with.")


def test_questions_that_surely_broke_are_settled_however_the_run_ends() -> None:
    reason = "10 of 100 questions got worse, 10 better: a, b."
    moved = check(CheckKind.QUESTIONS, Status.INCONCLUSIVE, metric=None, reason=reason)
    assert line(verdict(Status.INCONCLUSIVE, moved)) == f"Not blocked, but look: {reason}"
    assert line(verdict(Status.INCONCLUSIVE, replace(moved, unsettled=True))).endswith("Not settled.")
    broke = replace(moved, status=Status.FAIL)
    assert line(verdict(Status.FAIL, broke, check())) == f"Blocked: {reason}"


def test_line_one_counts_the_broken_questions_beside_their_cause() -> None:
    moved = check(
        CheckKind.QUESTIONS,
        name="questions.broken",
        metric=None,
        reason="20 of 51 questions got worse, none better (…).",
    )
    counts = QuestionChanges(51, tuple(map(str, range(20))), (), steady=True, seems_steady=True, p_value=1.0)
    found = verdict(Status.FAIL, moved, attribution=blamed(Side.RETRIEVAL, **MIXED))
    said = line(found.with_findings(after=[Finding(QUESTIONS, Level.FACT, "", data=counts)]))
    assert said.startswith("Blocked: retrieval")
    assert said.endswith("20 of 51 questions got worse, none better.")
