"""Line one of every report: what happened, in how many answers, and whether it blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstone.formatting import bound, counted, figure, score, some
from ragstone.gate.diagnosis import Cause, catalogue
from ragstone.gate.findings import QUESTIONS, Level
from ragstone.gate.question_changes import FEW, QuestionChanges
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    CauseCount,
    Check,
    CheckKind,
    GateVerdict,
    RetrievalChanges,
    Side,
    Status,
)
from ragstone.metrics.registry import find_metric

_FACTS = LEVELS | {CheckKind.QUESTIONS}
"""What is known of these questions can be all that there is to know, even where it does not fail the run."""
_LOSSES = CHANGES | {CheckKind.DRIFT}
_TOLD = {*LEVELS, *CHANGES, CheckKind.ANSWERS, CheckKind.SHARE, CheckKind.QUESTIONS}
"""What fails these is told by the cause of enough samples; a must-pass sample and a limit speak for themselves."""

_BROKE = {
    Side.RETRIEVAL: ("retrieval broke", "retrieval falls short"),
    Side.GENERATION: ("answers got worse", "answers fall short"),
    Side.BOTH: ("retrieval and answers got worse", "retrieval and answers fall short"),
}


@dataclass(frozen=True, slots=True)
class Headline:
    """What happened and whether it blocks (`lead`, which may end with a colon), and the `fact` behind it."""

    lead: str
    fact: str

    def __str__(self) -> str:
        return f"{self.lead} {self.fact}"


def headline_of(verdict: GateVerdict, *, samples: int, answers: int = 1, advisory: bool = False) -> Headline:
    """Line one of `verdict` on `samples` samples, each asked `answers` times. Pure.

    `advisory`: the job goes on whatever the verdict, because of `fail_on`, which line one says.
    """
    headline = _headline(verdict, samples, answers, advisory=advisory)
    if not advisory or verdict.status is Status.ERROR:
        return headline
    if headline.lead.endswith(":"):
        return Headline(f"{headline.lead.removesuffix(':')} (fail_on is 'never'):", headline.fact)
    return Headline(f"{headline.lead} No verdict blocks: fail_on is 'never'.", headline.fact)


def _headline(verdict: GateVerdict, samples: int, answers: int, *, advisory: bool) -> Headline:
    blocked = "Failed, but not blocked:" if advisory else "Blocked:"
    bad = [check for check in verdict.checks if check.blocks and check.status is verdict.status]
    reason = _capital(bad[0].reason if bad else verdict.reason)
    if verdict.status is Status.PASS:
        return _passed(verdict, samples)
    if verdict.status is Status.ERROR:
        is_unanswered = any(check.kind is CheckKind.ANSWERS for check in bad)
        return Headline(blocked if is_unanswered else f"{blocked} nothing is decided.", reason)
    if verdict.status is Status.INCONCLUSIVE:
        lead = "Blocked: not settled." if verdict.inconclusive_blocks and not advisory else "Not blocked, but look:"
        if not bad or (bad[0].kind in _FACTS and not bad[0].unsettled):
            return Headline(lead, _said(bad[0]) if bad else reason)
        asked = f"Asked {answers} times, not settled." if answers > 1 else "Not settled."
        return Headline(lead, f"{_said(bad[0])} {asked}")
    reasons = {check.name: _capital(check.reason) for check in bad}
    if "system.answers" in reasons:  # none, or the same to all: the causes of the samples only follow from that
        return Headline(blocked, reasons["system.answers"])
    attribution = verdict.explanation.attribution if any(check.kind in _TOLD for check in bad) else None
    if attribution is None or attribution.cause is None:
        return Headline(blocked, _reason_without_cause(bad, reasons, reason))
    changed = verdict.is_compared
    broke = f"{blocked} {_BROKE.get(attribution.side, ('scores fell', 'scores are too low'))[0 if changed else 1]}."
    if attribution.cause.cause in (Cause.EMPTY, Cause.EVASIVE) and "system.unanswered" in reasons:
        return Headline(broke, reasons["system.unanswered"])
    sentence = cause_sentence(attribution.cause, verdict.explanation.retrieval, samples, changed=changed)
    counts = f" {_changes(verdict)}." if "questions.broken" in reasons else ""
    return Headline(broke, f"{sentence}{counts}")


def _reason_without_cause(bad: Sequence[Check], reasons: Mapping[str, str], reason: str) -> str:
    must_pass = [check.sample or "" for check in bad if check.kind is CheckKind.MUST_PASS]
    if "system.error_rate" in reasons:
        return reasons["system.error_rate"]
    if len(must_pass) > 1:
        return f"{counted(len(must_pass), 'must-pass sample')} failed: {some(must_pass)}."
    if "questions.broken" in reasons:
        return reasons["questions.broken"]
    if bad:
        return _said(bad[0])
    return reason


def cause_sentence(found: CauseCount, retrieval: RetrievalChanges | None, samples: int, *, changed: bool) -> str:
    """``The evidence is no longer retrieved for 105 of 115 questions.``

    It counts all samples that show it, which other sentences may count too.
    """
    seen = max(found.count, found.seen)
    if retrieval is not None and found.cause == Cause.RANKED_LOW:
        seen = max(found.count, len(retrieval.lower))
    text = catalogue()[Cause(found.cause)]["changed" if changed else "short"]
    return text.format(of=f"{seen:,} of {counted(samples, 'question')}")


def _passed(verdict: GateVerdict, samples: int) -> Headline:
    alerts = "".join(f"{text} " for text in verdict.texts(Level.ALERT))
    if not verdict.is_compared:
        return Headline(f"{alerts}Passed, with nothing to compare with.", _capital(verdict.reason))
    warnings = [check for check in verdict.checks if not check.blocks and check.status is not Status.PASS]
    others = sum(not check.by_words for check in warnings)
    also = f" {counted(others, 'check that only warns', 'checks that only warn')} did not pass." if others else ""
    also += _by_words([check for check in warnings if check.by_words])
    lost = any(check.status is Status.FAIL and check.kind in _LOSSES for check in verdict.checks)
    lead = "Nothing that blocks is shown to be worse." if lost else "Nothing is shown to be worse."
    counts = counted(samples, "question")
    changes = _changes(verdict)
    if changes is not None and (changes.broken or changes.mended):
        counts = str(changes)
        lead = "Passed." if changes.broken else lead
    return Headline(f"{alerts}{lead}", f"{_capital(counts)}{_sensitivity(verdict, samples)}.{also}")


def _changes(verdict: GateVerdict) -> QuestionChanges | None:
    return next((finding.data for finding in verdict.of_kind(QUESTIONS)), None)


def _sensitivity(verdict: GateVerdict, samples: int) -> str:
    """What the run could have shown, as the end of a sentence."""
    if verdict.sensitivity is None:
        return ""
    sensitivity = verdict.sensitivity.data
    if sensitivity.broken is None:
        return "; so few questions can't show a loss"
    broken = counted(sensitivity.broken, "question")
    if samples < FEW:
        return f"; fewer than {sensitivity.broken} that break would not show"
    if sensitivity.loss is None:
        return f"; {broken} that break would show"
    points = f"{100 * float(figure(sensitivity.loss)):.3g} points"
    return f"; {broken} that break would show, and 4 of 5 losses of {points} in one metric"


def _by_words(checks: Sequence[Check]) -> str:
    """`` By word comparison, faithfulness 1.00 → 0.92.``; nothing without such checks."""
    moves = {}
    for check in sorted(checks, key=lambda check: check.kind in CHANGES):
        name = (check.metric or "").replace("_", " ")
        moved = f"{score(check.baseline)} → {score(check.current)}"
        if check.baseline is None:
            moved = f"{score(check.current)} ({check.kind} {bound(check.threshold or 0.0)})"
        moves[check.metric] = f"{name} {moved}"
    if not moves:
        return ""
    return f" By word comparison, {', '.join(moves.values())}."


def _said(check: Check) -> str:
    """A check as one sentence, counts and scores first; the reason of one that is not about a metric."""
    is_scored = check.kind in LEVELS or (
        check.kind in CHANGES and check.baseline is not None and check.current is not None
    )
    if not is_scored or check.metric is None or check.threshold is None or check.estimate is None:
        return _capital(check.reason)
    metric = find_metric(check.metric)
    name = check.metric if metric is None else metric.info.title
    name += f" on '{check.slice}'" if check.slice is not None else ""
    on = f"on {counted(check.n, 'question')}"
    if check.kind in LEVELS:
        side = "below its floor" if check.kind is CheckKind.FLOOR else "above its ceiling"
        return f"{name} is {score(check.estimate)} {on}, {side} of {bound(check.threshold)}."
    moved = "fell" if check.kind is CheckKind.DROP else "rose"
    allowed = f"at most {bound(abs(check.threshold))} is allowed" if check.threshold else "no loss is allowed"
    return f"{name} {moved} from {score(check.baseline)} to {score(check.current)} {on}; {allowed}."


def _capital(text: str) -> str:
    first = text.partition(" ")[0]
    if any(sign in first for sign in "_/"):
        return text
    return text[:1].upper() + text[1:]
