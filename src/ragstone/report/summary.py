"""Writes the summary that every report begins with: the verdict, what blocks, where to
look, and the worst example, cut to fit on one screen."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ragstone.formatting import counted
from ragstone.gate.findings import Level
from ragstone.gate.verdict import CheckKind, Status
from ragstone.report.escape import clip
from ragstone.report.filters import (
    PHRASES,
    importance,
    other_checks,
    sentence,
)
from ragstone.report.parts import Document, MetricPart, SamplePart
from ragstone.report.word_diff import Piece, word_diff

MAX_LINES = 20
"""Number of rendered lines above the fold of a comment that is 900 pixels wide."""

MAX_CHARACTERS = 1_500
"""Number of characters above the fold of a comment."""

_CHARACTERS_PER_LINE = 80
"""Width of a terminal; a line of a comment has a few more."""

GATE_CHANGE_PREFIX = "This change "
"""The beginning of a warning about a change to the rules of its own gate."""

_MIN_GATE_CHANGE_CHARACTERS = 75
"""Minimum length of each change to the gate that is named, so that even the smallest
summary can name four."""


class SummaryLimits(Struct, frozen=True):
    """How much a summary shows at most."""

    warnings: int
    """The number of warnings, and the number of alerts."""
    findings: int
    sentence_characters: int
    rows: int
    example_characters: int


SUMMARY_LIMITS = (
    SummaryLimits(3, 2, 400, 4, 500),
    SummaryLimits(3, 2, 220, 4, 360),
    SummaryLimits(3, 2, 150, 4, 220),
    SummaryLimits(3, 2, 110, 4, 150),
    SummaryLimits(2, 1, 110, 4, 120),
    SummaryLimits(2, 1, 110, 2, 0),
    SummaryLimits(2, 1, 100, 0, 0),
)
"""From most to least. With the last, a summary fits wherever line one does."""


class Example(Struct, frozen=True):
    """The worst sample."""

    sample: SamplePart
    question: str
    pieces: tuple[Piece, ...]
    """The answer, compared with the baseline's word by word."""
    lack: str
    """A statement of the reference, or else of the answer, that no context supports."""


class Summary(Struct, frozen=True):
    """The start of a report, as text that is not escaped yet."""

    headline: str
    alerts: Sequence[str]
    findings: Sequence[str]
    """What else blocks, apart from metrics."""
    look: str
    """The turn, hop, tool or half of the system to look at."""
    action: str
    """What to do."""
    since: str
    """What changed since the baseline."""
    warnings: Sequence[str]
    warnings_omitted: int
    folded: Sequence[str]
    """The alerts and warnings that are below the fold, in full."""
    rows: Sequence[MetricPart]
    """The metrics that don't pass."""
    other_metrics: str
    """A sentence on the metrics without a row."""
    usage: str
    """What an answer takes and costs."""
    example: Example | None

    def fits(self, max_lines: int) -> bool:
        """Whether the summary has at most `max_lines` and MAX_CHARACTERS when it is
        rendered."""
        texts = [
            self.headline,
            *self.alerts,
            *self.findings,
            f"{self.look} {self.action}",
            self.since,
            *self.warnings,
            self.other_metrics,
            self.usage,
        ]
        for row in self.rows:
            name = PHRASES["row_name"](row)[:70]
            scores = PHRASES["before_now"](row)
            texts.append(f"{name} {scores} {PHRASES['thresholds'](row)}")
        if self.example is not None:
            sample = self.example.sample
            place = str(sample.place)[:60]
            texts.append(f"{sample.id[:60]} {self.example.question} {place}")
            texts.append(" ".join(piece.text for piece in self.example.pieces))
            texts.append(self.example.lack)
        # Line one is a heading in a comment, and is printed twice in a terminal.
        lengths = map(len, [*texts, self.headline])
        lines = sum(math.ceil(length / _CHARACTERS_PER_LINE) for length in lengths)
        return lines <= max_lines and sum(map(len, texts)) <= MAX_CHARACTERS


def summary_of(report: Document, max_lines: int = MAX_LINES) -> Summary:
    """Return the most detailed summary that fits above the fold of a comment."""
    for limits in SUMMARY_LIMITS:
        summary = cut_summary(report, limits)
        if summary.fits(max_lines):
            break
    return summary


