"""A history as a table: for reading, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ragstone.formatting import dollars, score
from ragstone.history.lines import RunLine

_FACTS = (
    "time",
    "run",
    "commit",
    "pull_request",
    "release",
    "github_run",
    "event",
    "verdict",
    "eligible",
    "judge",
    "judge_key",
    "golden",
    "system",
    "coverage",
    "latency_p50_s",
    "latency_p95_s",
    "calls",
    "cost_usd",
    "accepted",
)
_PARTS = ("mean", "low", "high", "n")


def csv_text(runs: Sequence[RunLine]) -> str:
    """One row per run; for each metric and slice: mean, limits and number of samples.

    A cell that a spreadsheet would treat as a formula gets a leading apostrophe.
    """
    columns = list(dict.fromkeys(name for run in runs for name, *_ in _measured(run)))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*_FACTS, *(f"{column}.{part}" for column in columns for part in _PARTS)])
    for run in runs:
        found = {name: parts for name, *parts in _measured(run)}
        measured = [value for column in columns for value in found.get(column, [None] * len(_PARTS))]
        writer.writerow([_cell(value) for value in (*_facts(run), *measured)])
    return stream.getvalue()


def list_lines(runs: Sequence[RunLine]) -> Iterator[str]:
    """One line per run for a terminal, newest last."""
    if not runs:
        yield "The history is empty."
        return
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    yield "  ".join(["date".ljust(16), "commit ", "verdict".ljust(12), *(name for name in metrics), "cost"])
    for before, run in zip((None, *runs), runs, strict=False):
        cells = [
            (score(run.metrics[name].mean, 3) if name in run.metrics else "–").rjust(len(name)) for name in metrics
        ]
        cost = "?" if run.cost_usd is None else dollars(run.cost_usd)
        marks = []
        if run.release is not None:
            marks.append(f"release {run.release}")
        if before is not None and before.judge_key != run.judge_key:
            marks.append(f"judge: {run.judge}")
        if before is not None and before.golden != run.golden:
            marks.append("golden set changed")
        marks += [f"accepted: {one.metric} -{one.drop:g}" for one in run.accepted]
        commit = (run.commit or "")[:7].ljust(7)
        yield "  ".join(
            [f"{run.time:%Y-%m-%d %H:%M}", commit, run.verdict.ljust(12), *cells, cost, ", ".join(marks)]
        ).rstrip()


def _facts(run: RunLine) -> Iterator[object]:
    for name in _FACTS:
        if name == "accepted":
            yield " ".join(f"{one.metric}:{one.drop:g}" for one in run.accepted)
        else:
            value = getattr(run, name)
            yield value.isoformat() if name == "time" else value


def _measured(run: RunLine) -> Iterator[tuple[str, float, float, float, int]]:
    for slice_, metrics in (("", run.metrics), *((f"{tag}/", found) for tag, found in run.slices.items())):
        for name, found in metrics.items():
            yield f"{slice_}{name}", found.mean, found.low, found.high, found.n


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value
