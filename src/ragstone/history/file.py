"""Reads history.jsonl with every line validated, adds to it, and limits its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.files import replace_text, writing_to
from ragstone.files import open_regular
from ragstone.history.codes import Compact, fits
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
"""Beyond this size the oldest per-sample scores are dropped, as long as the rest takes
no more than half of it; else the oldest lines. The level needs recent scores more than
it needs old means."""

NEWEST_WITH_SCORES = 24
"""So many of the newest runs keep their per-sample scores: in them a loss is looked
for."""

_START_ANEW = "Move it away to start a new one."


@dataclass(frozen=True, slots=True)
class History:
    """Runs by time, the oldest first."""

    runs: tuple[RunLine, ...] = ()
    samples: Mapping[str, SamplesLine] = field(default_factory=dict)
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
            line = line.model_copy(
                update={"samples": scores.samples.key, "scores": dict(scores.scores)}
            )
        runs = [run for run in self.runs if not same_run(run, line)]
        return replace(self, runs=_by_time((*runs, line)), samples=samples)

    def within(self, limit: int = MAX_WRITTEN_BYTES) -> History:
        """Cut to at most `limit` bytes when written."""
        history = self
        while history.runs:
            excess = len(history.text().encode()) - limit
            if excess <= 0:
                break
            history = history._less(excess, limit // 2)._with_samples_in_use()
        return history

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

    def _less(self, excess: int, max_bare: int) -> History:
        """Smaller by about `excess` bytes, or by one line at least.

        If lines without their scores have more than `max_bare` bytes, the oldest of
        them go; else the oldest scores, those of the level last: without a healthy run
        before it, a loss can't be judged any more.
        """
        saved = 0
        runs = list(self.runs)
        bare = sum(len(line_text(_without_scores(run))) for run in runs)
        if bare <= max_bare:
            old = range(len(runs) - NEWEST_WITH_SCORES)
            for index in sorted(old, key=lambda index: runs[index].eligible):
                if saved >= excess:
                    break
                run = runs[index]
                saved += sum(map(len, run.scores.values()))
                runs[index] = _without_scores(run)
        if not saved:
            runs = runs[max(1, len(runs) // 20) :]
        return replace(self, runs=tuple(runs))

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
    if len(body) > MAX_READ_BYTES:
        raise RunDirectoryError(
            f"larger than {MAX_READ_BYTES:,} bytes, so it is probably not a history.",
            where=where,
            hint=_START_ANEW,
        )
    damaged: list[str] = []
    samples: dict[str, SamplesLine] = {}
    runs: dict[tuple[str, int | None, str | None], tuple[str, RunLine]] = {}
    for number, raw in enumerate(body.split(b"\n"), start=1):
        if not raw.strip():
            continue
        place = f"{where}:{number}"
        line = _parsed(raw, place, damaged)
        if isinstance(line, SamplesLine):
            samples[line.key] = line
        elif line is not None:
            runs[_attempt(line)] = (place, line)
        if len(damaged) > MAX_DAMAGED:
            raise RunDirectoryError(
                f"more than {MAX_DAMAGED:,} of its lines are damaged, so it is probably not a history.",
                where=where,
                hint=_START_ANEW,
            )
    whole = (_checked(line, samples, place, damaged) for place, line in runs.values())
    return History(_by_time(whole), samples, tuple(damaged))._with_samples_in_use()


def write_history(path: Path, history: History) -> None:
    """Replace the file atomically. Raises RunDirectoryError with the path if it can't
    be written."""
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, history.text())


def _parsed(raw: bytes, place: str, damaged: list[str]) -> AnyLine | None:
    if len(raw) > MAX_LINE_BYTES:
        damaged.append(f"{place}: longer than {MAX_LINE_BYTES:,} bytes; left out.")
        return None
    try:
        return line_adapter().validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field_name = ".".join(str(part) for part in first["loc"][1:])
        if field_name == "schema_version":
            damaged.append(f"{place}: the schema version is not 1; left out.")
        else:
            damaged.append(
                f"{place}: not a line of a history ({field_name or 'line'}: {first['msg']}); left out."
            )
        return None


def _checked(
    line: RunLine, samples: Mapping[str, SamplesLine], place: str, damaged: list[str]
) -> RunLine:
    """`line`, without its per-sample scores if they don't match the samples it refers
    to."""
    if line.samples is None and not line.scores:
        return line
    samples_line = samples.get(line.samples or "")
    if samples_line is not None and fits(samples_line, line.scores.values()):
        return line
    why = "its scores don't fit its samples"
    if samples_line is None:
        why = "the line that names its samples is missing"
    damaged.append(f"{place}: {why}; it is kept without per-sample scores.")
    return _without_scores(line)


def _without_scores(line: RunLine) -> RunLine:
    if line.scores:
        return line.model_copy(update={"samples": None, "scores": {}})
    return line


def same_run(line: RunLine, run: RunLine) -> bool:
    """Whether both lines are of the same attempt: runs that began in the same second
    may have the same name."""
    return _attempt(line) == _attempt(run)


def _attempt(line: RunLine) -> tuple[str, int | None, str | None]:
    return line.run, line.github_run, line.commit


def _by_time(lines: Iterable[RunLine]) -> tuple[RunLine, ...]:
    return tuple(sorted(lines, key=lambda line: line.time))
