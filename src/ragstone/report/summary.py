"""What every report shows first: the verdict, where to look, what changed and the worst example, in a limited room."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ragstone import formatting
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Side, Status
from ragstone.report import escape, wording
from ragstone.report.parts import MetricRow, ReportView, SamplePart
from ragstone.report.rows import check_reason, check_title, severity
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
    findings: int
    text: int
    rows: int
    example: int


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
class ChangedRow:
    """A metric that does not pass: before and now, and what is allowed. `word` is its status."""

    word: str
    title: str
    slice: str | None
    moved: str
    threshold: str

    @property
    def name(self) -> str:
        return self.title if self.slice is None else f"{self.title} · {self.slice}"


@dataclass(frozen=True, slots=True)
class Example:
    """The worst sample: the words of its answer, compared with the baseline's if there is one (`compared`).

    `missing` is what no context has of the reference; without that, `unsupported` is what none has of the answer.
    """

    sample: SamplePart
    question: str
    pieces: tuple[Piece, ...]
    compared: bool
    missing: str
    unsupported: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Raw text, cut to a `Room`. `since` is what changed since the baseline, `folded` are warnings for below the fold,
    `held` is about metrics without a row, `usage` about what an answer takes and costs.
    """

    headline: str
    look: str
    action: str
    since: str
    warnings: tuple[str, ...]
    warnings_left: int
    folded: tuple[str, ...]
    findings: tuple[str, ...]
    rows: tuple[ChangedRow, ...]
    held: str
    usage: str
    example: Example | None

    def size(self) -> tuple[int, int]:
        """Rendered lines in a comment that is 900 pixels wide, and characters."""
        texts = [f"{self.look} {self.action}", self.since, *self.warnings, *self.findings, self.held, self.usage]
        texts += ["and 10 more warnings"] if self.warnings_left else []
        if self.example is not None:
            found = self.example
            place = str(found.sample.place or "")[:60]
            texts.append(f"{found.sample.id[:60]} {found.question} {place}")
            texts.append(" ".join(piece.text for piece in found.pieces))
            lacks = found.missing or found.unsupported
            texts.append(f"Missing from the contexts: {lacks}" if lacks else "")
        cells = [f"{row.name}{row.moved}{row.threshold}.." for row in self.rows]
        cells += ["Metric Before → now Allowed"] if self.rows else []
        lines = math.ceil(1.5 * len(self.headline) / _WIDTH) + len(cells)
        lines += sum(math.ceil(len(text) / _WIDTH) for text in texts)
        return lines, len(self.headline) + sum(map(len, [*texts, *cells]))


def summaries(view: ReportView) -> Iterator[Summary]:
    """The summary of `view` with less and less detail."""
    return (_summary(view, room) for room in ROOMS)


def summary_of(view: ReportView, least: int = 0) -> Summary:
    """The most detailed summary, from ``ROOMS[least]`` on, that fits above the first fold of a comment."""
    found = list(summaries(view))[least:]
    sizes = [one.size() for one in found]
    fits = [one for one, (lines, size) in zip(found, sizes, strict=True) if lines < LINES and size <= CHARACTERS]
    return fits[0] if fits else found[-1]


def _summary(view: ReportView, room: Room) -> Summary:
    look, action = _where(view)
    warnings, folded, left = _warnings(view, room)
    news = _news(view)
    # That the code is another one, who reads this knows.
    other = view.status is not Status.PASS and any(one.what != "code" for one in view.changes)
    return Summary(
        headline=escape.clip(str(view.headline), 300),
        look=look,
        action=_cut(action, room.text),
        since=_cut(view.changed, room.text) if other else "",
        warnings=tuple(warnings),
        warnings_left=left,
        folded=tuple(folded),
        findings=tuple(_cut(one, room.text) for one in _findings(view, news))[: room.findings],
        rows=tuple(_changed(row, view.checks) for row in news[: room.rows]),
        held=_cut(_held(view, news, room.rows), room.text),
        usage=view.usage,
        example=_example(view.worst[0], room) if view.worst and room.example else None,
    )


def _cut(text: str, length: int) -> str:
    """At most `length` characters of `text`: whole parts of it if they say enough, or else whole words."""
    if len(text) <= length:
        return text
    ends = [found.start() for found in re.finditer(r"[.;:] ", text[:length])]
    if ends and ends[-1] >= length / 3:
        return f"{text[: ends[-1]]}."
    return f"{text[: length - 1].rpartition(' ')[0] or text[: length - 1]}…"


def _warnings(view: ReportView, room: Room) -> tuple[list[str], list[str], int]:
    """The warnings that could change what a reader decides today; those for below the fold; how many have no room.

    What a change does to its own gate is in one of the first.
    """
    found = view.warnings[: len(view.warnings) - view.asides]
    changes = [one for one in found if one.startswith(SUBJECTS)]
    others = [wording.sentence(one) for one in found if one not in changes]
    shown = [_cut(one, room.text) for one in others[: room.warnings - bool(changes)]]
    folded = [*others[len(shown) :], *(changes if len(changes) > 1 else [])]
    left = len(others) - len(shown)
    if changes:
        shown.insert(1, _one_change(changes, 2 * room.text))
    return shown, [*folded, *map(wording.sentence, view.warnings[len(found) :])], left


