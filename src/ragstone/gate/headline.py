"""Line one of every report: what happened, in how many answers, and whether it blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.formatting import bound, counted, figure, score, some
from ragstone.gate.diagnosis import Cause, catalogue
from ragstone.gate.findings import QUESTIONS, Level
from ragstone.gate.question_changes import FEW, QuestionChanges
from ragstone.gate.verdict import (
    CHANGES,
    LEVELS,
    Action,
    CauseCount,
    Check,
    CheckKind,
    GateVerdict,
    RetrievalChanges,
    Side,
    Status,
)
from ragstone.metrics.registry import find_metric

_SCORED = LEVELS | CHANGES
_FACTS = LEVELS | {CheckKind.QUESTIONS}
"""What is known of these questions can be all that there is to know, even where it does not fail the run."""
_LOSSES = CHANGES | {CheckKind.DRIFT}
_TOLD = {*_SCORED, CheckKind.ANSWERS, CheckKind.SHARE, CheckKind.QUESTIONS}
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

    `advisory`: the job goes on whatever the verdict.
    """
    blocked = "Failed, but not blocked:" if advisory else "Blocked:"
    bad = [check for check in verdict.checks if check.action is Action.BLOCK and check.status is verdict.status]
    if verdict.status is Status.PASS:
        return _passed(verdict, samples)
    if verdict.status is Status.ERROR:
        why = _capital(bad[0].reason if bad else verdict.reason)
        unanswered = any(check.kind is CheckKind.ANSWERS for check in bad)
        return Headline(blocked if unanswered else f"{blocked} nothing is decided.", why)
    if verdict.status is Status.INCONCLUSIVE:
        lead = "Blocked: not settled." if verdict.inconclusive_blocks and not advisory else "Not blocked, but look:"
        if not bad:
            return Headline(lead, _capital(verdict.reason))
        is_fact = bad[0].kind in _FACTS and not bad[0].unsettled
        asked = f" Asked {answers} times, not settled." if answers > 1 else " Not settled."
        return Headline(lead, f"{_said(bad[0])}{'' if is_fact else asked}")
    said = {check.name: check.reason for check in bad}
    if "system.answers" in said:  # none, or the same to all: the causes of the samples are only what follows from that
        return Headline(blocked, _capital(said["system.answers"]))
    must = [check.sample or "" for check in bad if check.kind is CheckKind.MUST_PASS]
    found = verdict.explanation.attribution if any(check.kind in _TOLD for check in bad) else None
    if found is None or found.cause is None:
        why = _said(bad[0]) if bad else _capital(verdict.reason)
        if broken := [check for check in bad if check.kind is CheckKind.QUESTIONS]:
            why = _capital(broken[0].reason)
        if len(must) > 1:
            why = f"{counted(len(must), 'must-pass sample')} failed: {some(must)}."
        return Headline(blocked, _capital(said.get("system.error_rate", why)))
    changed = verdict.is_compared
    broke = _BROKE.get(found.side, ("scores fell", "scores are too low"))[0 if changed else 1]
    if found.cause.cause in (Cause.EMPTY, Cause.EVASIVE) and "system.unanswered" in said:
        return Headline(f"{blocked} {broke}.", said["system.unanswered"])
    sentence = cause_sentence(found.cause, verdict.explanation.retrieval, samples, changed=changed)
    counts = _changes(verdict)
    if counts is not None and any(check.kind is CheckKind.QUESTIONS for check in bad):
        sentence = f"{sentence} {counts}."
    return Headline(f"{blocked} {broke}.", sentence)


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
    warnings = [check for check in verdict.checks if check.action is Action.WARN and check.status is not Status.PASS]
    by_words = [check for check in warnings if check.by_words]
    others = len(warnings) - len(by_words)
    also = f" {counted(others, 'check that only warns', 'checks that only warn')} did not pass." if others else ""
    also += _by_words(by_words)
    if not verdict.is_compared:
        return Headline(f"{alerts}Passed, with nothing to compare with.", _capital(verdict.reason))
    lost = any(check.status is Status.FAIL and check.kind in _LOSSES for check in verdict.checks)
    lead = "Nothing that blocks is shown to be worse." if lost else "Nothing is shown to be worse."
    changes = _changes(verdict)
    if changes is not None and changes.broken:
        lead = "Passed."
    changed = changes is not None and (changes.broken or changes.mended)
    counts = str(changes) if changed else _capital(counted(samples, "question"))
    return Headline(f"{alerts}{lead}", f"{counts}{_sensitivity(verdict, samples)}.{also}")


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
    moves = {check.metric: _by_word(check) for check in checks if check.kind in LEVELS}
    moves |= {check.metric: _by_word(check) for check in checks if check.kind in CHANGES}
    return f" By word comparison, {', '.join(moves.values())}." if moves else ""


def _by_word(check: Check) -> str:
    name = (check.metric or "").replace("_", " ")
    if check.baseline is None:
        return f"{name} {score(check.current)} ({check.kind} {bound(check.threshold or 0.0)})"
    return f"{name} {score(check.baseline)} → {score(check.current)}"


def _said(check: Check) -> str:
    """A check as one sentence, counts and scores first; the reason of one that is not about a metric."""
    if check.kind not in _SCORED or check.metric is None or check.estimate is None or check.threshold is None:
        return _capital(check.reason)
    metric = find_metric(check.metric)
    name = metric.info.title if metric is not None else check.metric
    name += f" on '{check.slice}'" if check.slice is not None else ""
    on = f"on {counted(check.n, 'question')}"
    if check.kind in LEVELS:
        side = "below its floor" if check.kind is CheckKind.FLOOR else "above its ceiling"
        return f"{name} is {score(check.estimate)} {on}, {side} of {bound(check.threshold)}."
    if check.current is None or check.baseline is None:
        return _capital(check.reason)
    moved = "fell" if check.kind is CheckKind.DROP else "rose"
    allowed = f"at most {bound(abs(check.threshold))} is allowed" if check.threshold else "no loss is allowed"
    return f"{name} {moved} from {score(check.baseline)} to {score(check.current)} {on}; {allowed}."


def _capital(text: str) -> str:
    first = text.partition(" ")[0]
    return text if any(sign in first for sign in "_/") else text[:1].upper() + text[1:]
