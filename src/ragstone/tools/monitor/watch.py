"""Watch logged interactions: read what is new, decide the windows that are over, and compare them."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path

from pydantic import TypeAdapter

from ragstone.errors import ConfigError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.judge.offline.statements import answer_abstains
from ragstone.metrics.registry import find_metric
from ragstone.settings.settings import Settings
from ragstone.tools.monitor.alerts_file import AlertsTable, Windows, zone_of
from ragstone.tools.monitor.drafts import add_drafts, check_drafts_file
from ragstone.tools.monitor.figures import KINDS, Window, figures_of, kind_of
from ragstone.tools.monitor.interaction import BadRecord, Interaction, Problem, Reader
from ragstone.tools.monitor.logs import Damaged, Head, Line, Log, Place, is_table, whole_records
from ragstone.tools.monitor.outcome import LogRead, Monitored, watch_figures
from ragstone.tools.monitor.scoring import OneProgress, payload_of, summarise
from ragstone.tools.monitor.state import Row, State
from ragstone.tools.monitor.traces import interactions_of, is_trace
from ragstone.tools.monitor.versions import compare_versions

KEY_VARIABLE = "RAGSTONE_MONITOR_KEY"
_BATCH = 2000
_WINDOW = TypeAdapter(Window)
_AHEAD = timedelta(hours=1)
_BEHIND = timedelta(days=800)


async def monitor(
    paths: Sequence[str],
    table: AlertsTable,
    settings: Settings,
    context: RunContext,
    *,
    state_file: Path,
    out: Path,
    where: str = "alerts.toml",
    notify: Callable[[Monitored], bool] | None = None,
    drafts: Path | None = None,
) -> Monitored:
    """Read the logs `paths`, decide all windows that are over, and compare the newest with those before.

    `paths` are files and globs. The sample of each window is scored by the judge in `settings` and kept as a run in
    `out`, or nowhere if texts are private. Raises ConfigError if a named log is missing, and what rescoring raises:
    then the window is not decided, and the next job tries again. `notify` is called when other alerts last than when it
    was sent last, or at every job with an alert, as the rules say; it returns whether the message arrived. Bad and
    unusual cases of the decided windows are added to the file `drafts`, once; see `app.drafts.production`.
    """
    if drafts is not None:
        check_drafts_file(drafts, table, settings, where)
    for name, rule in table.alerts.items():
        if name not in KINDS and name not in settings.metrics and find_metric(name) is None:
            raise ConfigError(
                f"'alerts.{name}' is neither a figure nor a metric.",
                where=where,
                hint="See the names in docs/monitoring.md, or run `ragstone monitor` to list them.",
            )
        for side, line in rule.lines.items():
            if line > 1.0 and kind_of(name).form in ("share", "score"):
                raise ConfigError(f"'alerts.{name}.{side}' must be at most 1, a share, found {line:g}.", where=where)
    files = _files(paths)
    windows = Windows(table.windows.length, zone_of(table.windows.timezone))
    now = context.now().astimezone(UTC)
    terms = {"length": table.windows.length, "timezone": table.windows.timezone}
    with closing(State(state_file, terms=terms, candidates=table.sample.size, now=now)) as state:
        key = context.environ.get(KEY_VARIABLE, "").strip().encode()
        reader = Reader(table.logs.columns, _hasher(key or state.salt), good_from=table.logs.good_feedback)
        job = _Job(state, table, windows, reader, now, dict.fromkeys(state.decided_names()))
        logs = tuple(job.read(path) for path in files)
        decided, runs = [], []
        with closing(OneProgress(context.progress)) as progress:
            each = replace(context.quiet(), progress=progress)
            for name in job.over():
                window, worst, places = await summarise(state, name, table, settings, each, out)
                state.decide(name, asdict(window) | {"worst": worst}, now)
                decided.append(name)
                runs += places
        known = tuple(_WINDOW.validate_python({"name": name} | found) for name, found in state.decided().items())
        if known:
            state.forget(windows.after(known[-1].name, -table.windows.keep))
        slow_s = table.windows.slow_s
        running = tuple(Window(name, figures_of(state, name, slow_s=slow_s)) for name in state.open_windows())
        made = None
        if drafts is not None:
            made = add_drafts(
                drafts, decided, state=state, table=table, settings=settings, redact=context.redact,
                reader=reader, lines=lambda: chain.from_iterable(map(job.lines, files)),
            )  # fmt: skip
        figures = watch_figures(known, table, per_year=windows.per_year)
        found = Monitored(
            logs, known, tuple(decided), figures, running, table.windows.length, table.windows.timezone,
            notes=tuple(f"{one.kind.title} has a new anchor: {one.restarted}." for one in figures if one.restarted),
            runs=tuple(runs),
            empty=bool(known) and known[-1].figures["interactions"].value == 0.0,
            drafts=made,
            versions=compare_versions(known[-table.windows.anchor :]),
        )  # fmt: skip
        if notify is not None:
            often = table.webhook.when == "alerts" and found.lasting
            if (often or found.lasting != state.note("told")) and notify(found):
                state.write_note("told", found.lasting)
        return found


@dataclass(frozen=True, slots=True)
class _Job:
    state: State
    table: AlertsTable
    windows: Windows
    reader: Reader
    now: datetime
    decided: Mapping[str, None]
    """The decided windows, oldest first."""

    def read(self, path: Path) -> LogRead:
        """Read what is new in a log. What is wrong with it is counted."""
        found = LogRead(str(path))
        try:
            with self._opened(path) as (log, whole):
                if log is None:
                    self._add(whole, found)
                else:
                    with self.state.transaction():
                        place, head = self.state.place_of(log)
                    self._add(log.lines(place), found, log, head)
                    found.unfinished_bytes = log.rest
        except OSError as error:
            raise ConfigError(f"can't be read: {error.strerror or error}.", where=str(path)) from None
        except Damaged as damage:
            found.damage = str(damage)
        return found

    def lines(self, path: Path) -> Iterator[Line]:
        """All lines of a log that can be read, whether they were read before or not."""
        with suppress(Damaged, OSError), self._opened(path) as (log, whole):
            yield from whole if log is None else log.lines(Place())

    @contextmanager
    def _opened(self, path: Path) -> Iterator[tuple[Log | None, Iterator[Line]]]:
        """A log that grows line by line; or None, and the lines of a table, a list or traces, read whole."""
        if is_table(path):
            yield None, self._whole(path)
            return
        with closing(Log(path)) as log:
            if log.is_list:
                yield None, self._whole(path)
                return
            lines = log.lines(Place())
            first = next(lines, None)
            if first is not None and first.problem is Problem.NOT_JSON and first.number == 1:
                first, lines = Line(log.document(), None, 1, Place()), iter(())
            traces = self._traces(first, lines)
            yield (log, iter(())) if traces is None else (None, traces)

    def _whole(self, path: Path) -> Iterator[Line]:
        lines = whole_records(path)
        first = next(lines, None)
        if first is not None:
            yield from self._traces(first, lines) or chain([first], lines)

    def _traces(self, first: Line | None, rest: Iterator[Line]) -> Iterator[Line] | None:
        """The interactions of a file of traces; None for another file."""
        if first is None or first.record is None or not is_trace(first.record):
            return None
        return interactions_of(chain([first], rest), self.now)

    def _add(self, lines: Iterator[Line], found: LogRead, log: Log | None = None, head: Head | None = None) -> None:
        """Add lines in batches, each with the place in `log`, known by `head`, that it ends at."""
        readable = _readable(lines, found)
        while batch := list(islice(readable, _BATCH)):
            rows = list(self._rows(batch, found))
            with self.state.transaction():
                new, known, lost = self.state.add(rows)
                if log is not None:
                    head = self.state.remember(log, batch[-1].after, head)
            found.new += new
            found.known += known
            if lost:
                found.problems[Problem.NO_MATCH] += lost

    def _rows(self, lines: Sequence[Line], found: LogRead) -> Iterator[Row]:
        for line in lines:
            found.lines += 1
            if line.problem is not None or line.record is None:
                found.problems[line.problem or Problem.NOT_OBJECT] += 1
                continue
            try:
                yield self._row(self.reader.read(line.record))
            except BadRecord as bad:
                found.problems[bad.problem] += 1

    def _row(self, one: Interaction) -> Row:
        if one.time > self.now + _AHEAD:
            raise BadRecord(Problem.FUTURE)
        if one.time < self.now - _BEHIND:
            raise BadRecord(Problem.TOO_OLD)
        window = self.windows.name(one.time)
        if not one.only_feedback and (window in self.decided or window < next(iter(self.decided), "")):
            raise BadRecord(Problem.TOO_LATE)
        abstained = one.abstained
        if abstained is None and one.answer:
            abstained = answer_abstains(one.answer)
        return Row(one, window, abstained, payload_of(one))

    def over(self) -> list[str]:
        """The windows to decide, oldest first, also those without any interaction between or after others."""
        waiting = self.state.open_windows()
        if not self.decided and not waiting:
            return []
        grace = timedelta(hours=self.table.windows.grace_hours)
        newest = max(waiting, default="")
        found: list[str] = []
        name = self.windows.after(max(self.decided)) if self.decided else waiting[0]
        while self.windows.end(name) + grace <= self.now and len(found) < 10_000:
            found.append(name)
            name = self.windows.after(name)
        # A log that ended before there was a monitor is history, not an outage.
        return [one for one in found if one <= newest or self.windows.end(one) > self.state.created]


def _readable(lines: Iterator[Line], found: LogRead) -> Iterator[Line]:
    """`lines` until they raise Damaged, of which `found` says why."""
    try:
        yield from lines
    except Damaged as damage:
        found.damage = str(damage)


def _files(paths: Sequence[str]) -> list[Path]:
    found: dict[Path, None] = {}
    for path in paths:
        matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else [path]  # noqa: PTH207
        found |= dict.fromkeys(Path(one) for one in matches)
    if not paths:
        raise ConfigError("no logs are given.", hint="Name log files, or set paths under [logs] in alerts.toml.")
    for one in found:
        if not one.exists():
            raise ConfigError(
                "log not found.", where=str(one), hint="Check the path, or use a glob such as logs/*.jsonl*."
            )
    return list(found)


def _hasher(key: bytes) -> Callable[[str], bytes]:
    short = key if len(key) <= 64 else hashlib.blake2b(key).digest()

    def hashed(value: str) -> bytes:
        return hashlib.blake2b(value.encode("utf-8", "replace"), key=short, digest_size=16).digest()

    return hashed
