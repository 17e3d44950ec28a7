"""What every report shows first, cut to a limited room: the verdict, what blocks, where
to look, the worst example."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.formatting import counted
from ragstone.gate.findings import STEPS, Level
from ragstone.gate.verdict import CheckKind, Side, Status
from ragstone.report.escape import clip
from ragstone.report.filters import (
    PHRASES,
    before_now,
    changes,
    check_reason,
    importance,
    other_checks,
    row_name,
    sentence,
    thresholds,
    usage_changes,
)
from ragstone.report.parts import Document, MetricPart, SamplePart
from ragstone.report.word_diff import Piece, word_diff

LINES = 20
CHARACTERS = 1_500
"""Above the first fold of a comment: rendered lines, 900 pixels wide, and
characters."""

_WIDTH = 92
"""Characters of a comment's line at 900 pixels, with some to spare; a third less in
line one, which is a heading."""

SUBJECTS = ("This pull request ", "This merge ")
"""How a warning begins that says what a change does to its own gate."""
_PART_ENDS = re.compile("[.;:] ")
_LACKING_CONTEXTS = ("system.fruitless", "system.misranked")
"""Checks of answers whose contexts have no evidence, or have it too low."""
_MIN_CHANGE = 75
"""Characters that each named change of the gate has at least: four of them in the
smallest room."""


@dataclass(frozen=True, slots=True)
class Room:
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


@dataclass(frozen=True, slots=True)
class Example:
    """The worst sample: the words of its answer, compared with the baseline's if that
    is another one."""

    sample: SamplePart
    question: str
    pieces: tuple[Piece, ...]
    missing: str
    """What no context has of the reference."""
    unsupported: str
    """What no context has of the answer; shown if nothing is missing."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The start of a report: raw text, cut to a `Room`."""

    headline: str
    alerts: Sequence[str]
    findings: Sequence[str]
    """What else blocks, apart from metrics."""
    look: str
    """The turn, hop, tool or half of the system to look at."""
    action: str
    trace: Sequence[str]
    """Where the system raised the error of the first sample without an answer: for a
    terminal."""
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
        """Rendered lines in a comment that is 900 pixels wide, and characters."""
        texts = [
            *self.alerts,
            *self.findings,
            f"{self.look} {self.action}",
            self.since,
            *self.warnings,
            self.other_metrics,
            self.usage,
            "Metric Before → now Allowed",
        ]
        for row in self.rows:
            allowed = " · ".join(thresholds(row))
            texts.append(f"{row_name(row)[:70]} {before_now(row)} {allowed}")
        if self.example is not None:
            sample = self.example.sample
            place = str(sample.place)[:60]
            texts += [
                f"{sample.id[:60]} {self.example.question} {place}",
                " ".join(piece.text for piece in self.example.pieces),
                f"Missing from the contexts: {self.example.missing or self.example.unsupported}",
            ]
        lines = math.ceil(1.5 * len(self.headline) / _WIDTH)
        lines += sum(math.ceil(len(text) / _WIDTH) for text in texts)
        return lines, len(self.headline) + sum(map(len, texts))


def summary_of(report: Document, first_room: int = 0) -> Summary:
    """The most detailed summary, from ``ROOMS[first_room]`` on, that fits above the
    first fold of a comment."""
    for room in ROOMS[first_room:-1]:
        summary = cut_summary(report, room)
        lines, characters = summary.size()
        if lines < LINES and characters <= CHARACTERS:
            return summary
    return cut_summary(report, ROOMS[-1])


def cut_summary(report: Document, room: Room = ROOMS[0]) -> Summary:
    """The summary that has its place in `room`."""
    look, action = _where(report)
    status = report.verdict.status
    alerts = [sentence(text) for text in report.alerts]
    warnings = [sentence(text) for text in report.texts(Level.WARNING)]
    gate_changes = [text for text in warnings if text.startswith(SUBJECTS)]
    others = [text for text in warnings if not text.startswith(SUBJECTS)]
    count = room.warnings - bool(gate_changes)
    shown = [cut(text, room.text) for text in others[:count]]
    if gate_changes:
        shown.insert(1, _one_sentence(gate_changes, 3 * room.text))
    asides = map(sentence, report.texts(Level.ASIDE))
    rows = [row for row in report.metrics if row.status not in (None, Status.PASS)]
    rows.sort(key=importance)
    trace: Sequence[str] = ()
    if status in (Status.FAIL, Status.ERROR):
        traces = (failure.trace for failure in report.samples.failures)
        trace = next(filter(None, traces), ())
    example = None
    if report.samples.worst and room.example:
        example = _example(report.samples.worst[0], room)
    return Summary(
        headline=clip(report.verdict.headline, 300),
        alerts=[cut(text, room.text) for text in alerts[: room.warnings]],
        findings=[
            cut(text, room.text) for text in _findings(report, rows)[: room.findings]
        ],
        look=look,
        action=cut(action, room.text),
        trace=trace,
        since="" if status is Status.PASS else cut(changes(report), room.text),
        warnings=shown,
        warnings_omitted=len(others[count:]),
        folded=[*alerts[room.warnings :], *others[count:], *gate_changes, *asides],
        rows=rows[: room.rows],
        other_metrics=cut(_other_metrics(report, len(rows), room), room.text),
        usage=usage_changes(report),
        example=example,
    )