def _one_change(changes: Sequence[str], length: int) -> str:
    """Sentences of one subject as one sentence, with as many as fit into `length`, at least one; none takes all."""
    subject = next(one for one in SUBJECTS if changes[0].startswith(one))
    most = length if len(changes) == 1 else length // 2
    said = [_cut(one.removeprefix(subject).rstrip("."), most) for one in changes]
    shown = max(1, sum(end <= length for end in accumulate(len(one) + 2 for one in said)))
    more = [f"and {formatting.counted(len(said) - shown, 'more change')}"] if shown < len(said) else []
    return f"{subject}{'; '.join([*said[:shown], *more])}."


def _where(view: ReportView) -> tuple[str, str]:
    """The half to look at, and the one thing to do."""
    crashed = view.status is Status.FAIL and view.attribution is None
    if view.failures and (view.status is Status.ERROR or crashed):
        first = view.failures[0].samples[0]
        return "", f"The first one: {first.id}{'' if first.place is None else f' ({first.place})'}."
    if view.attribution is None or view.status is Status.PASS:
        return "", ""
    return view.attribution.look, view.attribution.action


def _findings(view: ReportView, news: Sequence[MetricRow]) -> list[str]:
    """What else does not pass and blocks: that main is below its level, then all but metrics, which have rows.

    Where line one says of how many questions the evidence is lost, what the contexts lack is no news.
    """
    said, rows = str(view.headline).lower(), {row.metric for row in news}
    bad = [row.check for row in view.check_rows if row.check.status is not Status.PASS]
    if view.attribution is not None and view.attribution.side is Side.RETRIEVAL and view.attribution.cause is not None:
        bad = [one for one in bad if not one.name.startswith(("system.fruitless", "system.misranked"))]
    below = [one for one in bad if one.kind is CheckKind.DRIFT][:1]
    found = [
        f"{check_title(check)}: {check_reason(check)}" if check.sample is not None else check_reason(check)
        for check in (*below, *(one for one in bad if one.kind is not CheckKind.DRIFT and one.metric not in rows))
        if check.action is Action.BLOCK
    ]
    if view.status is Status.ERROR and view.comparison is not None and not view.comparison.comparable:
        found += map(wording.sentence, (*view.comparison.notes, *view.notes))
    return [one for one in found if one.rstrip(".").lower() not in said.replace("must-pass sample", "must pass:")]


def _news(view: ReportView) -> list[MetricRow]:
    """The rows that don't pass, the worst first."""
    shown = [row for row in view.metrics if wording.status_word(row.status, row.action) not in ("pass", "not gated")]
    return sorted(shown, key=lambda row: (severity(row.status, row.action), row.slice is not None))


def _changed(row: MetricRow, checks: Sequence[Check]) -> ChangedRow:
    """A row before and now, on the samples that both runs have."""
    pairs = (one for one in checks if one.kind in CHANGES and (one.metric, one.slice) == (row.metric, row.slice))
    found = next((one for one in pairs if one.current is not None and one.baseline is not None), None)
    now = formatting.score(row.score if found is None else found.current)
    return ChangedRow(
        word=wording.status_word(row.status, row.action),
        title=escape.clip(row.title, 40),
        slice=None if row.slice is None else escape.clip(row.slice, 30),
        moved=now if found is None else f"{formatting.score(found.baseline)} → {now}",
        threshold=" · ".join(wording.thresholds(row)),
    )


def _held(view: ReportView, news: Sequence[MetricRow], shown: int) -> str:
    """How many metrics have no row above."""
    more = [f"{len(news) - shown} more did not pass"] if len(news) > shown else []
    held = len(view.metrics) - len(news)
    if held:
        names = formatting.listed([f"{wording.row_name(row)} {wording.figures(row).score}" for row in view.metrics])
        more.append(f"{formatting.counted(held, 'more metric' if news else 'metric')} held" if news else names)
    return f"{'; '.join(more)}." if more else ""


def _example(sample: SamplePart, room: Room) -> Example:
    before = sample.baseline_answer
    compared = before is not None and before != sample.answer
    clipped = Piece("same", escape.clip(" ".join(sample.answer.split()), room.example))
    return Example(
        sample=sample,
        question=escape.clip(sample.question, room.text),
        pieces=word_diff(before, sample.answer, room.example) if compared and before is not None else (clipped,),
        compared=compared,
        missing=escape.clip(sample.missing[0], room.text) if sample.missing else "",
        unsupported=escape.clip(sample.unsupported[0].text, room.text) if sample.unsupported else "",
    )
