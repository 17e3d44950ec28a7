"""Line one: what happened, in how many answers, and whether it blocks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.gate.diagnosis import Cause, diagnosis_of
from ragstone.gate.findings import QUESTIONS, STEPS, Finding, Level
from ragstone.gate.question_changes import QuestionChanges
from ragstone.gate.verdict import (
    Action,
    Attribution,
    Check,
    CheckKind,
    Comparability,
    GateVerdict,
    Sensitivity,
    Side,
    Status,
)
from ragstone.report.headline import headline_of
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


def fails(*checks: Check, **fields: Any) -> GateVerdict:
    return verdict(Status.FAIL, *checks, **fields)


def blamed(side: Side, **counts: int) -> Attribution:
    causes = {f"{name}-{i}": (Cause(name),) for name, count in counts.items() for i in range(count)}
    found = diagnosis_of(causes)
    return Attribution(side, "", found.cause(side))


def line(found: GateVerdict, **more: Any) -> str:
    headline = headline_of(found, **{"sample_count": 51, **more})
    return f"{headline.lead} {headline.fact}"


def flips(broken: int, mended: int) -> Finding:
    ids = tuple(map(str, range(broken))), tuple(map(str, range(mended)))
    changes = QuestionChanges(51, *ids, is_steady=True, is_likely_steady=True, p_value=1.0)
    return Finding(QUESTIONS, Level.FACT, "", data=changes)


MIXED = {"not_retrieved": 20, "invented": 9}
LOST = fails(check(), attribution=blamed(Side.RETRIEVAL, **MIXED))
SILENT = check(CheckKind.SHARE, name="system.unanswered", metric=None, reason="8 of 40 are not answered.")
SAME = check(CheckKind.ANSWERS, name="system.answers", metric=None, reason="the system gave the same to all 40.")
ERRORS = check(CheckKind.ERROR_RATE, name="system.error_rate", metric=None, reason="it failed on 9.")
MOVED = check(CheckKind.QUESTIONS, name="questions.broken", metric=None, reason="20 of 51 got worse, 10 better: a, b.")
UNSCORED = check(CheckKind.COVERAGE, Status.ERROR, metric=None, reason="only 3 of 51 have a score.")
MUST = [check(CheckKind.MUST_PASS, sample=name, metric=None, reason=f"{name} fails.") for name in ("a", "b")]
FEW = blamed(Side.GENERATION, invented=4)
TURN = Finding(STEPS, Level.ALERT, "", "turn 3")


@pytest.mark.parametrize(
    ("found", "more", "parts"),
    [
        (LOST, {}, ("Blocked: retrieval broke.", "no longer", "20 of 51 questions")),
        (replace(LOST, comparability=None), {}, ("Blocked: scores are", "the evidence for 20 of 51 questions")),
        (LOST, {"is_advisory": True}, ("No verdict blocks (fail_on is 'never'). Failed: retrieval", "20 of 51")),
        (fails(check(), attribution=blamed(Side.GENERATION, **MIXED)), {}, ("Blocked: answers", "9 of 51")),
        (fails(check(), attribution=blamed(Side.UNCLEAR, **MIXED)), {}, ("Blocked: scores fell.", "20 of 51")),
        # What a step explains is named by it, if that was compared.
        (LOST.with_findings(after=[TURN]), {}, ("Blocked: turn 3 broke.",)),
        (LOST.with_findings(after=[replace(TURN, where=None)]), {}, ("Blocked: retrieval broke.",)),
        # A cause of few samples is no headline; nor is one of checks that speak for themselves.
        (fails(check(), attribution=FEW), {}, ("Blocked: context_recall", "0.86 to 0.82 on 51 questions", "0.02")),
        (fails(MUST[0], attribution=LOST.explanation.attribution), {}, ("Blocked: a fails.",)),
        (fails(check(), SILENT, attribution=blamed(Side.GENERATION, ignored=7)), {}, ("Blocked: answers", "7 of 51")),
        # No answers, or the same to all, come before what follows from them.
        (fails(check(), SAME, attribution=blamed(Side.GENERATION, ignored=30)), {}, ("Blocked: the system gave the",)),
        (fails(*MUST), {}, ("Blocked: 2 must-pass samples failed: a, b.",)),
        (fails(MUST[0]), {}, ("Blocked: a fails.",)),
        (fails(*MUST, ERRORS), {}, ("Blocked: it failed on 9.",)),
        (fails(MUST[0], MOVED), {}, ("Blocked: 20 of 51 got worse, 10 better: a, b.",)),
        (
            fails(MOVED, attribution=LOST.explanation.attribution).with_findings(after=[flips(20, 0)]),
            {},
            ("Blocked: retrieval", "20 of 51 questions. 20 of 51 questions got worse, none better."),
        ),
        (verdict(Status.ERROR, UNSCORED), {}, ("Blocked: nothing is decided.", "only 3 of 51 have a score.")),
        (verdict(Status.ERROR, replace(SAME, status=Status.ERROR)), {}, ("Blocked: the system gave",)),
        # An error ends the job whatever fail_on is.
        (verdict(Status.ERROR), {"is_advisory": True}, ("Blocked: nothing is decided. the reason.",)),
        (fails(), {}, ("Blocked: the reason.",)),
        (fails(check(action=Action.WARN)), {}, ("Blocked: the reason.",)),
    ],
)
def test_what_failed_is_counted_and_whether_it_blocks(found: GateVerdict, more: Any, parts: tuple[str, ...]) -> None:
    said = line(found, **more)
    assert said.startswith(parts[0])
    assert [part for part in parts if part not in said] == []


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("compared", [True, False])
def test_every_cause_has_a_sentence(cause: Cause, compared: bool) -> None:
    found = fails(check(), attribution=blamed(Side.UNCLEAR, **{cause.value: 7}))
    said = line(found if compared else replace(found, comparability=None))
    assert "7 of 51 questions" in said
    assert said.count(".") == 2
    assert "{" not in said


UNTOLD = "Blocked: mrr can't be told"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": CheckKind.FLOOR, "reason": "mrr is 0.70"}, "Blocked: mrr is 0.70"),
        ({"kind": CheckKind.RISE, "threshold": 0.0}, "rose from 0.86 to 0.82 on 51 questions; at most 0 is allowed"),
        ({"slice": "tag:de"}, "context_recall on 'tag:de' fell from 0.86 to 0.82 on 51 questions; at most 0.02"),
        ({"n": 1}, "on 1 question;"),
        ({"metric": "my_metric"}, "Blocked: my_metric fell from"),
        ({"kind": CheckKind.LATENCY, "metric": None, "reason": "answers take 3 s"}, "Blocked: answers take 3 s"),
        ({"kind": CheckKind.COVERAGE, "reason": "few_scores are known"}, "Blocked: few_scores are known"),
        ({"current": None, "reason": "mrr can't be told"}, UNTOLD),
        ({"baseline": None, "reason": "mrr can't be told"}, UNTOLD),
        ({"threshold": None, "reason": "mrr can't be told"}, UNTOLD),
    ],
)
def test_a_check_is_one_sentence(fields: dict[str, Any], says: str) -> None:
    assert says in line(fails(check(**fields)))


DOUBT = verdict(Status.INCONCLUSIVE, check(status=Status.INCONCLUSIVE), check(status=Status.PASS, metric="mrr"))
BLOCKS = replace(DOUBT, inconclusive_blocks=True)
FACT = replace(MOVED, status=Status.INCONCLUSIVE)
FLOOR = check(CheckKind.FLOOR, Status.INCONCLUSIVE, reason="mrr is 0.70, below the floor of 0.8.")


@pytest.mark.parametrize(
    ("found", "more", "start", "end"),
    [
        (DOUBT, {}, "Not blocked, but look: context_recall fell from 0.86 to 0.82", "Not settled."),
        (DOUBT, {"answers_per_sample": 4}, "Not blocked, but look: ", "Asked 4 times, not settled."),
        (BLOCKS, {}, "Blocked: not settled. context_recall", "Not settled."),
        (
            BLOCKS,
            {"is_advisory": True},
            "No verdict blocks (fail_on is 'never'). Not blocked, but look: ",
            "Not settled.",
        ),
        (verdict(Status.INCONCLUSIVE), {}, "Not blocked, but look: the reason.", "the reason."),
        # Questions that surely broke, and floors that are surely missed, are settled however the run ends.
        (verdict(Status.INCONCLUSIVE, FACT), {}, f"Not blocked, but look: {FACT.reason}", FACT.reason),
        (verdict(Status.INCONCLUSIVE, replace(FACT, unsettled=True)), {}, "Not blocked, but look: 20", "Not settled."),
        (verdict(Status.INCONCLUSIVE, FLOOR), {}, "Not blocked, but look: mrr is 0.70", "floor of 0.8."),
    ],
)
def test_what_is_not_settled_says_whether_it_blocks(found: GateVerdict, more: Any, start: str, end: str) -> None:
    said = line(found, **more)
    assert said.startswith(start)
    assert said.endswith(end)


WARNS = check(CheckKind.FLOOR, action=Action.WARN)
BY_WORDS = replace(WARNS, by_words=True)
WELL = "Nothing is shown to be worse. 51 questions"
SHOWS = "; 3 questions that break would show, and 4 of 5 losses of 12 points in one metric."


@pytest.mark.parametrize(
    ("checks", "flipped", "seen", "samples", "says"),
    [
        ([], None, None, 51, f"{WELL}."),
        ([], (0, 0), (0.123, 3), 51, f"{WELL}{SHOWS}"),
        ([WARNS], (0, 0), (0.123, 3), 51, f"{WELL}{SHOWS} 1 check that only warns did not pass."),
        ([], (1, 2), (0.123, 3), 51, f"Passed. 1 of 51 questions got worse, 2 better{SHOWS}"),
        ([], (0, 2), None, 51, "Nothing is shown to be worse. 0 of 51 questions got worse, 2 better."),
        ([], (1, 0), None, 51, "Passed. 1 of 51 questions got worse, none better."),
        ([], None, (None, 3), 51, f"{WELL}; 3 questions that break would show."),
        ([], None, (0.123, 3), 10, "worse. 10 questions; 3 questions that break would show, and"),
        ([], None, (0.123, 3), 9, "Nothing is shown to be worse. 9 questions; fewer than 3 that break would not show."),
        ([], None, (None, None), 2, "worse. 2 questions; so few questions can't show a loss."),
        ([check(action=Action.WARN)], None, None, 51, "Nothing that blocks is shown to be worse. 51 questions."),
        ([BY_WORDS], None, None, 51, f"{WELL}. By word comparison, context_recall 0.82."),
        ([BY_WORDS, WARNS], None, None, 51, ". 1 check that only warns did not pass. By word comparison, context"),
        ([check(CheckKind.DRIFT, action=Action.WARN)], None, None, 51, "Nothing that blocks is shown to be worse. 51"),
    ],
)
def test_a_pass_counts_questions_and_says_what_would_have_been_seen(
    checks: list[Check], flipped: Any, seen: Any, samples: int, says: str
) -> None:
    found = verdict(Status.PASS, check(status=Status.PASS), *checks)
    facts = [] if flipped is None else [flips(*flipped)]
    if seen is not None:
        facts.append(Finding("sensitivity", Level.FACT, "", data=Sensitivity(*seen)))
    assert says in line(found.with_findings(after=facts), sample_count=samples)


def test_a_pass_with_nothing_to_compare_with_says_so_after_what_matters() -> None:
    alert = Finding("accepted", Level.ALERT, "A drop is accepted.")
    found = verdict(Status.PASS, comparability=None).with_findings(after=[alert])
    assert line(found) == "A drop is accepted. Passed, with nothing to compare with. the reason."
    assert line(found, is_advisory=True).startswith("No verdict blocks (fail_on is 'never'). A drop is accepted. ")
