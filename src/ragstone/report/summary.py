"""What every report shows first, cut to a limited room: the verdict, what blocks, where to look, the worst example."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragstone import formatting
from ragstone.gate.findings import Level
from ragstone.gate.verdict import Action, CheckKind, Side, Status
from ragstone.report.escape import clip
from ragstone.report.filters import (
    before_now,
    changes,
    check_reason,
    check_title,
    figures,
    other_checks,
    row_name,
    sentence,
    severity,
    status_word,
    thresholds,
    usage_changes,
)
from ragstone.report.parts import Document, MetricPart, SamplePart
from ragstone.report.word_diff import Piece, word_diff

LINES = 20
CHARACTERS = 1_500
"""Above the first fold of a comment: rendered lines, 900 pixels wide, and characters."""

_WIDTH = 92
"""Characters of a comment's line at 900 pixels, with some to spare; a third less in line one, which is a heading."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much a summary shows: numbers of parts, and characters of a sentence and of the example."""

    warnings: int
    """Also the number of alerts."""
    findings: int
    text: int
    rows: int
    example: int


_UNCHECKED_SHOWN = 3
"""Metrics without a rule that are named with their scores, if none of them lost."""

SUBJECTS = ("This pull request ", "This merge ")
"""How a warning begins that says what a change does to its own gate."""

ROOMS = (
    Room(3, 2, 400, 4, 500),
    Room(3, 2, 220, 4, 360),
    Room(3, 2, 150, 4, 220),
    Room(3, 2, 110, 4, 150),
    Room(2, 1, 140, 4, 140),
    Room(2, 1, 110, 4, 120),
    Room(2, 1, 110, 3, 110),
    Room(2, 1, 100, 2, 100),
    Room(2, 1, 110, 2, 0),
    Room(2, 1, 100, 0, 0),
)
"""From most to least. The last fits wherever line one does."""


@dataclass(frozen=True, slots=True)
class Example:
    """The worst sample: the words of its answer, compared with the baseline's if that is another one."""

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
    alerts: tuple[str, ...]
    findings: tuple[str, ...]
    """What else blocks, apart from metrics."""
    look: str
    """The half of the system to look at."""
    action: str
    since: str
    """What changed since the baseline."""
    warnings: tuple[str, ...]
    warnings_omitted: int
    folded: tuple[str, ...]
    """Alerts and warnings for below the fold, in full."""
    rows: tuple[MetricPart, ...]
    """The metrics that do not pass."""
    other_metrics: str
    """A sentence on the metrics without a row."""
    usage: str
    """What an answer takes and costs."""
    example: Example | None

    @property
    def is_short(self) -> bool:
        """Whether it fits above the first fold of a comment."""
        lines, characters = self.size()
        return lines < LINES and characters <= CHARACTERS

    def size(self) -> tuple[int, int]:
        """Rendered lines in a comment that is 900 pixels wide, and characters."""
        texts = [*self.alerts, *self.findings, f"{self.look} {self.action}", self.since, *self.warnings]
        texts += [self.other_metrics, self.usage]
        if self.warnings_omitted:
            texts.append("and 10 more warnings")
        if self.example is not None:
            sample = self.example.sample
            texts.append(f"{sample.id[:60]} {self.example.question} {str(sample.place or '')[:60]}")
            texts.append(" ".join(piece.text for piece in self.example.pieces))
            lack = self.example.missing or self.example.unsupported
            texts.append(f"Missing from the contexts: {lack}" if lack else "")
        cells = [f"{row_name(row)[:70]}{before_now(row)}{' · '.join(thresholds(row))}.." for row in self.rows]
        if cells:
            cells.append("Metric Before → now Allowed")
        lines = math.ceil(1.5 * len(self.headline) / _WIDTH) + len(cells)
        lines += sum(math.ceil(len(text) / _WIDTH) for text in texts)
        return lines, len(self.headline) + sum(map(len, [*texts, *cells]))


def summaries(report: Document) -> Iterator[Summary]:
    """The summary of a report with less and less detail."""
    return (cut_summary(report, room) for room in ROOMS)


