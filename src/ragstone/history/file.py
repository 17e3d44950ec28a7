"""Reads history.jsonl with every line validated, adds to it, and limits its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.run_files import replace_text, writing_to
from ragstone.files import open_regular
from ragstone.history.codes import CompactScores, decode
from ragstone.history.lines import (
    AnyLine,
    RunLine,
    SamplesLine,
    line_adapter,
    line_text,
)

MAX_READ_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
MAX_DAMAGED_LINES = 100_000
"""A file with more damaged lines is not a history: Ragstone writes at most about 20,000
lines, in 5 MB."""
MAX_WRITTEN_BYTES = 5 * 1024 * 1024

NEWEST_RUNS = 24
"""Number of the newest runs in which a loss is looked for; they are dropped last."""


class History(Struct, frozen=True):
    """The runs of a main branch, the oldest first, and the sets of samples that they
    refer to, by key."""

    runs: tuple[RunLine, ...] = ()
    samples: Mapping[str, SamplesLine] = {}
    damaged: tuple[str, ...] = ()
    """A sentence for each part of the file that could not be used."""

    @property
    def gated(self) -> tuple[RunLine, ...]:
        """The runs with a verdict, which are compared; windows of production are
        not."""
        return tuple(
            run for run in self.runs if run.verdict != "none" and run.window is None
        )

    @property
    def windows(self) -> tuple[RunLine, ...]:
        """The windows of production."""
        return tuple(run for run in self.runs if run.window is not None)

    def with_run(self, line: RunLine, scores: CompactScores | None) -> History:
        """This history with `line` and its `scores` added, replacing a line of the same
        run."""
        samples = dict(self.samples)
        if scores is not None:
            samples[scores.samples.key] = scores.samples
            line = scores.added_to(line)
        runs = [run for run in self.runs if run.attempt != line.attempt]
        return replace(self, runs=_by_time((*runs, line)), samples=samples)

    def trimmed(self, max_bytes: int = MAX_WRITTEN_BYTES) -> History:
        """This history without its oldest runs, so that its file has at most
        `max_bytes`.

        Healthy runs are dropped after others: without a healthy run before it, a loss
        can't be judged.
        """
        excess_bytes = len(self.text()) - max_bytes
        old = sorted(self.runs[:-NEWEST_RUNS], key=lambda run: run.eligible)
        dropped: set[int] = set()
        for run in (*old, *self.runs[-NEWEST_RUNS:]):
            if excess_bytes <= 0:
                break
            excess_bytes -= len(line_text(run)) + 1  # with its line end
            dropped.add(id(run))
        runs = tuple(run for run in self.runs if id(run) not in dropped)
        return replace(self, runs=runs)._with_samples_in_use()

    def text(self) -> str:
        """The text of the file: each set of samples stands before the first run that
        refers to it."""
        lines = []
        written: set[str] = set()
        for run in self.runs:
            if run.samples is not None and run.samples not in written:
                written.add(run.samples)
                lines.append(line_text(self.samples[run.samples]))
            lines.append(line_text(run))
        return "".join(f"{line}\n" for line in lines)

    def _with_samples_in_use(self) -> History:
        """This history without the sets of samples that no run refers to."""
        keys = {run.samples for run in self.runs}
        return replace(
            self,
            samples={key: line for key, line in self.samples.items() if key in keys},
        )


def read_history(path: Path) -> History:
    """The history in the file `path`; an empty one if the file does not exist.

    Raises RunDirectoryError if the file can't be read, or is not a history.
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
    """The history in the bytes `body`, which were read from `where`. Lines that are
    damaged or of another version are left out and listed in `damaged`.

    Raises RunDirectoryError if there are more than MAX_READ_BYTES, or more than
    MAX_DAMAGED_LINES such lines.
    """
    if len(body) > MAX_READ_BYTES:
        raise _not_a_history(f"larger than {MAX_READ_BYTES:,} bytes", where)
    damaged: list[str] = []
    samples: dict[str, SamplesLine] = {}
    runs: dict[tuple[str, int | None, str | None], tuple[str, RunLine]] = {}
    for number, raw in enumerate(body.split(b"\n"), start=1):
        if not raw.strip():
            continue
        place = f"{where}:{number}"
        try:
            line = _parse_line(raw)
        except ValueError as error:
            damaged.append(f"{place}: {error}; left out.")
            if len(damaged) > MAX_DAMAGED_LINES:
                reason = f"more than {MAX_DAMAGED_LINES:,} of its lines are damaged"
                raise _not_a_history(reason, where) from None
            continue
        if isinstance(line, SamplesLine):
            samples[line.key] = line
        else:
            runs[line.attempt] = (place, line)
    checked = []
    for place, run in runs.values():
        scores_problem = _scores_problem(run, samples)
        if scores_problem is not None:
            damaged.append(
                f"{place}: {scores_problem}; it is kept without per-sample scores."
            )
            run = run.model_copy(update={"samples": None, "scores": {}})
        checked.append(run)
    return History(_by_time(checked), samples, tuple(damaged))._with_samples_in_use()


def _not_a_history(reason: str, where: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{reason}, so it is probably not a history.",
        where=where,
        hint="Move it away to start a new one.",
    )


def write_history(path: Path, history: History) -> None:
    """Replace the file atomically. Raises RunDirectoryError with the path if it can't
    be written."""
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, history.text())


def _parse_line(raw: bytes) -> AnyLine:
    """Parse a line of either kind. Raises ValueError with the reason if it can't be
    used."""
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError(f"longer than {MAX_LINE_BYTES:,} bytes")
    try:
        return line_adapter().validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # The location starts with the kind of line.
        field_name = ".".join(map(str, first["loc"][1:]))
        if field_name == "schema_version":
            raise ValueError("the schema version is not 1") from None
        problem = f"{field_name or 'line'}: {first['msg']}"
        raise ValueError(f"not a line of a history ({problem})") from None


def _scores_problem(line: RunLine, samples: Mapping[str, SamplesLine]) -> str | None:
    """Why the scores of `line` can't be assigned to its samples; None if there is one
    for each, or none at all."""
    if line.samples is None and not line.scores:
        return None
    samples_line = samples.get(line.samples or "")
    if samples_line is None:
        return "the line that names its samples is missing"
    lengths = {len(samples_line.ids), len(samples_line.groups or samples_line.ids)}
    try:
        lengths |= {len(decode(text)) for text in line.scores.values()}
    except ValueError:
        lengths.add(-1)  # never equal to the number of samples
    return None if len(lengths) == 1 else "its scores don't fit its samples"


def _by_time(lines: Iterable[RunLine]) -> tuple[RunLine, ...]:
    return tuple(sorted(lines, key=lambda line: line.time))
