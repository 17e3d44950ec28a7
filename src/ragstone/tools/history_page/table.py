"""A history as a table: for reading, and as CSV."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ragstone.formatting import NONE, counted, dollars, figure, score
from ragstone.gate.policy import Policy
from ragstone.history.column import since
from ragstone.history.drift import find_cause
from ragstone.history.file import History
from ragstone.history.lines import MeanPart, RunLine
from ragstone.history.trend import marks

_NO_FACTS = (
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
)
_FACTS = (
    "time",
    *(
        name
        for name in RunLine.model_fields
        if name != "time" and name not in _NO_FACTS
    ),
)
_PARTS = ("mean", "low", "high", "n")
_MIN_WIDTH = len("0.000")


def csv_text(runs: Sequence[RunLine]) -> str:
    """One row per run; for each metric and slice: mean, limits and number of samples;
    the figures of production.

    A cell that a spreadsheet would treat as a formula gets a leading apostrophe.
    """
    rows = []
    for run in runs:
        row = {name: _cell(_fact(run, name)) for name in _FACTS}
        for column, part in _means(run).items():
            row |= {f"{column}.{name}": getattr(part, name) for name in _PARTS}
        rows.append(
            row
            | {f"production.{name}": part.value for name, part in run.figures.items()}
        )
    stream = io.StringIO()
    columns = dict.fromkeys([*_FACTS, *(name for row in rows for name in row)])
    writer = csv.DictWriter(stream, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
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
    is_formula = isinstance(value, str) and value.startswith(
        ("=", "+", "-", "@", "\t", "\r")
    )
    return f"'{value}" if is_formula else value


def list_lines(runs: Sequence[RunLine], width: int | None = None) -> Iterator[str]:
    """One line per run for a terminal, newest last, below a line for each metric, whose
    column has its number.

    `width` is that of the terminal: metrics that don't fit are left out. Without it,
    lines are as long as they need to be, and names of metrics are the headings.
    """
    if not runs:
        yield "The history is empty."
        return
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    headings = [name.rjust(_MIN_WIDTH) for name in metrics]
    costs = ["?" if run.cost_usd is None else dollars(run.cost_usd) for run in runs]
    verdicts = max(len(word) for word in ("verdict", *(run.verdict for run in runs)))
    if width is not None:
        other_columns = (
            len("2026-01-01 00:00  0000000  ")
            + verdicts
            + 2
            + max(len(cost) for cost in ("cost", *costs))
        )
        fitting = max(1, (width - other_columns) // (_MIN_WIDTH + 2))
        n_more = len(metrics) - fitting
        metrics = metrics[:fitting]
        headings = [
            str(number).rjust(_MIN_WIDTH) for number in range(1, len(metrics) + 1)
        ]
        yield from (f"{number}  {name}" for number, name in enumerate(metrics, start=1))
        if n_more > 0:
            yield f"{counted(n_more, 'more metric')}: in a wider terminal, or with --csv."
        yield ""
    yield "  ".join(
        ["date".ljust(16), "commit ", "verdict".ljust(verdicts), *headings, "cost"]
    )
    changes = _changes(runs)
    for run, cost in zip(runs, costs, strict=True):
        cells = [
            f"{run.time:%Y-%m-%d %H:%M}",
            (run.commit or "")[:7].ljust(7),
            run.verdict.ljust(verdicts),
        ]
        for name, heading in zip(metrics, headings, strict=True):
            cells.append(
                (
                    score(run.metrics[name].mean, 3) if name in run.metrics else NONE
                ).rjust(len(heading))
            )
        line = f"{'  '.join([*cells, cost])}  {', '.join(changes[run.run])}".rstrip()
        if width is not None and len(line) > width:
            yield "  ".join([*cells, cost])
            line = f"  {', '.join(changes[run.run])}"
        yield line


def _changes(runs: Sequence[RunLine]) -> Mapping[str, list[str]]:
    """What differs from the run before, by run; windows of production differ by being
    that."""
    texts = defaultdict(
        list, {run.run: ["production"] for run in runs if run.window is not None}
    )
    plain = [run for run in runs if run.window is None]
    for mark in marks(plain):
        texts[plain[mark.place].run].append(mark.text)
    return texts


def loss_lines(history: History, policy: Policy) -> Iterator[str]:
    """For each metric that is below its level, since when, and the merge that did
    it."""
    metrics = dict.fromkeys(part.metric for run in history.runs for part in run.below)
    for metric in metrics:
        past, cause = find_cause(
            history, metric, lower_is_better=policy.lower_is_better(metric)
        )
        for part in past.open:
            title = (
                part.metric
                if part.slice is None
                else f"{part.metric} on '{part.slice}'"
            )
            is_or_may_be = "is" if part.shown else "may be"
            came_with = "" if cause is None else f" It came with {cause}."
            yield (
                f"{title} {is_or_may_be} {figure(part.loss)} below its level {since(part.commit, part.merges)}."
                f"{came_with}"
            )