def summary_of(report: Document, first_room: int = 0) -> Summary:
    """The most detailed summary, from ``ROOMS[first_room]`` on, that fits above the first fold of a comment."""
    summary = cut_summary(report, ROOMS[first_room])
    for room in ROOMS[first_room + 1 :]:
        if summary.is_short:
            break
        summary = cut_summary(report, room)
    return summary


def cut_summary(report: Document, room: Room) -> Summary:
    """The summary that has its place in `room`."""
    look, action = _where(report)
    alerts = [sentence(text) for text in report.alerts]
    warnings, folded, omitted = _warnings(report, room)
    rows = _rows_that_do_not_pass(report)
    worst = report.samples.worst
    return Summary(
        headline=clip(report.verdict.headline, 300),
        alerts=tuple(cut(text, room.text) for text in alerts[: room.warnings]),
        findings=tuple(cut(text, room.text) for text in _findings(report, rows)[: room.findings]),
        look=look,
        action=cut(action, room.text),
        since=cut(changes(report), room.text) if _has_news_of_changes(report) else "",
        warnings=tuple(warnings),
        warnings_omitted=omitted,
        folded=(*alerts[room.warnings :], *folded),
        rows=tuple(rows[: room.rows]),
        other_metrics=_other_metrics(report, rows, room),
        usage=usage_changes(report),
        example=_example(worst[0], room) if worst and room.example else None,
    )


def cut(text: str, length: int) -> str:
    """At most `length` characters of `text`: whole parts of it if they say enough, or else whole words."""
    if len(text) <= length:
        return text
    ends = [match.start() for match in re.finditer(r"[.;:] ", text[:length])]
    if ends and ends[-1] >= length / 3:
        return f"{text[: ends[-1]]}."
    words = text[: length - 1]
    return f"{words.rpartition(' ')[0] or words}…"


def _has_news_of_changes(report: Document) -> bool:
    """Whether a run that does not pass changed in more than its code: that, who reads this knows."""
    changed = {change.what for change in report.explanation.changes}
    return report.verdict.status is not Status.PASS and bool(changed - {"code"})


def _warnings(report: Document, room: Room) -> tuple[list[str], list[str], int]:
    """The warnings that could change what a reader decides today; those for below the fold; how many have no room.

    What a change does to its own gate is in one of the first.
    """
    gate_changes, others = [], []
    for text in report.texts(Level.WARNING):
        if text.startswith(SUBJECTS):
            gate_changes.append(text)
        else:
            others.append(sentence(text))
    count = room.warnings - 1 if gate_changes else room.warnings
    shown = [cut(text, room.text) for text in others[:count]]
    folded = others[len(shown) :]
    omitted = len(folded)
    if gate_changes:
        shown.insert(1, _one_sentence(gate_changes, 2 * room.text))
    if len(gate_changes) > 1:
        folded += gate_changes
    return shown, [*folded, *map(sentence, report.texts(Level.ASIDE))], omitted


def _one_sentence(texts: Sequence[str], length: int) -> str:
    """Sentences of one subject as one: ``This pull request lowers …; removes …; and 3 more changes.``

    The changes that fit into `length` characters are named, at least one, and the others counted.
    """
    subject = next(subject for subject in SUBJECTS if texts[0].startswith(subject))
    changes = [text.removeprefix(subject).rstrip(".") for text in texts]
    shown = [cut(changes[0], length)]
    for change in changes[1:]:
        if sum(map(len, shown)) + len(change) > length:
            break
        shown.append(change)
    hidden = len(changes) - len(shown)
    if hidden:
        shown.append(f"and {formatting.counted(hidden, 'more change')}")
    return f"{subject}{'; '.join(shown)}."


def _where(report: Document) -> tuple[str, str]:
    """The half to look at, and the one thing to do."""
    status, attribution = report.verdict.status, report.explanation.attribution
    if status is Status.PASS:
        return "", ""
    failures = report.samples.failures
    crashed = status is Status.ERROR or (status is Status.FAIL and attribution is None)
    if failures and crashed:
        first = failures[0].samples[0]
        place = "" if first.place is None else f" ({first.place})"
        return "", f"The first one: {first.id}{place}."
    return ("", "") if attribution is None else (attribution.look, attribution.action)