def _where(report: Document) -> tuple[str, str]:
    """The turn, hop, tool or half to look at, and the one thing to do; or else the
    first sample without a score."""
    status = report.verdict.status
    for finding in report.findings:
        if finding.kind == STEPS and finding.where is not None:
            return f"Look at {finding.where} first.", ""
    attribution = report.explanation.attribution
    if attribution is not None and status is not Status.PASS:
        return attribution.look, attribution.action
    if report.samples.failures and status in (Status.FAIL, Status.ERROR):
        first = report.samples.failures[0].samples[0]
        place = "" if first.place is None else f" ({first.place})"
        return "", f"The first one: {first.id}{place}."
    return "", ""


def cut(text: str, length: int) -> str:
    """At most `length` characters of `text`: whole parts of it if they say enough, or
    else whole words."""
    if len(text) <= length:
        return text
    end = 0
    sentence_start = 0
    for match in _PART_ENDS.finditer(text[:length]):
        is_label = match[0] == ": " and match.start() - sentence_start < length / 3
        if not is_label:
            end = match.start()
        if match[0] == ". ":
            sentence_start = match.end()
    if end >= length / 3:
        return f"{text[:end]}."
    words = text[: length - 1]
    return f"{words.rpartition(' ')[0] or words}…"


def _one_sentence(texts: Sequence[str], length: int) -> str:
    """Sentences of one subject as one: ``This pull request lowers …; removes …; and 3
    more changes.``

    As many changes as have place are named, each cut to its share, so that no long one
    hides the next.
    """
    subject = next(subject for subject in SUBJECTS if texts[0].startswith(subject))
    count = min(len(texts), length // _MIN_CHANGE)
    phrases = [
        cut(text.removeprefix(subject).rstrip("."), length // count).rstrip(".")
        for text in texts[:count]
    ]
    if count < len(texts):
        phrases.append(f"and {counted(len(texts) - count, 'more change')}")
    return f"{subject}{'; '.join(phrases)}."


def _findings(report: Document, rows: Sequence[MetricPart]) -> list[str]:
    """What else does not pass and blocks: that main is below its level, then all but
    the metrics that have one of `rows`.

    Line one is not repeated, nor what the contexts lack where it names the retrieval.
    """
    attribution = report.explanation.attribution
    points_at_retrieval = attribution is not None and attribution.side is Side.RETRIEVAL
    in_rows = {row.metric for row in rows}
    blocking = [
        check
        for check in other_checks(report.checks)
        if check.blocks and not check.passed
    ]
    texts: list[str] = []
    for check in blocking:
        text = check_reason(check)
        if check.sample is not None or check.kind == CheckKind.COVERAGE:
            text = f"{PHRASES['check_title'](check)}: {text}"
        if check.kind == CheckKind.DRIFT:
            texts.insert(0, text)
        elif points_at_retrieval and check.name.startswith(_LACKING_CONTEXTS):
            continue
        elif check.metric not in in_rows:
            texts.append(text)
    comparison = report.comparison
    is_error = report.verdict.status is Status.ERROR
    if is_error and comparison is not None and not comparison.comparable:
        texts += map(sentence, (*comparison.notes, *report.texts(Level.NOTE)))
    line_one = report.verdict.headline.lower().replace("must-pass sample", "must pass:")
    # Line one doesn't say what a limit allows.
    statements = [text.partition(" (at most ")[0].rstrip(".").lower() for text in texts]
    return [
        text
        for text, statement in zip(texts, statements, strict=True)
        if statement not in line_one
    ]


def _other_metrics(report: Document, not_passing: int, room: Room) -> str:
    """How many metrics have no row above; if none has, all that hold with their scores.
    Last, what no rule checks."""
    passing = [row for row in report.metrics if row.status is Status.PASS]
    unchecked = [row for row in report.metrics if row.status is None]
    unchecked.sort(key=_loss, reverse=True)
    return PHRASES["other_metrics"](
        omitted=not_passing - room.rows,
        passing=passing,
        has_rows=not_passing > 0,
        unchecked=unchecked,
        lost=bool(unchecked) and _loss(unchecked[0]) > 0.0,
    )


def _loss(row: MetricPart) -> float:
    change = row.change or 0.0
    if row.lower_is_better:
        return change
    return -change


def _example(sample: SamplePart, room: Room) -> Example:
    before = sample.baseline_answer
    answer = " ".join(sample.answer.split())
    pieces: tuple[Piece, ...] = (Piece("same", clip(answer, room.example)),)
    if before is not None and before != sample.answer:
        pieces = word_diff(before, sample.answer, room.example)
    missing = sample.missing[0] if sample.missing else ""
    unsupported = sample.unsupported[0].text if sample.unsupported else ""
    return Example(
        sample=sample,
        question=clip(sample.question, room.text),
        pieces=pieces,
        missing=clip(missing, room.text),
        unsupported=clip(unsupported, room.text),
    )