def cut_summary(report: Document, limits: SummaryLimits) -> Summary:
    """Return a summary that shows as much as `limits` allow."""
    max_characters = limits.sentence_characters
    alerts = list(map(sentence, report.alerts))
    warnings = list(map(sentence, report.texts(Level.WARNING)))
    gate_changes = [text for text in warnings if text.startswith(GATE_CHANGE_PREFIX)]
    other_warnings = [text for text in warnings if text not in gate_changes]
    # All changes to the gate are one warning, the second, which may be longer.
    count = limits.warnings - bool(gate_changes)
    shown_warnings = [cut(text, max_characters) for text in other_warnings[:count]]
    if gate_changes:
        warning = _join_gate_changes(gate_changes, 3 * max_characters)
        shown_warnings.insert(1, warning)
    asides = map(sentence, report.texts(Level.ASIDE))
    rows = [row for row in report.metrics if row.status not in (None, Status.PASS)]
    rows.sort(key=importance)
    findings = _findings(report, rows)[: limits.findings]
    other_metrics = PHRASES["other_metrics"](report, len(rows), limits.rows)
    example = None
    if report.samples.worst and limits.example_characters:
        example = _example(report.samples.worst[0], limits)
    is_pass = report.verdict.status is Status.PASS
    return Summary(
        headline=clip(report.verdict.headline, 300),
        alerts=[cut(text, max_characters) for text in alerts[: limits.warnings]],
        findings=[cut(text, max_characters) for text in findings],
        look=PHRASES["look"](report),
        action=cut(PHRASES["to_do"](report), max_characters),
        since="" if is_pass else cut(PHRASES["changes"](report), max_characters),
        warnings=shown_warnings,
        warnings_omitted=len(other_warnings[count:]),
        folded=[
            *alerts[limits.warnings :],
            *other_warnings[count:],
            *gate_changes,
            *asides,
        ],
        rows=rows[: limits.rows],
        other_metrics=cut(other_metrics, max_characters),
        usage=PHRASES["usage_changes"](report),
        example=example,
    )


def cut(text: str, length: int) -> str:
    """Return at most `length` characters of `text`: whole clauses if they fill a third of
    them, or else whole words."""
    if len(text) <= length:
        return text
    end = max(text.rfind(sign, 0, length) for sign in (". ", "; "))
    # A colon ends a clause too, but not soon after the last: then it follows a label.
    colon = text.rfind(": ", 0, length)
    if colon - end >= length / 3:
        end = colon
    if end >= length / 3:
        return f"{text[:end]}."
    words = text[: length - 1]
    return f"{words.rpartition(' ')[0] or words}…"


def _join_gate_changes(texts: Sequence[str], length: int) -> str:
    """Return one sentence for all changes to the gate: ``This change lowers …; removes …;
    and 3 more changes.``

    As many as fit are named, each cut to its share of `length`, so that a long one
    doesn't hide the next.
    """
    count = min(len(texts), length // _MIN_GATE_CHANGE_CHARACTERS)
    phrases = []
    for text in texts[:count]:
        phrase = text.removeprefix(GATE_CHANGE_PREFIX).rstrip(".")
        phrases.append(cut(phrase, length // count).rstrip("."))
    if count < len(texts):
        phrases.append(f"and {counted(len(texts) - count, 'more change')}")
    return f"{GATE_CHANGE_PREFIX}{'; '.join(phrases)}."


def _findings(report: Document, rows: Sequence[MetricPart]) -> list[str]:
    """Return why checks block that neither have one of `rows` nor are in line one: first
    that main is below its level."""
    metrics_in_rows = {row.metric for row in rows}
    texts: list[str] = []
    for check in other_checks(report.checks):
        is_drift = check.kind == CheckKind.DRIFT
        has_row = check.metric in metrics_in_rows and not is_drift
        if check.passed or not check.blocks or has_row:
            continue
        text = PHRASES["check_reason"](check)
        if check.sample is not None or check.kind == CheckKind.COVERAGE:
            text = f"{PHRASES['check_title'](check)}: {text}"
        # Line one leaves out what a limit allows.
        fact = sentence(check.reason).partition(" (at most ")[0].rstrip(".")
        if fact.lower() not in report.verdict.headline.lower():
            texts.insert(0 if is_drift else len(texts), text)
    return texts


def _example(sample: SamplePart, limits: SummaryLimits) -> Example:
    max_characters = limits.example_characters
    answer = " ".join(sample.answer.split())
    pieces: tuple[Piece, ...] = (Piece("same", clip(answer, max_characters)),)
    if sample.baseline_answer is not None and not sample.same_answer:
        pieces = word_diff(sample.baseline_answer, sample.answer, max_characters)
    lack = ""
    if sample.missing:
        lack = f"Missing from the contexts: {sample.missing[0]}"
    elif sample.unsupported:
        lack = f"Not in the contexts: {sample.unsupported[0].text}"
    return Example(
        sample,
        question=clip(sample.question, limits.sentence_characters),
        pieces=pieces,
        lack=clip(lack, limits.sentence_characters),
    )
