"""A history as a table: for reading, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ragstone.formatting import counted, dollars, figure, score
from ragstone.gate.policy import Policy
from ragstone.history.column import since
from ragstone.history.drift import find_cause
from ragstone.history.file import History
from ragstone.history.lines import RunLine

_NO_FACTS = ("kind", "schema_version", "part", "metrics", "versions", "slices", "below", "samples", "scores")
_FACTS = ("time", *(name for name in RunLine.model_fields if name != "time" and name not in _NO_FACTS))
_NUMBERED = len("0.000")
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


def list_lines(runs: Sequence[RunLine], width: int | None = None) -> Iterator[str]:
    """One line per run for a terminal, newest last.

    `width` is that of the terminal: where names of metrics don't fit as headings, the columns have numbers, and a line
    for each number comes first. Without a width, lines are as long as they need to be.
    """
    if not runs:
        yield "The history is empty."
        return
    metrics = list(dict.fromkeys(name for run in runs for name in run.metrics))
    costs = ["?" if run.cost_usd is None else dollars(run.cost_usd) for run in runs]
    verdicts = max(map(len, ("verdict", *(run.verdict for run in runs))))
    rest = len("2026-01-01 00:00  0000000  ") + verdicts + 2 + max(map(len, ("cost", *costs)))
    heads, left = [name.rjust(_NUMBERED) for name in metrics], 0
    if width is not None and rest + sum(len(head) + 2 for head in heads) > width:
        fitting = max(1, (width - rest) // (_NUMBERED + 2))
        metrics, left = metrics[:fitting], max(0, len(metrics) - fitting)
        heads = [str(number).rjust(_NUMBERED) for number in range(1, len(metrics) + 1)]
        yield from (f"{head.strip()}  {name}" for head, name in zip(heads, metrics, strict=True))
        if left:
            yield f"{counted(left, 'more metric')}: in a wider terminal, or with --format csv."
        yield ""
    yield "  ".join(["date".ljust(16), "commit ", "verdict".ljust(verdicts), *heads, "cost"])
    for before, run, cost in zip((None, *runs), runs, costs, strict=False):
        cells = [
            (score(run.metrics[name].mean, 3) if name in run.metrics else "–").rjust(len(head))
            for name, head in zip(metrics, heads, strict=True)
        ]
        commit = (run.commit or "")[:7].ljust(7)
        line = "  ".join([f"{run.time:%Y-%m-%d %H:%M}", commit, run.verdict.ljust(verdicts), *cells, cost])
        marks = ", ".join(_marks(run, before))
        if width is not None and marks and len(line) + 2 + len(marks) > width:
            yield line
            yield f"  {marks}"
        else:
            yield f"{line}  {marks}".rstrip()


def _marks(run: RunLine, before: RunLine | None) -> Iterator[str]:
    if run.release is not None:
        yield f"release {run.release}"
    if before is not None and before.judge_key != run.judge_key:
        yield f"judge: {run.judge}"
    if before is not None and before.golden != run.golden:
        yield "golden set changed"
    for one in run.accepted:
        yield f"accepted: {one.metric} -{one.drop:g}"


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
