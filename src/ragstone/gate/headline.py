"""Line one of every report: what happened, in how many answers, and whether it
blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstone.formatting import bound, counted, figure, score, some
from ragstone.gate.accepted import title_of
from ragstone.gate.diagnosis import Cause, catalogue
from ragstone.gate.findings import QUESTIONS, STEPS, Level
from ragstone.gate.question_changes import FEW, QuestionChanges
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    CauseCount,
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
    ending = [
        check
        for check in verdict.checks
        if check.blocks and check.status is verdict.status
    ]
    if verdict.status is Status.PASS:
        passed = _passed(verdict, samples)
        return _advisory(passed) if advisory else passed
    if verdict.status is Status.INCONCLUSIVE:
        open_ = _inconclusive(verdict, ending, answers, advisory=advisory)
        return _advisory(open_) if advisory else open_
    blocked = "Blocked:"
    if advisory:
        blocked = "Failed, but not blocked (fail_on is 'never'):"
    if verdict.status is Status.FAIL:
        return _failed(verdict, ending, samples, blocked)
    if all(check.kind is not CheckKind.ANSWERS for check in ending):
        blocked = f"{blocked} nothing is decided."
    return Headline(blocked, ending[0].reason if ending else verdict.reason)


def _advisory(headline: Headline) -> Headline:
    lead = f"{headline.lead} No verdict blocks: fail_on is 'never'."
    if headline.lead.endswith(":"):
        lead = f"{headline.lead.removesuffix(':')} (fail_on is 'never'):"
    return Headline(lead, headline.fact)


def _inconclusive(
    verdict: GateVerdict, ending: Sequence[Check], answers: int, *, advisory: bool
) -> Headline:
    lead = "Not blocked, but look:"
    if verdict.inconclusive_blocks and not advisory:
        lead = "Blocked: not settled."
    if not ending:
        return Headline(lead, verdict.reason)
    first = ending[0]
    if first.kind in _FACTS and not first.unsettled:
        return Headline(lead, _sentence(first))
    end = f"Asked {answers} times, not settled." if answers > 1 else "Not settled."
    return Headline(lead, f"{_sentence(first)} {end}")


def _failed(
    verdict: GateVerdict, failed: Sequence[Check], samples: int, blocked: str
) -> Headline:
    reasons = {check.name: check.reason for check in failed}
    if "system.answers" in reasons:
        # None, or the same to all: the causes of samples only follow from that.
        return Headline(blocked, reasons["system.answers"])
    attribution = verdict.explanation.attribution
    is_explained = any(check.kind in _EXPLAINED for check in failed)
    if not is_explained or attribution is None or attribution.cause is None:
        return Headline(blocked, _reason_without_cause(verdict, failed, reasons))
    cause = attribution.cause
    outcome = _broken_step(verdict) or _BROKE.get(attribution.side, "scores fell")
    if not verdict.is_compared:
        outcome = "scores are too low"
    fact = cause_sentence(cause, samples, changed=verdict.is_compared)
    if cause.cause in (Cause.EMPTY, Cause.EVASIVE):
        fact = reasons.get("system.unanswered", fact)
    if "questions.broken" in reasons:
        fact = f"{fact} {_changes(verdict)}."
    return Headline(f"{blocked} {outcome}.", fact)


def _broken_step(verdict: GateVerdict) -> str | None:
    """That the turn, hop or tool that explains most of what got worse broke, if one
    does."""
    for finding in verdict.of_kind(STEPS):
        if finding.where is not None:
            return f"{finding.where} broke"
    return None


def _reason_without_cause(
    verdict: GateVerdict, failed: Sequence[Check], reasons: Mapping[str, str]
) -> str:
    if "system.error_rate" in reasons:
        return reasons["system.error_rate"]
    must_pass = [
        check.sample or "" for check in failed if check.kind is CheckKind.MUST_PASS
    ]
    if len(must_pass) > 1:
        return (
            f"{counted(len(must_pass), 'must-pass sample')} failed: {some(must_pass)}."
        )
    if "questions.broken" in reasons:
        return reasons["questions.broken"]
    if not failed:
        return verdict.reason
    return _sentence(failed[0])


def cause_sentence(cause: CauseCount, samples: int, *, changed: bool) -> str:
    """``The evidence is no longer retrieved for 105 of 115 questions.``

    It counts all samples that show it, which other sentences may count too.
    """
    text = catalogue()[Cause(cause.cause)]["changed" if changed else "short"]
    return text.format(of=f"{cause.seen:,} of {counted(samples, 'question')}")


def _passed(verdict: GateVerdict, samples: int) -> Headline:
    alerts = "".join(f"{text} " for text in verdict.texts(Level.ALERT))
    if not verdict.is_compared:
        return Headline(
            f"{alerts}Passed, with nothing to compare with.", verdict.reason
        )
    lead = "Nothing is shown to be worse."
    if any(check.failed and check.kind in _LOSSES for check in verdict.checks):
        lead = "Nothing that blocks is shown to be worse."
    counts = counted(samples, "question")
    changes = _changes(verdict)
    if changes is not None and (changes.broken or changes.mended):
        counts = str(changes)
        if changes.broken:
            lead = "Passed."
    seen = _sensitivity(verdict, samples)
    return Headline(f"{alerts}{lead}", f"{counts}{seen}.{_warned(verdict)}")


def _warned(verdict: GateVerdict) -> str:
    """The checks that only warn and did not pass, as the end of a paragraph; those that
    only words show by their scores."""
    count = 0
    by_words: dict[str, str] = {}
    for check in verdict.checks:
        if check.blocks or check.passed:
            continue
        if check.by_words:
            by_words[check.metric or ""] = f"{check.metric} {score(check.current)}"
        else:
            count += 1
    text = ""
    if count:
        text = f" {counted(count, 'check that only warns', 'checks that only warn')} did not pass."
    if by_words:
        text += f" By word comparison, {', '.join(by_words.values())}."
    return text


def _changes(verdict: GateVerdict) -> QuestionChanges | None:
    return next((finding.data for finding in verdict.of_kind(QUESTIONS)), None)


def _sensitivity(verdict: GateVerdict, samples: int) -> str:
    """What the run could have shown, as the end of a sentence."""
    if verdict.sensitivity is None:
        return ""
    sensitivity = verdict.sensitivity.data
    if sensitivity.broken is None:
        return "; so few questions can't show a loss"
    if samples < FEW:
        return f"; fewer than {sensitivity.broken} that break would not show"
    broken = f"; {sensitivity.broken} questions that break would show"
    if sensitivity.loss is None:
        return broken
    points = f"{100 * float(figure(sensitivity.loss)):.3g} points"
    return f"{broken}, and 4 of 5 losses of {points} in one metric"


def _sentence(check: Check) -> str:
    """A check as one sentence, counts and scores first; the reason of one that is not
    about a metric."""
    if check.metric is None or check.threshold is None or check.estimate is None:
        return check.reason
    name = title_of(check.metric, check.slice)
    on = f"on {counted(check.n, 'question')}"
    limit = bound(abs(check.threshold))
    if check.kind in LEVELS:
        side = "above" if check.kind is CheckKind.CEILING else "below"
        mean = figure(check.estimate, check.threshold)
        return f"{name} is {mean} {on}, {side} its {check.kind} of {limit}."
    if check.kind not in CHANGES or check.baseline is None or check.current is None:
        return check.reason
    moved = "fell" if check.kind is CheckKind.DROP else "rose"
    scores = f"from {score(check.baseline)} to {score(check.current)}"
    return f"{name} {moved} {scores} {on}; at most {limit} is allowed."
