"""Reads history.jsonl with every line validated, adds to it, and limits its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.files import replace_text, writing_to
from ragstone.files import open_regular
from ragstone.history.codes import Compact, decode
from ragstone.history.lines import (
    AnyLine,
    RunLine,
    SamplesLine,
    line_adapter,
    line_text,
)

MAX_READ_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_DAMAGED = 100_000
"""Lines that can't be used. A file with more is none that was ever written: 5 MB are at
most some 20,000 lines."""
MAX_WRITTEN_BYTES = 5 * 1024 * 1024

NEWEST = 24
"""So many of the newest runs stay longest: in them, and in those at the anchor, a loss
is looked for."""


class History(Struct, frozen=True):
    """Runs by time, the oldest first."""

    runs: tuple[RunLine, ...] = ()
    samples: Mapping[str, SamplesLine] = {}
    damaged: tuple[str, ...] = ()
    """A sentence for each part of the file that could not be used."""

    @property
    def gated(self) -> tuple[RunLine, ...]:
        """The runs with a verdict, which alone are the past of the main branch: windows
        of production are not."""
        return tuple(
            run for run in self.runs if run.verdict != "none" and run.window is None
        )

    @property
    def windows(self) -> tuple[RunLine, ...]:
        """The windows of production."""
        return tuple(run for run in self.runs if run.window is not None)

    def with_run(self, line: RunLine, scores: Compact | None) -> History:
        """With `line` added, replacing a line of the same run."""
        samples = dict(self.samples)
        if scores is not None:
            samples[scores.samples.key] = scores.samples
            line = scores.kept_in(line)
        runs = [run for run in self.runs if run.attempt != line.attempt]
        return replace(self, runs=_by_time((*runs, line)), samples=samples)

    def within(self, limit: int = MAX_WRITTEN_BYTES) -> History:
        """Cut to at most `limit` bytes when written: the oldest lines go.

        Those of healthy runs go after those of broken ones: without a healthy run
        before it, a loss can't be judged any more.
        """
        excess = len(self.text()) - limit
        old = sorted(self.runs[:-NEWEST], key=lambda run: run.eligible)
        dropped: set[int] = set()
        for run in (*old, *self.runs[-NEWEST:]):
            if excess <= 0:
                break
            excess -= len(line_text(run)) + 1
            dropped.add(id(run))
        runs = tuple(run for run in self.runs if id(run) not in dropped)
        return replace(self, runs=runs)._with_samples_in_use()

    def text(self) -> str:
        """The file's text: each set of samples before the first line that refers to
        it."""
        lines = []
        written: set[str] = set()
        for run in self.runs:
            if run.samples is not None and run.samples not in written:
                written.add(run.samples)
                lines.append(line_text(self.samples[run.samples]))
            lines.append(line_text(run))
        return "".join(f"{line}\n" for line in lines)

    def _with_samples_in_use(self) -> History:
        used = {run.samples for run in self.runs}
        return replace(
            self,
            samples={key: line for key, line in self.samples.items() if key in used},
        )


def read_history(path: Path) -> History:
    """The history in `path`; an empty one if the file does not exist.

    Raises RunDirectoryError if it can't be read at all.
    """
    try:
        with open_regular(path) as stream:
            body = stream.read(MAX_READ_BYTES + 1)
    except FileNotFoundError:
        return History()
    except OSError as error:
        raise RunDirectoryError(
            f"can't be read: {error.strerror}.", where=str(path)
        ) from None
    return parse_history(body, str(path))


def parse_history(body: bytes, where: str) -> History:
    """The history in `body`. Lines that are damaged or of a later version are left out
    and listed in `damaged`.

    Raises RunDirectoryError if it is larger than MAX_READ_BYTES, or has more than
    MAX_DAMAGED such lines.
    """
    damaged: list[str] = []
    samples: dict[str, SamplesLine] = {}
    runs: dict[tuple[str, int | None, str | None], tuple[str, RunLine]] = {}
    if len(body) > MAX_READ_BYTES:
        raise _no_history(f"larger than {MAX_READ_BYTES:,} bytes", where)
    for number, raw in enumerate(body.split(b"\n"), start=1):
        if not raw.strip():
            continue
        place = f"{where}:{number}"
        try:
            line = _parsed(raw)
        except ValueError as error:
            damaged.append(f"{place}: {error}; left out.")
            if len(damaged) > MAX_DAMAGED:
                many = f"more than {MAX_DAMAGED:,} of its lines are damaged"
                raise _no_history(many, where) from None
            continue
        if isinstance(line, SamplesLine):
            samples[line.key] = line
        else:
            runs[line.attempt] = (place, line)
    checked = []
    for place, line in runs.values():
        why = _misfit(line, samples)
        if why is not None:
            damaged.append(f"{place}: {why}; it is kept without per-sample scores.")
            line = line.model_copy(update={"samples": None, "scores": {}})
        checked.append(line)
    return History(_by_time(checked), samples, tuple(damaged))._with_samples_in_use()


def _no_history(why: str, where: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{why}, so it is probably not a history.",
        where=where,
        hint="Move it away to start a new one.",
    )


def write_history(path: Path, history: History) -> None:
    """Replace the file atomically. Raises RunDirectoryError with the path if it can't
    be written."""
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, history.text())


def _parsed(raw: bytes) -> AnyLine:
    """A line of either kind. Raises ValueError that says why it is none."""
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError(f"longer than {MAX_LINE_BYTES:,} bytes")
    try:
        return line_adapter().validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field_name = ".".join(map(str, first["loc"][1:]))
        if field_name == "schema_version":
            raise ValueError("the schema version is not 1") from None
        what = f"{field_name or 'line'}: {first['msg']}"
        raise ValueError(f"not a line of a history ({what})") from None


def _misfit(line: RunLine, samples: Mapping[str, SamplesLine]) -> str | None:
    """Why the scores of `line` are not one for each of the samples that it refers to;
    None if they are."""
    if line.samples is None and not line.scores:
        return None
    samples_line = samples.get(line.samples or "")
    if samples_line is None:
        return "the line that names its samples is missing"
    lengths = {len(samples_line.ids), len(samples_line.groups or samples_line.ids)}
    try:
        lengths |= {len(decode(text)) for text in line.scores.values()}
    except ValueError:
        lengths.add(-1)
    return None if len(lengths) == 1 else "its scores don't fit its samples"


def _by_time(lines: Iterable[RunLine]) -> tuple[RunLine, ...]:
    return tuple(sorted(lines, key=lambda line: line.time))
