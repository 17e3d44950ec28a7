"""The samples of the HTML page: made from the records of both runs, and kept in the run
for later reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import PAGE, RunDirectory
from ragstone.evaluation.files import replace_texts
from ragstone.files import open_regular
from ragstone.gate.verdict import GateVerdict
from ragstone.pipeline.decide import ComparedRun, lookup
from ragstone.report.page import MAX_PACKED, is_packed, pack
from ragstone.report.parts import Links, SampleRow
from ragstone.report.samples import RunSamples
from ragstone.report.texts import Json, Redact, sample_texts

_MAX_BYTES = 8 * MAX_PACKED
_HINT = "Remove the file, or run the gate again."


def page_of(
    current: ComparedRun,
    verdict: GateVerdict,
    baseline: ComparedRun | None,
    redact: Redact,
    links: Links | None = None,
) -> Iterator[str]:
    """The lines of the page of a verdict (`report.page`), with every sample.

    Records are read one at a time, and only for their texts. The scores of `baseline`
    need not be comparable: its answers are.
    """
    if baseline is not None:
        baseline = baseline.beside(current)

    then = None if baseline is None else baseline.scores

    def samples() -> Iterator[tuple[SampleRow, Callable[[], Json | None]]]:
        with lookup(current) as record_of, lookup(baseline) as before_of:

            def texts(sample_id: str) -> Json | None:
                now = record_of(sample_id)
                if now is None:
                    return None
                return sample_texts(now, before_of(sample_id), redact)

            table = RunSamples(verdict, current.scores, then, links or Links())
            for row in table.rows(drafts=current.drafts):
                yield row, partial(texts, row.id)

    return pack(samples(), redact)


def write_page(run: RunDirectory, lines: Iterable[str]) -> None:
    """Keep the lines of the page in `run`, written one by one. Raises
    RunDirectoryError."""
    texts = (f"{line}\n" for line in chain([_head(run)], lines))
    replace_texts(run.path / PAGE, texts)


def read_page(run: RunDirectory) -> tuple[str, ...]:
    """The lines of the page that `run` holds; none if it has none, or was evaluated
    again since.

    Raises RunDirectoryError for a file that is not a page.
    """
    file = run.path / PAGE
    try:
        with open_regular(file, limit=_MAX_BYTES) as stream:
            lines = [line.decode("ascii", "replace").rstrip("\n") for line in stream]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise RunDirectoryError(
            f"can't be read: {error.strerror}.", where=str(file), hint=_HINT
        ) from None
    if not lines or lines[0] != _head(run):
        return ()
    for number, line in enumerate(lines[1:], start=2):
        if not is_packed(line):
            raise RunDirectoryError(
                "not the samples of an HTML report: not a packed line.",
                where=f"{file}:{number}",
                hint=_HINT,
            )
    return tuple(lines[1:])


def _head(run: RunDirectory) -> str:
    return f"ragstone page 1 {run.fingerprint}"
