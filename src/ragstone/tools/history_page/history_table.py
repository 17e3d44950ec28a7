"""Writes a history as lines for a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ragstone.formatting import dollars, figure, score
from ragstone.gate.accepted import title_of
from ragstone.gate.policy import Policy
from ragstone.history.column import came_with, since
from ragstone.history.drift import find_cause
from ragstone.history.file import History
from ragstone.history.lines import MeanPart, RunLine
from ragstone.tools.history_page.marks import marks
from ragstone.tools.history_page.versions import mean_of
from ragstone.tools.judging.label_table import escape_formula

_FIELDS_WITHOUT_COLUMN = {
    "time",
    "kind",
    "schema_version",
    "part",
    "metrics",
    "versions",
    "slices",
    "below",
    "samples",
    "scores",
    "window",
}
"""The fields of a run that are no column of the CSV file. Metrics and slices have
columns of their own, and the time has the first one."""

_RUN_COLUMNS = (
    "time",
    *(name for name in RunLine.model_fields if name not in _FIELDS_WITHOUT_COLUMN),
)
_MEAN_COLUMNS = ("mean", "low", "high", "n")
"""What is written of each metric."""

_MIN_MEAN_WIDTH = len("0.000")
"""The least width of a column with means, in characters."""


def csv_text(runs: Sequence[RunLine]) -> str:
    """Write one row for each run: what is known of it, mean, interval and number of
    samples of each metric and slice, and the figures of production.

    A cell that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    rows = []
    columns = dict.fromkeys(_RUN_COLUMNS)
    for run in runs:
        row = {name: _cell(run, name) for name in _RUN_COLUMNS}
        for title, part in _means(run).items():
            for name in _MEAN_COLUMNS:
                row[f"{title}.{name}"] = getattr(part, name)
        for name, figures in run.figures.items():
            row[f"production.{name}"] = figures.value
        rows.append(row)
        columns |= dict.fromkeys(row)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _means(run: RunLine) -> dict[str, MeanPart]:
    """The means of a run by ``metric``, and those of its slices by ``tag/metric``."""
    means = dict(run.metrics)
    for tag, metrics in run.slices.items():
        for name, part in metrics.items():
            means[f"{tag}/{name}"] = part
    return means


def _cell(run: RunLine, name: str) -> object:
    """The field `name` of a run as a cell."""
    value = getattr(run, name)
    if name == "accepted":
        value = " ".join(f"{entry.metric}:{entry.drop:g}" for entry in run.accepted)
    if name == "time":
        value = run.time.isoformat()
    return escape_formula(value) if isinstance(value, str) else value


def list_lines(runs: Sequence[RunLine]) -> Iterator[str]:
    """One line per run for a terminal, newest last."""
    if not runs:
        yield "The history is empty."
        return
    metrics: dict[str, None] = {}
    for run in runs:
        metrics |= dict.fromkeys(run.metrics)
    verdict_width = max(
        len(word) for word in ("verdict", *(run.verdict for run in runs))
    )
    mean_widths = [max(len(name), _MIN_MEAN_WIDTH) for name in metrics]
    headings = ["date".ljust(16), "commit ", "verdict".ljust(verdict_width)]
    headings += [f"{name:>{_MIN_MEAN_WIDTH}}" for name in metrics]
    yield "  ".join([*headings, "cost"])
    differences = _differences(runs)
    for run in runs:
        minute = f"{run.time:%Y-%m-%d %H:%M}"
        commit = run.commit or ""
        cells = [minute, commit[:7].ljust(7), run.verdict.ljust(verdict_width)]
        for name, width in zip(metrics, mean_widths, strict=True):
            shown_mean = score(mean_of(run, name), 3)
            cells.append(shown_mean.rjust(width))
        cells.append(dollars(run.cost_usd))
        cells.append(", ".join(differences[run.run]))
        yield "  ".join(cells).rstrip()


def _differences(runs: Sequence[RunLine]) -> Mapping[str, list[str]]:
    """What differs from the run before, as texts, by the id of a run. A window of
    production is only called that."""
    differences: dict[str, list[str]] = defaultdict(list)
    before = None
    for run in runs:
        if run.window is not None:
            differences[run.run].append("production")
            continue
        differences[run.run] += [mark.text for mark in marks(run, before)]
        before = run
    return differences


def loss_lines(history: History, policy: Policy) -> Iterator[str]:
    """A sentence for each metric that is below its level: since when, and with which
    merge the loss came."""
    losses = chain.from_iterable(run.below for run in history.runs)
    for metric in dict.fromkeys(loss.metric for loss in losses):
        past, causes = find_cause(
            history, metric, lower_is_better=policy.lower_is_better(metric)
        )
        cause = f" {came_with(causes)}" if causes else ""
        for loss in past.open_losses:
            title = title_of(loss.metric, loss.slice)
            verb = "has been" if loss.shown else "may have been"
            size = figure(loss.loss)
            beginning = since(loss.commit, loss.merges)
            yield f"{title} {verb} {size} below its level {beginning}.{cause}"
