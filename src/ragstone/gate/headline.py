"""Line one of every report: what happened, in how many answers, and whether it
blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstone.formatting import bound, counted, figure, score, some
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
    RetrievalChanges,
    Side,
    Status,
)
from ragstone.metrics.registry import find_metric

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

_FALLS_SHORT = {
    Side.RETRIEVAL: "retrieval falls short",
    Side.GENERATION: "answers fall short",
    Side.BOTH: "retrieval and answers fall short",
}
"""What a half does that misses its limits, without a baseline."""
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

    `advisory`: the job goes on whatever the verdict, because of `fail_on`, which line
    one says.
    """
    headline = _headline(verdict, samples, answers, advisory=advisory)
    if not advisory or verdict.status is Status.ERROR:
        return headline
    if headline.lead.endswith(":"):
        return Headline(
            f"{headline.lead.removesuffix(':')} (fail_on is 'never'):", headline.fact
        )
    return Headline(
        f"{headline.lead} No verdict blocks: fail_on is 'never'.", headline.fact
    )


def _headline(
    verdict: GateVerdict, samples: int, answers: int, *, advisory: bool
) -> Headline:
    blocked = "Failed, but not blocked:" if advisory else "Blocked:"
    ending = [
        check
        for check in verdict.checks
        if check.blocks and check.status is verdict.status
    ]
    if verdict.status is Status.PASS:
        return _passed(verdict, samples)
    if verdict.status is Status.ERROR:
        reason = _titled_reason(ending[0]) if ending else _capital(verdict.reason)
        is_unanswered = any(check.kind is CheckKind.ANSWERS for check in ending)
        return Headline(
            blocked if is_unanswered else f"{blocked} nothing is decided.", reason
        )
    if verdict.status is Status.INCONCLUSIVE:
        return _inconclusive(verdict, ending, answers, advisory=advisory)
    return _failed(verdict, ending, samples, blocked)


def _inconclusive(
    verdict: GateVerdict, ending: Sequence[Check], answers: int, *, advisory: bool
) -> Headline:
    lead = "Not blocked, but look:"
    if verdict.inconclusive_blocks and not advisory:
        lead = "Blocked: not settled."
    if not ending:
        return Headline(lead, _capital(verdict.reason))
    first = ending[0]
    if first.kind in _FACTS and not first.unsettled:
        return Headline(lead, _sentence(first))
    end = f"Asked {answers} times, not settled." if answers > 1 else "Not settled."
    return Headline(lead, f"{_sentence(first)} {end}")


def _failed(
    verdict: GateVerdict, failed: Sequence[Check], samples: int, blocked: str
) -> Headline:
    reasons = {check.name: _capital(check.reason) for check in failed}
    if (
        "system.answers" in reasons
    ):  # none, or the same to all: the causes of the samples only follow from that
        return Headline(blocked, reasons["system.answers"])
    attribution = None
    if any(check.kind in _EXPLAINED for check in failed):
        attribution = verdict.explanation.attribution
    if attribution is None or attribution.cause is None:
        return Headline(blocked, _reason_without_cause(verdict, failed, reasons))
    changed = verdict.is_compared
    outcome = _BROKE.get(attribution.side, "scores fell")
    if not changed:
        outcome = _FALLS_SHORT.get(attribution.side, "scores are too low")
    elif step := _broken_step(verdict):
        outcome = f"{step} broke"
    lead = f"{blocked} {outcome}."
    if (
        attribution.cause.cause in (Cause.EMPTY, Cause.EVASIVE)
        and "system.unanswered" in reasons
    ):
        return Headline(lead, reasons["system.unanswered"])
    sentence = cause_sentence(
        attribution.cause, verdict.explanation.retrieval, samples, changed=changed
    )
    if "questions.broken" in reasons:
        sentence = f"{sentence} {_changes(verdict)}."
    return Headline(lead, sentence)


def _broken_step(verdict: GateVerdict) -> str | None:
    """The turn, hop or tool that explains most of what got worse, if one does."""
    places = [
        finding.where or "" for finding in verdict.findings if finding.kind == STEPS
    ]
    return next(
        (place for place in places if place.startswith(("turn ", "hop ", "`"))), None
    )


def _reason_without_cause(
    verdict: GateVerdict, failed: Sequence[Check], reasons: Mapping[str, str]
) -> str:
    must_pass = [
        check.sample or "" for check in failed if check.kind is CheckKind.MUST_PASS
    ]
    if "system.error_rate" in reasons:
        return reasons["system.error_rate"]
    if len(must_pass) > 1:
        return (
            f"{counted(len(must_pass), 'must-pass sample')} failed: {some(must_pass)}."
        )
    if "questions.broken" in reasons:
        return reasons["questions.broken"]
    if not failed:
        return _capital(verdict.reason)
    return _sentence(failed[0])