def _findings(report: Document, rows: Sequence[MetricPart]) -> list[str]:
    """What else does not pass and blocks: that main is below its level, then all but metrics, which have rows.

    Where line one says of how many questions the evidence is lost, what the contexts lack is no news.
    """
    attribution = report.explanation.attribution
    names_lost_evidence = (
        attribution is not None and attribution.side is Side.RETRIEVAL and attribution.cause is not None
    )
    in_rows = {row.metric for row in rows}
    below_level, others = [], []
    for check in other_checks(report.checks):
        if check.status is Status.PASS or check.action is not Action.BLOCK:
            continue
        if names_lost_evidence and check.name.startswith(("system.fruitless", "system.misranked")):
            continue
        text = check_reason(check) if check.sample is None else f"{check_title(check)}: {check_reason(check)}"
        if check.kind == CheckKind.DRIFT:
            below_level.append(text)
        elif check.metric not in in_rows:
            others.append(text)
    texts = [*below_level[:1], *others]
    comparison = report.comparison
    if report.verdict.status is Status.ERROR and comparison is not None and not comparison.comparable:
        texts += map(sentence, (*comparison.notes, *report.texts(Level.NOTE)))
    line_one = report.verdict.headline.lower().replace("must-pass sample", "must pass:")
    return [text for text in texts if not _repeats(text, line_one)]


def _repeats(text: str, line_one: str) -> bool:
    """Whether line one says it: all of it, or the number of the questions that got worse."""
    counts = text.partition(" (at most ")[0]
    return counts.rstrip(".").lower() in line_one


def _rows_that_do_not_pass(report: Document) -> list[MetricPart]:
    """The metrics that don't pass, the worst first."""
    rows = [row for row in report.metrics if status_word(row) not in ("pass", "not gated")]
    return sorted(rows, key=lambda row: (severity(row), row.slice is not None))


def _other_metrics(report: Document, rows: Sequence[MetricPart], room: Room) -> str:
    """How many metrics have no row above; if none has, all that hold with their scores. Last, what no rule checks."""
    others = [row for row in report.metrics if row not in rows]
    passing = [row for row in others if row.status is not None]
    parts = []
    if len(rows) > room.rows:
        parts.append(f"{len(rows) - room.rows} more did not pass")
    if passing and rows:
        parts.append(f"{formatting.counted(len(passing), 'more metric')} held")
    elif passing:
        parts.append(formatting.listed([f"{row_name(row)} {figures(row).score}" for row in passing]))
    text = cut(f"{'; '.join(parts)}.", room.text) if parts else ""
    unchecked = [row for row in others if row.status is None]
    return f"{text} {_unchecked(unchecked, more=bool(rows or passing))}".strip() if unchecked else text


def _unchecked(rows: Sequence[MetricPart], *, more: bool) -> str:
    """``3 more are not checked (Answer relevancy 1.00 → 0.40).``: the one that lost most, or else the scores."""
    what = f"{len(rows)} more" if more else formatting.counted(len(rows), "metric")
    worst = max(rows, key=_loss)
    if _loss(worst) > 0.0:
        shown = f"{_short_title(worst)} {formatting.score(worst.baseline)} → {formatting.score(worst.current)}"
    else:
        shown = ", ".join(f"{_short_title(row)} {figures(row).score}" for row in rows[:_UNCHECKED_SHOWN])
    return f"{what} {'is' if len(rows) == 1 else 'are'} not checked ({shown})."


def _short_title(row: MetricPart) -> str:
    return clip(row.title, 30)


def _loss(row: MetricPart) -> float:
    if row.current is None or row.baseline is None:
        return 0.0
    change = row.current - row.baseline
    return change if row.lower_is_better else -change


def _example(sample: SamplePart, room: Room) -> Example:
    before = sample.baseline_answer
    pieces: tuple[Piece, ...] = (Piece("same", clip(" ".join(sample.answer.split()), room.example)),)
    if before is not None and not sample.same_answer:
        pieces = word_diff(before, sample.answer, room.example)
    return Example(
        sample=sample,
        question=clip(sample.question, room.text),
        pieces=pieces,
        missing=clip(sample.missing[0], room.text) if sample.missing else "",
        unsupported=clip(sample.unsupported[0].text, room.text) if sample.unsupported else "",
    )
