"""Line one: what happened, in how many answers, and whether it blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.gate.diagnosis import Cause, diagnosis_of
from ragstone.gate.headline import headline_of
from ragstone.gate.verdict import (
    Action,
    Attribution,
    Check,
    CheckKind,
    Comparability,
    GateVerdict,
    RetrievalChanges,
    Side,
    Status,
)

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
    return GateVerdict(status, "the reason.", checks, **{"comparability": COMPARED, **fields})


def blamed(side: Side, **counts: int) -> Attribution:
    causes = {f"{name}-{i}": (Cause(name),) for name, count in counts.items() for i in range(count)}
    found = diagnosis_of(causes, confidence=0.95)
    assert found is not None
    return Attribution(side, "", found.cause(side))


def line(found: GateVerdict, **more: Any) -> str:
    return str(headline_of(found, **{"samples": 51, **more}))


def test_a_failure_names_the_half_that_broke_and_counts_answers() -> None:
    found = verdict(Status.FAIL, check(), attribution=blamed(Side.RETRIEVAL, not_retrieved=20, invented=9))
    assert line(found) == "Blocked: retrieval broke. The evidence is no longer retrieved for 20 of 51 questions."
    first = replace(found, comparability=None)
    assert line(first) == "Blocked: retrieval falls short. The evidence is not retrieved for 20 of 51 questions."
    other = replace(found, attribution=blamed(Side.GENERATION, not_retrieved=20, invented=9))
    assert line(other).startswith("Blocked: answers got worse. Answers to 9 of 51 questions now say something that")
    assert line(found, advisory=True).startswith("Failed, but not blocked: retrieval broke.")


def test_a_cause_of_few_samples_is_no_headline() -> None:
    found = verdict(Status.FAIL, check(), attribution=blamed(Side.GENERATION, invented=4))
    assert line(found) == "Blocked: Context recall fell from 0.86 to 0.82 on 51 questions; at most 0.02 is allowed."


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("compared", [True, False])
def test_every_cause_has_a_sentence(cause: Cause, compared: bool) -> None:
    found = verdict(Status.FAIL, check(), attribution=blamed(Side.UNCLEAR, **{cause.value: 7}))
    said = line(found if compared else replace(found, comparability=None))
    assert "7 of 51 questions" in said
    assert said.count(".") == 2
    assert "{" not in said


def test_what_is_not_answered_is_counted_once() -> None:
    silent = check(
        CheckKind.SHARE, name="system.unanswered", metric=None, reason="8 of 40 are not answered (0 before)."
    )
    found = verdict(Status.FAIL, check(), silent, attribution=blamed(Side.GENERATION, evasive=7))
    assert line(found) == "Blocked: answers got worse. 8 of 40 are not answered (0 before)."


def test_no_answers_or_the_same_to_all_come_before_what_follows_from_them() -> None:
    same = check(CheckKind.ANSWERS, name="system.answers", metric=None, reason="the system gave the same to all 40.")
    found = verdict(Status.FAIL, check(), same, attribution=blamed(Side.GENERATION, ignored=30))
    assert line(found) == "Blocked: The system gave the same to all 40."


def test_evidence_that_ranks_lower_is_counted_where_answers_still_draw_on_it() -> None:
    ranks = RetrievalChanges({}, tuple(f"q{i}" for i in range(30)), (), ())
    found = verdict(Status.FAIL, check(), attribution=blamed(Side.RETRIEVAL, ranked_low=7), retrieval=ranks)
    assert line(found) == "Blocked: retrieval broke. The evidence ranks lower for 30 of 51 questions."


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"kind": CheckKind.FLOOR, "estimate": 0.7, "threshold": 0.85},
            "is 0.70 on 51 questions, below its floor of 0.85.",
        ),
        (
            {"kind": CheckKind.CEILING, "estimate": 0.7, "threshold": 0.5},
            "is 0.70 on 51 questions, above its ceiling of 0.5.",
        ),
        ({"kind": CheckKind.RISE, "threshold": 0.0}, "rose from 0.86 to 0.82 on 51 questions; no loss is allowed."),
        ({"slice": "tag:de"}, "Context recall on 'tag:de' fell from 0.86"),
        ({"n": 1}, "on 1 question;"),
        ({"metric": "my_metric"}, "Blocked: my_metric fell from"),
        ({"kind": CheckKind.LATENCY, "metric": None, "reason": "answers take 3 s"}, "Blocked: Answers take 3 s"),
        ({"current": None, "reason": "mrr can't be told"}, "Blocked: Mrr can't be told"),
    ],
)
def test_a_check_is_one_sentence(fields: dict[str, Any], says: str) -> None:
    assert says in line(verdict(Status.FAIL, check(**fields)))


def test_what_is_not_settled_says_whether_it_blocks_and_how_often_was_asked() -> None:
    found = verdict(Status.INCONCLUSIVE, check(status=Status.INCONCLUSIVE))
    fell = "Context recall fell from 0.86 to 0.82 on 51 questions; at most 0.02 is allowed."
    assert line(found) == f"Not blocked, but look: {fell} Not settled."
    assert line(found, answers=4) == f"Not blocked, but look: {fell} Asked 4 times, not settled."
    blocks = replace(found, inconclusive_blocks=True)
    assert line(blocks) == f"Blocked: not settled. {fell} Not settled."
    assert line(blocks, advisory=True).startswith("Not blocked, but look: ")
    assert line(verdict(Status.INCONCLUSIVE)) == "Not blocked, but look: The reason."


def test_an_error_is_blocked_and_says_why() -> None:
    found = verdict(
        Status.ERROR, check(CheckKind.COVERAGE, Status.ERROR, metric=None, reason="only 3 of 51 have a score.")
    )
    assert line(found) == "Blocked: nothing is decided. Only 3 of 51 have a score."


def test_a_pass_says_what_would_have_been_seen() -> None:
    held = check(status=Status.PASS)
    warned = check(CheckKind.FLOOR, action=Action.WARN)
    found = verdict(Status.PASS, held, warned, visible_loss=0.123)
    assert line(found) == (
        "Nothing is shown to be worse. 51 questions; 4 of 5 losses of 12 points in one metric would show. "
        "1 check that only warns did not pass."
    )
    lost = replace(found, checks=(held, check(action=Action.WARN)))
    assert line(lost).startswith("Nothing that blocks is shown to be worse. 51 questions;")
    blind = verdict(Status.PASS, held)
    assert line(blind) == "Nothing is shown to be worse. 51 questions."
    assert line(verdict(Status.PASS, held, comparability=None)) == "Passed, with nothing to compare with. The reason."