def cause_sentence(
    cause: CauseCount,
    retrieval: RetrievalChanges | None,
    samples: int,
    *,
    changed: bool,
) -> str:
    """``The evidence is no longer retrieved for 105 of 115 questions.``

    It counts all samples that show it, which other sentences may count too.
    """
    shown = max(cause.count, cause.seen)
    if retrieval is not None and cause.cause == Cause.RANKED_LOW:
        shown = max(cause.count, len(retrieval.lower))
    text = catalogue()[Cause(cause.cause)]["changed" if changed else "short"]
    return text.format(of=f"{shown:,} of {counted(samples, 'question')}")


def _passed(verdict: GateVerdict, samples: int) -> Headline:
    alerts = "".join(f"{text} " for text in verdict.texts(Level.ALERT))
    if not verdict.is_compared:
        return Headline(
            f"{alerts}Passed, with nothing to compare with.", _capital(verdict.reason)
        )
    lead = "Nothing is shown to be worse."
    if any(check.failed and check.kind in _LOSSES for check in verdict.checks):
        lead = "Nothing that blocks is shown to be worse."
    counts = counted(samples, "question")
    changes = _changes(verdict)
    if changes is not None and changes.broken:
        lead = "Passed."
    if changes is not None and (changes.broken or changes.mended):
        counts = str(changes)
    return Headline(
        f"{alerts}{lead}",
        f"{_capital(counts)}{_sensitivity(verdict, samples)}.{_warned(verdict)}",
    )


def _warned(verdict: GateVerdict) -> str:
    """The checks that only warn and did not pass, as the end of a paragraph."""
    warnings = [
        check for check in verdict.checks if not check.blocks and not check.passed
    ]
    by_words = [check for check in warnings if check.by_words]
    by_facts = len(warnings) - len(by_words)
    text = ""
    if by_facts:
        text = f" {counted(by_facts, 'check that only warns', 'checks that only warn')} did not pass."
    return text + _by_words(by_words)


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
    return (
        f"; {broken} that break would show, and 4 of 5 losses of {points} in one metric"
    )


def _by_words(checks: Sequence[Check]) -> str:
    """`` By word comparison, faithfulness 1.00 → 0.92.``; nothing without such
    checks."""
    moves = {}
    for check in sorted(checks, key=lambda check: check.kind in CHANGES):
        name = (check.metric or "").replace("_", " ")
        moved = f"{score(check.baseline)} → {score(check.current)}"
        if check.baseline is None:
            moved = (
                f"{score(check.current)} ({check.kind} {bound(check.threshold or 0.0)})"
            )
        moves[check.metric] = f"{name} {moved}"
    if not moves:
        return ""
    return f" By word comparison, {', '.join(moves.values())}."


def _name(metric_name: str, tag: str | None) -> str:
    metric = find_metric(metric_name)
    title = metric_name if metric is None else metric.info.title
    if tag is None:
        return title
    return f"{title} on '{tag}'"


def _titled_reason(check: Check) -> str:
    """The reason, after the title of the metric that it is about."""
    if check.metric is None or check.short_reason is None:
        return _capital(check.reason)
    return f"{_name(check.metric, check.slice)}: {check.short_reason}"


def _sentence(check: Check) -> str:
    """A check as one sentence, counts and scores first; the reason of one that is not
    about a metric."""
    if check.metric is None or check.threshold is None or check.estimate is None:
        return _capital(check.reason)
    name = _name(check.metric, check.slice)
    on = f"on {counted(check.n, 'question')}"
    if check.kind in LEVELS:
        side = (
            "below its floor" if check.kind is CheckKind.FLOOR else "above its ceiling"
        )
        return f"{name} is {figure(check.estimate, check.threshold)} {on}, {side} of {bound(check.threshold)}."
    if check.kind not in CHANGES or check.baseline is None or check.current is None:
        return _capital(check.reason)
    moved = "fell" if check.kind is CheckKind.DROP else "rose"
    allowed = (
        f"at most {bound(abs(check.threshold))} is allowed"
        if check.threshold
        else "no loss is allowed"
    )
    return f"{name} {moved} from {score(check.baseline)} to {score(check.current)} {on}; {allowed}."


def _capital(text: str) -> str:
    first_word = text.partition(" ")[0]
    if "_" in first_word or "/" in first_word:
        return text
    return text[:1].upper() + text[1:]
