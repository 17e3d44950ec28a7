"""A history as a table: for reading, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ragstone.formatting import NONE, counted, dollars, figure, score
from ragstone.gate.policy import Policy
from ragstone.history.column import since
from ragstone.history.drift import find_cause
from ragstone.history.file import History
from ragstone.history.lines import MeanPart, RunLine

_NO_FACTS = ("kind", "schema_version", "part", "metrics", "versions", "slices", "below", "samples", "scores", "window")
_FACTS = ("time", *(name for name in RunLine.model_fields if name != "time" and name not in _NO_FACTS))
_PARTS = ("mean", "low", "high", "n")
_MIN_WIDTH = len("0.000")


def csv_text(runs: Sequence[RunLine]) -> str:
    """One row per run; for each metric and slice: mean, limits and number of samples; the figures of production.

    A cell that a spreadsheet would treat as a formula gets a leading apostrophe.
    """
    means = [_means(run) for run in runs]
    columns = list(dict.fromkeys(name for parts in means for name in parts))
    figures = list(dict.fromkeys(name for run in runs for name in run.figures))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    headings = [f"{column}.{part}" for column in columns for part in _PARTS]
    writer.writerow([*_FACTS, *headings, *(f"production.{name}" for name in figures)])
    for run, parts in zip(runs, means, strict=True):
        values = [_fact(run, name) for name in _FACTS]
        for column in columns:
            part = parts.get(column)
            values += [None] * len(_PARTS) if part is None else [getattr(part, name) for name in _PARTS]
        values += [run.figures[name].value if name in run.figures else None for name in figures]
        writer.writerow([_cell(value) for value in values])
    return stream.getvalue()


def _means(run: RunLine) -> dict[str, MeanPart]:
    """The means of a run by metric, and those of a slice by ``slice/metric``."""
    means = dict(run.metrics)
    for tag, metrics in run.slices.items():
        means |= {f"{tag}/{name}": part for name, part in metrics.items()}
    return means


def _fact(run: RunLine, name: str) -> object:
    if name == "accepted":
        return " ".join(f"{entry.metric}:{entry.drop:g}" for entry in run.accepted)
    return run.time.isoformat() if name == "time" else getattr(run, name)


def _cell(value: object) -> object:
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


def list_lines(runs: Sequence[RunLine], width: int | None = None) -> Iterator[str]:
    """One line per run for a terminal, newest last, below a line for each metric, whose column has its number.

    `width` is that of the terminal: metrics that don't fit are left out. Without it, lines are as long as they need to
    be, and names of metrics are the headings.
    """
    if not runs:
        yield "The history is empty."
        return
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    headings = [name.rjust(_MIN_WIDTH) for name in metrics]
    costs = ["?" if run.cost_usd is None else dollars(run.cost_usd) for run in runs]
    verdicts = max(len(word) for word in ("verdict", *(run.verdict for run in runs)))
    if width is not None:
        other_columns = len("2026-01-01 00:00  0000000  ") + verdicts + 2 + max(len(cost) for cost in ("cost", *costs))
        fitting = max(1, (width - other_columns) // (_MIN_WIDTH + 2))
        n_more = len(metrics) - fitting
        metrics = metrics[:fitting]
        headings = [str(number).rjust(_MIN_WIDTH) for number in range(1, len(metrics) + 1)]
        yield from (f"{number}  {name}" for number, name in enumerate(metrics, start=1))
        if n_more > 0:
            yield f"{counted(n_more, 'more metric')}: in a wider terminal, or with --csv."
        yield ""
    yield "  ".join(["date".ljust(16), "commit ", "verdict".ljust(verdicts), *headings, "cost"])
    before: RunLine | None = None
    for run, cost in zip(runs, costs, strict=True):
        cells = [f"{run.time:%Y-%m-%d %H:%M}", (run.commit or "")[:7].ljust(7), run.verdict.ljust(verdicts)]
        for name, heading in zip(metrics, headings, strict=True):
            cells.append((score(run.metrics[name].mean, 3) if name in run.metrics else NONE).rjust(len(heading)))
        line = "  ".join([*cells, cost])
        marks = ", ".join(_marks(run, before))
        if width is not None and marks and len(line) + 2 + len(marks) > width:
            yield line
            yield f"  {marks}"
        else:
            yield f"{line}  {marks}".rstrip()
        if run.window is None:
            before = run


def _marks(run: RunLine, before: RunLine | None) -> Iterator[str]:
    if run.window is not None:
        yield "production"
        return
    if run.release is not None:
        yield f"release {run.release}"
    if before is not None and before.judge_key != run.judge_key:
        yield f"judge: {run.judge}"
    if before is not None and before.golden != run.golden:
        yield "golden set changed"
    for entry in run.accepted:
        yield f"accepted: {entry.metric} -{entry.drop:g}"


def loss_lines(history: History, policy: Policy) -> Iterator[str]:
    """For each metric that is below its level, since when, and the merge that did it."""
    metrics = dict.fromkeys(part.metric for run in history.runs for part in run.below)
    for metric in metrics:
        past, cause = find_cause(history, metric, lower_is_better=policy.lower_is_better(metric))
        for part in past.open:
            title = part.metric if part.slice is None else f"{part.metric} on '{part.slice}'"
            is_or_may_be = "is" if part.shown else "may be"
            came_with = "" if cause is None else f" It came with {cause}."
            yield (
                f"{title} {is_or_may_be} {figure(part.loss)} below its level {since(part.commit, part.merges)}."
                f"{came_with}"
            )
