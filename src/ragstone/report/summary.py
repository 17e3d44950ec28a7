"""What every report shows first, cut to a limited room: the verdict, what blocks, where
to look, the worst example."""

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

LINES = 20
CHARACTERS = 1_500
"""Above the first fold of a comment: rendered lines, 900 pixels wide, and
characters."""

_WIDTH = 80
"""Characters of a line of a terminal; of a comment's line at 900 pixels, with some to
spare."""

SUBJECT = "This change "
"""How a warning begins that says what a change does to its own gate."""
_MIN_CHANGE = 75
"""Characters that each named change of the gate has at least: four of them in the
smallest room."""


class Room(Struct, frozen=True):
    """How much a summary shows: numbers of parts, and characters of a sentence and of
    the example."""

    warnings: int
    """Also the number of alerts."""
    findings: int
    text: int
    rows: int
    example: int


ROOMS = (
    Room(3, 2, 400, 4, 500),
    Room(3, 2, 220, 4, 360),
    Room(3, 2, 150, 4, 220),
    Room(3, 2, 110, 4, 150),
    Room(2, 1, 110, 4, 120),
    Room(2, 1, 110, 2, 0),
    Room(2, 1, 100, 0, 0),
)
"""From most to least. The last fits wherever line one does."""


class Example(Struct, frozen=True):
    """The worst sample: the words of its answer, compared with the baseline's if that
    is another one."""

    sample: SamplePart
    question: str
    pieces: tuple[Piece, ...]
    lack: str
    """What no context has of the reference, or else of the answer."""


class Summary(Struct, frozen=True):
    """The start of a report: raw text, cut to a `Room`."""

    headline: str
    alerts: Sequence[str]
    findings: Sequence[str]
    """What else blocks, apart from metrics."""
    look: str
    """The turn, hop, tool or half of the system to look at."""
    action: str
    since: str
    """What changed since the baseline."""
    warnings: Sequence[str]
    warnings_omitted: int
    folded: Sequence[str]
    """Alerts and warnings for below the fold, in full."""
    rows: Sequence[MetricPart]
    """The metrics that do not pass."""
    other_metrics: str
    """A sentence on the metrics without a row."""
    usage: str
    """What an answer takes and costs."""
    example: Example | None

    def size(self) -> tuple[int, int]:
        """Rendered lines, and characters."""
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
        # Line one is a heading in a comment, and stands at both ends in a terminal.
        lengths = map(len, [*texts, self.headline])
        lines = sum(math.ceil(length / _WIDTH) for length in lengths)
        return lines, sum(map(len, texts))


def summary_of(report: Document, max_lines: int = LINES) -> Summary:
    """The most detailed summary that fits above the first fold of a comment."""
    for room in ROOMS:
        summary = cut_summary(report, room)
        lines, characters = summary.size()
        if lines <= max_lines and characters <= CHARACTERS:
            break
    return summary


def cut_summary(report: Document, room: Room) -> Summary:
    """The summary that has its place in `room`."""
    alerts = list(map(sentence, report.alerts))
    warnings = list(map(sentence, report.texts(Level.WARNING)))
    gate_changes = [text for text in warnings if text.startswith(SUBJECT)]
    other_warnings = [text for text in warnings if not text.startswith(SUBJECT)]
    count = room.warnings - bool(gate_changes)
    shown = [cut(text, room.text) for text in other_warnings[:count]]
    if gate_changes:
        shown.insert(1, _one_sentence(gate_changes, 3 * room.text))
    asides = map(sentence, report.texts(Level.ASIDE))
    rows = [row for row in report.metrics if row.status not in (None, Status.PASS)]
    rows.sort(key=importance)
    findings = _findings(report, rows)[: room.findings]
    others_said = PHRASES["other_metrics"](report, len(rows), room.rows)
    example = None
    if report.samples.worst and room.example:
        example = _example(report.samples.worst[0], room)
    is_pass = report.verdict.status is Status.PASS
    return Summary(
        headline=clip(report.verdict.headline, 300),
        alerts=[cut(text, room.text) for text in alerts[: room.warnings]],
        findings=[cut(text, room.text) for text in findings],
        look=PHRASES["look"](report),
        action=cut(PHRASES["to_do"](report), room.text),
        since="" if is_pass else cut(PHRASES["changes"](report), room.text),
        warnings=shown,
        warnings_omitted=len(other_warnings[count:]),
        folded=[
            *alerts[room.warnings :],
            *other_warnings[count:],
            *gate_changes,
            *asides,
        ],
        rows=rows[: room.rows],
        other_metrics=cut(others_said, room.text),
        usage=PHRASES["usage_changes"](report),
        example=example,
    )


def cut(text: str, length: int) -> str:
    """At most `length` characters of `text`: whole parts of it if they say enough, or
    else whole words."""
    if len(text) <= length:
        return text
    end = max(text.rfind(sign, 0, length) for sign in (". ", "; "))
    detail = text.rfind(": ", 0, length)
    if detail - end >= length / 3:  # else it follows a label
        end = detail
    if end >= length / 3:
        return f"{text[:end]}."
    words = text[: length - 1]
    return f"{words.rpartition(' ')[0] or words}…"


def _one_sentence(texts: Sequence[str], length: int) -> str:
    """What a change does to its own gate as one sentence: ``This change lowers …;
    removes …; and 3 more changes.``

    As many changes as have place are named, each cut to its share, so that no long one
    hides the next.
    """
    count = min(len(texts), length // _MIN_CHANGE)
    phrases = []
    for text in texts[:count]:
        phrase = text.removeprefix(SUBJECT).rstrip(".")
        phrases.append(cut(phrase, length // count).rstrip("."))
    if count < len(texts):
        phrases.append(f"and {counted(len(texts) - count, 'more change')}")
    return f"{SUBJECT}{'; '.join(phrases)}."


def _findings(report: Document, rows: Sequence[MetricPart]) -> list[str]:
    """What else does not pass and blocks: that main is below its level, then all but
    the metrics that have one of `rows`, and what line one says."""
    in_rows = {row.metric for row in rows}
    texts: list[str] = []
    for check in other_checks(report.checks):
        is_drift = check.kind == CheckKind.DRIFT
        has_row = check.metric in in_rows and not is_drift
        if check.passed or not check.blocks or has_row:
            continue
        text = PHRASES["check_reason"](check)
        if check.sample is not None or check.kind == CheckKind.COVERAGE:
            text = f"{PHRASES['check_title'](check)}: {text}"
        # Line one doesn't say what a limit allows.
        fact = sentence(check.reason).partition(" (at most ")[0].rstrip(".")
        if fact.lower() not in report.verdict.headline.lower():
            texts.insert(0 if is_drift else len(texts), text)
    return texts


def _example(sample: SamplePart, room: Room) -> Example:
    before = sample.baseline_answer
    answer = " ".join(sample.answer.split())
    pieces: tuple[Piece, ...] = (Piece("same", clip(answer, room.example)),)
    if before is not None and before != sample.answer:
        pieces = word_diff(before, sample.answer, room.example)
    lack = ""
    if sample.missing:
        lack = f"Missing from the contexts: {sample.missing[0]}"
    elif sample.unsupported:
        lack = f"Not in the contexts: {sample.unsupported[0].text}"
    return Example(
        sample, clip(sample.question, room.text), pieces, clip(lack, room.text)
    )
