"""Line one of every report: what happened, in how many answers, and whether it
blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.formatting import bound, counted, figure, score, some
from ragstone.gate.accepted import title_of
from ragstone.gate.diagnosis import Cause, catalogue
from ragstone.gate.findings import QUESTIONS, STEPS, Level
from ragstone.gate.question_changes import FEW, QuestionChanges
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    Check,
    CheckKind,
    GateVerdict,
    Side,
    Status,
)

_FACTS = LEVELS | {CheckKind.QUESTIONS}
"""What is known of these questions can be all that there is to know, even where it does
not fail the run."""
_LOSSES = CHANGES | {CheckKind.DRIFT}
_EXPLAINED = {
    *LEVELS,
    *CHANGES,
    CheckKind.ANSWERS,
    CheckKind.SHARE,
    CheckKind.QUESTIONS,
}
"""What fails these is told by the cause of enough samples; a must-pass sample and a
limit speak for themselves."""
_BROKE = {
    Side.RETRIEVAL: "retrieval broke",
    Side.GENERATION: "answers got worse",
    Side.BOTH: "retrieval and answers got worse",
}
"""What a half did that is worse than in the baseline."""


@dataclass(frozen=True, slots=True)
class Headline:
    """Line one of a report."""

    lead: str
    """What happened and whether it blocks; it may end with a colon."""
    fact: str
    """The fact behind it."""

    def __str__(self) -> str:
        return f"{self.lead} {self.fact}"


def headline_of(
    verdict: GateVerdict, *, samples: int, answers: int = 1, advisory: bool = False
) -> Headline:
    """Line one of `verdict` on `samples` samples, each asked `answers` times. Pure.

    `advisory`: the job goes on whatever the verdict, because of `fail_on`.
    """
    status = verdict.status
    ending = [
        check for check in verdict.checks if check.blocks and check.status is status
    ]
    blocked = "Blocked:"
    if status is Status.ERROR:
        # It ends the job whatever fail_on is.
        if all(check.kind is not CheckKind.ANSWERS for check in ending):
            blocked = f"{blocked} nothing is decided."
        return Headline(blocked, ending[0].reason if ending else verdict.reason)
    if advisory:
        blocked = "Failed, but not blocked (fail_on is 'never'):"
    if status is Status.FAIL:
        return _failed(verdict, ending, samples, blocked)
    if status is Status.PASS:
        headline = _passed(verdict, samples)
    else:
        lead = "Not blocked, but look:"
        if verdict.inconclusive_blocks and not advisory:
            lead = "Blocked: not settled."
        fact = verdict.reason
        for first in ending[:1]:
            fact = _sentence(first)
            if first.kind not in _FACTS or first.unsettled:
                again = "Not"
                if answers > 1:
                    again = f"Asked {answers} times, not"
                fact = f"{fact} {again} settled."
        headline = Headline(lead, fact)
    if not advisory:
        return headline
    lead = f"{headline.lead} No verdict blocks: fail_on is 'never'."
    if headline.lead.endswith(":"):
        lead = f"{headline.lead.removesuffix(':')} (fail_on is 'never'):"
    return Headline(lead, headline.fact)


def _failed(
    verdict: GateVerdict, failed: Sequence[Check], samples: int, blocked: str
) -> Headline:
    """The cause of enough samples, if it explains what failed, or else the first
    reason."""
    reasons = {check.name: check.reason for check in failed}
    if "system.answers" in reasons:
        # None, or the same to all: the causes of samples only follow from that.
        return Headline(blocked, reasons["system.answers"])
    attribution = verdict.explanation.attribution
    is_explained = any(check.kind in _EXPLAINED for check in failed)
    if is_explained and attribution is not None and attribution.cause is not None:
        cause = attribution.cause
        text = catalogue()[Cause(cause.cause)]
        of = f"{cause.seen:,} of {counted(samples, 'question')}"
        fact = text["changed" if verdict.is_compared else "short"].format(of=of)
        if cause.cause in (Cause.EMPTY, Cause.EVASIVE):
            fact = reasons.get("system.unanswered", fact)
        if "questions.broken" in reasons:
            fact = f"{fact} {_changes(verdict)}."
        outcome = _BROKE.get(attribution.side, "scores fell")
        for finding in verdict.of_kind(STEPS):
            if finding.where is not None:
                # The turn, hop or tool that explains most of what got worse.
                outcome = f"{finding.where} broke"
        if not verdict.is_compared:
            outcome = "scores are too low"
        return Headline(f"{blocked} {outcome}.", fact)
    must_pass = [
        check.sample or "" for check in failed if check.kind is CheckKind.MUST_PASS
    ]
    fact = _sentence(failed[0]) if failed else verdict.reason
    if "questions.broken" in reasons:
        fact = reasons["questions.broken"]
    if len(must_pass) > 1:
        fact = (
            f"{counted(len(must_pass), 'must-pass sample')} failed: {some(must_pass)}."
        )
    return Headline(blocked, reasons.get("system.error_rate", fact))


def _passed(verdict: GateVerdict, samples: int) -> Headline:
    alerts = "".join(f"{text} " for text in verdict.texts(Level.ALERT))
    if not verdict.is_compared:
        lead = f"{alerts}Passed, with nothing to compare with."
        return Headline(lead, verdict.reason)
    lead = "Nothing is shown to be worse."
    if any(check.failed and check.kind in _LOSSES for check in verdict.checks):
        lead = "Nothing that blocks is shown to be worse."
    fact = counted(samples, "question")
    changes = _changes(verdict)
    if changes is not None and (changes.broken or changes.mended):
        fact = str(changes)
        if changes.broken:
            lead = "Passed."
    # What the run could have shown.
    if verdict.sensitivity is not None:
        sensitivity = verdict.sensitivity.data
        if sensitivity.broken is None:
            fact += "; so few questions can't show a loss"
        elif samples < FEW:
            fact += f"; fewer than {sensitivity.broken} that break would not show"
        else:
            fact += f"; {sensitivity.broken} questions that break would show"
            if sensitivity.loss is not None:
                points = f"{100 * float(figure(sensitivity.loss)):.3g} points"
                fact += f", and 4 of 5 losses of {points} in one metric"
    return Headline(f"{alerts}{lead}", f"{fact}.{_warned(verdict)}")


def _warned(verdict: GateVerdict) -> str:
    """The checks that only warn and did not pass, as the end of a paragraph; those that
    only words show by their scores."""
    bad = [check for check in verdict.checks if not check.blocks and not check.passed]
    by_words = {
        check.metric: f"{check.metric} {score(check.current)}"
        for check in bad
        if check.by_words
    }
    count = sum(not check.by_words for check in bad)
    text = ""
    if count:
        text = f" {counted(count, 'check that only warns', 'checks that only warn')} did not pass."
    if by_words:
        text += f" By word comparison, {', '.join(by_words.values())}."
    return text


def _changes(verdict: GateVerdict) -> QuestionChanges | None:
    return next((finding.data for finding in verdict.of_kind(QUESTIONS)), None)


def _sentence(check: Check) -> str:
    """A check as one sentence, counts and scores first; the reason of one that is not
    about a metric."""
    if check.metric is None or check.threshold is None or check.estimate is None:
        return check.reason
    name = title_of(check.metric, check.slice)
    on = f"on {counted(check.n, 'question')}"
    limit = bound(abs(check.threshold))
    if check.kind in LEVELS:
        side = "below"
        if check.kind is CheckKind.CEILING:
            side = "above"
        mean = figure(check.estimate, check.threshold)
        return f"{name} is {mean} {on}, {side} its {check.kind} of {limit}."
    if check.kind not in CHANGES or check.baseline is None or check.current is None:
        return check.reason
    moved = "rose"
    if check.kind is CheckKind.DROP:
        moved = "fell"
    scores = f"from {score(check.baseline)} to {score(check.current)}"
    return f"{name} {moved} {scores} {on}; at most {limit} is allowed."
