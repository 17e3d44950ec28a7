"""A history as a table: for reading, and as CSV."""

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

_NO_FACTS = {
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
_FACTS = ("time", *(name for name in RunLine.model_fields if name not in _NO_FACTS))
_PARTS = ("mean", "low", "high", "n")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet would calculate a cell that begins like this."""
_MIN_WIDTH = len("0.000")


def csv_text(runs: Sequence[RunLine]) -> str:
    """One row per run; for each metric and slice: mean, limits and number of samples;
    the figures of production.

    A cell that a spreadsheet would treat as a formula gets a leading apostrophe.
    """
    rows = []
    columns = dict.fromkeys(_FACTS)
    for run in runs:
        row = {name: _cell(_fact(run, name)) for name in _FACTS}
        for column, part in _means(run).items():
            for name in _PARTS:
                row[f"{column}.{name}"] = getattr(part, name)
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
    """The means of a run by metric, and those of a slice by ``slice/metric``."""
    means = dict(run.metrics)
    for tag, metrics in run.slices.items():
        for name, part in metrics.items():
            means[f"{tag}/{name}"] = part
    return means


def _fact(run: RunLine, name: str) -> object:
    if name == "accepted":
        drops = [f"{entry.metric}:{entry.drop:g}" for entry in run.accepted]
        return " ".join(drops)
    if name == "time":
        return run.time.isoformat()
    return getattr(run, name)


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def list_lines(runs: Sequence[RunLine]) -> Iterator[str]:
    """One line per run for a terminal, newest last."""
    if not runs:
        yield "The history is empty."
        return
    metrics: dict[str, None] = {}
    for run in runs:
        metrics |= dict.fromkeys(run.metrics)
    verdicts = [run.verdict for run in runs]
    width = max(map(len, ["verdict", *verdicts]))
    headings = ["date".ljust(16), "commit ", "verdict".ljust(width)]
    widths = [max(len(name), _MIN_WIDTH) for name in metrics]
    headings += map(str.rjust, metrics, widths)
    yield "  ".join([*headings, "cost"])
    changes = _changes(runs)
    for run in runs:
        minute = f"{run.time:%Y-%m-%d %H:%M}"
        commit = run.commit or ""
        cells = [minute, commit[:7].ljust(7), run.verdict.ljust(width)]
        for name, column_width in zip(metrics, widths, strict=True):
            shown_mean = score(mean_of(run, name), 3)
            cells.append(shown_mean.rjust(column_width))
        cells.append(dollars(run.cost_usd))
        differences = ", ".join(changes[run.run])
        cells.append(differences)
        yield "  ".join(cells).rstrip()


def _changes(runs: Sequence[RunLine]) -> Mapping[str, list[str]]:
    """What differs from the run before, by run; windows of production differ by being
    that."""
    texts: dict[str, list[str]] = defaultdict(list)
    before = None
    for run in runs:
        if run.window is not None:
            texts[run.run].append("production")
            continue
        texts[run.run] += [mark.text for mark in marks(run, before)]
        before = run
    return texts


def loss_lines(history: History, policy: Policy) -> Iterator[str]:
    """For each metric that is below its level, since when, and the merge that did
    it."""
    drops = chain.from_iterable(run.below for run in history.runs)
    for metric in dict.fromkeys(drop.metric for drop in drops):
        past, runs = find_cause(
            history, metric, lower_is_better=policy.lower_is_better(metric)
        )
        for part in past.open_losses:
            title = title_of(part.metric, part.slice)
            verb = "has been" if part.shown else "may have been"
            cause = f" {came_with(runs)}" if runs else ""
            loss = figure(part.loss)
            beginning = since(part.commit, part.merges)
            yield f"{title} {verb} {loss} below its level {beginning}.{cause}"
