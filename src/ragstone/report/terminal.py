"""The report for a terminal or a log: the verdict, a table, and what got worse."""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragstone import formatting
from ragstone.gate.robustness import Robustness
from ragstone.gate.verdict import CheckKind, Status
from ragstone.metrics.score import FAILED_BY
from ragstone.report import wording
from ragstone.report.document import FailurePart, SamplePart
from ragstone.report.escape import clip, terminal_line
from ragstone.report.parts import MetricRow, ReportView
from ragstone.report.reproduce import wrap_line
from ragstone.report.rows import check_reason
from ragstone.report.trend import Scale

STYLES = {
    "pass": "green",
    "fail": "bold red",
    "warn": "yellow",
    "inconclusive": "yellow",
    "error": "bold magenta",
    "not gated": "dim",
}
MARKS = {"pass": "✔", "fail": "✘", "warn": "!", "inconclusive": "?", "error": "✘", "not gated": "·"}
WIDTH = 120
"""Columns if there is no terminal."""

_WORST = 5
_STATEMENTS = 3
_GROUPS = 8
_IDS = 5
_ENDLESS = 10_000
_COLUMNS = ("", "Metric", "Score", "Plot", "Change", "Threshold", "State")
_WITHOUT_PLOT = tuple(column for column in _COLUMNS if column != "Plot")
_STACKED = ("", "Metric", "Both", "Threshold", "State")
_HEADS = {"Plot": "Score vs threshold", "Both": "Score, and change"}


def render_text(view: ReportView, *, width: int | None = None, colour: bool = False) -> str:
    """The report in lines of at most `width` columns; `colour` only adds ANSI styles.

    Without a width it is not for a terminal: commands are on one line each, however long.
    """
    out = io.StringIO()
    console = plain_console(out, width, colour)
    for part in _parts(view, console, wraps=width is not None):
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n")) + "\n"


def render_robustness(found: Robustness, *, width: int | None = None, colour: bool = False) -> str:
    """The section on perturbed questions alone, as `render_text` has it."""
    out = io.StringIO()
    console = plain_console(out, width, colour)
    for part in _robustness(found):
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n"


def plain_console(out: TextIO, width: int | None, colour: bool) -> Console:
    """A console that writes text as it is to `out`."""
    return Console(
        file=out,
        width=max(WIDTH if width is None else width, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )


def look_of(stream: TextIO) -> tuple[int | None, bool]:
    """The width of `stream` if it is a terminal, and whether it shows colours."""
    colour = stream.isatty() and "NO_COLOR" not in os.environ
    return shutil.get_terminal_size((WIDTH, 24)).columns if stream.isatty() else None, colour


def print_report(view: ReportView, stream: TextIO | None = None) -> None:
    """Print the report, in colour and as wide as the terminal if `stream` (standard output) is one."""
    out = stream if stream is not None else sys.stdout
    width, colour = look_of(out)
    out.write(render_text(view, width=width, colour=colour))


def print_robustness(found: Robustness) -> None:
    """Print the section on perturbed questions alone to standard output."""
    width, colour = look_of(sys.stdout)
    sys.stdout.write(render_robustness(found, width=width, colour=colour))


def _text(text: str, style: str = "", length: int = 600) -> Text:
    return Text(clip(terminal_line(text), length), style=style)


def _parts(view: ReportView, console: Console, *, wraps: bool) -> list[RenderableType]:
    style = STYLES[str(view.status)]
    parts: list[RenderableType] = [
        Text.assemble(
            (f"{MARKS[str(view.status)]} {wording.STATUS_TITLES[view.status].upper()}", style),
            ("  ", ""),
            (clip(terminal_line(view.title), 80), "bold"),
        ),
        _text(wording.sentence(view.reason)),
        *(_text(f"! {wording.sentence(warning)}", "yellow") for warning in view.warnings),
    ]
    if view.resolution is not None:
        parts.append(_text(view.resolution))
    if view.attribution is not None:
        parts.append(_text(wording.attribution(view.attribution)))
    if said := wording.causes(view.diagnosis):
        parts.append(_text(f"Causes: {said}."))
        if view.diagnosis is not None and view.status is not Status.PASS:
            parts.append(_text(f"To do: {view.diagnosis.counts[0].action}"))
    if view.oracle is not None:
        parts.append(_text(f"{wording.ORACLE_TITLE}:"))
        parts += [_text(f"- {line}") for line in wording.oracle_lines(view.oracle)]
    if view.metrics:
        parts.append(_metric_table(view.metrics, console))
    parts += _facts(view)
    parts += _worst(view.worst, view.worst_left)
    parts += _robustness(view.robustness)
    parts += _failures(view.failures)
    parts += _about(view, console.width if wraps else None)
    return parts


def _metric_table(rows: tuple[MetricRow, ...], console: Console) -> RenderableType:
    """The widest form that fits without breaking a word: with plots, without, in two lines per metric, as a list."""
    scale = Scale.for_checks(row.deciding for row in rows if row.deciding)
    for columns in (_COLUMNS, _WITHOUT_PLOT, _STACKED):
        table = _table(rows, scale, columns)
        if Measurement.get(console, console.options.update(width=_ENDLESS), table).minimum <= console.width:
            return table
    return Group(*(_listed(row) for row in rows))


def _table(rows: tuple[MetricRow, ...], scale: Scale, columns: tuple[str, ...]) -> Table:
    stacked = columns is _STACKED
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0 if stacked else 1), expand=False)
    cells = [_cells(row, scale) for row in rows]
    for column in columns:
        head = _HEADS.get(column, column)
        if column in ("Metric", "State"):
            table.add_column(head)
        else:
            width = max(
                line.cell_len for cell in (Text(head), *(one[column] for one in cells)) for line in cell.split()
            )
            table.add_column(head, no_wrap=True, min_width=width)
    for one in cells:
        table.add_row(*(one[column] for column in columns))
    return table


def _listed(row: MetricRow) -> Text:
    word = wording.status_word(row.status, row.action)
    cells = {name: cell.plain.replace("\n", ", ") for name, cell in _cells(row, None).items()}
    parts = [f"{cells['Metric']}: {cells['Score']}"]
    parts += [cells["Threshold"]] if cells["Threshold"] else []
    parts += [f"change {cells['Change']}"] if row.change is not None else []
    return Text.assemble((f"{MARKS[word]} ", STYLES[word]), ", ".join(parts), (f": {row.state}", STYLES[word]))


def _cells(row: MetricRow, scale: Scale | None) -> dict[str, Text]:
    """The cells of a row by column; without `scale`, there is no plot."""
    word = wording.status_word(row.status, row.action)
    figures = wording.figures(row)
    plot = f"{row.deciding.kind:5} {scale.draw(row.deciding, 17)}" if scale is not None and row.deciding else ""
    return {
        "": Text(MARKS[word], style=STYLES[word]),
        "Metric": _text(wording.row_name(row), length=120),
        "Score": Text(figures.scored),
        "Plot": Text(plot, STYLES[word]),
        "Change": Text(figures.changed),
        "Both": Text(f"{figures.scored}\n{figures.changed}" if row.change is not None else figures.scored),
        "Threshold": Text("\n".join(wording.thresholds(row))),
        "State": _text(row.state, STYLES[word]),
    }


def _facts(view: ReportView) -> list[RenderableType]:
    lines: list[RenderableType] = [Text("")]
    for row in view.check_rows:
        word = wording.status_word(row.check.status, row.check.action)
        said = row.found + (f" ({row.wanted})" if row.wanted else "")
        if row.check.status is not Status.PASS or not said:
            said = check_reason(row.check)
        lines.append(
            Text.assemble((f"{MARKS[word]} ", STYLES[word]), (clip(terminal_line(f"{row.title}: {said}"), 600), ""))
        )
    if view.judge is not None and view.judge.offline:
        grades = ", ".join(f"{wording.metric_title(name)} {grade}" for name, grade in view.judge.grades)
        tail = f" Measured reliability: {grades}." if grades else ""
        lines.append(
            _text(
                f"! Scored by the {view.judge.label}: no language model. "
                f"Trust its changes, not its absolute values.{tail}",
                style="yellow",
            )
        )
    notes = (*(view.comparison.notes if view.comparison is not None else ()), *view.notes)
    lines += [_text(f"- {wording.sentence(note)}") for note in notes]
    return lines


def _worst(samples: tuple[SamplePart, ...], left: int) -> list[RenderableType]:
    if not samples:
        return []
    parts: list[RenderableType] = [Text(""), Text(wording.worst_heading(samples), style="bold")]
    parts += [Padding(_sample(sample), (0, 0, 0, 2)) for sample in samples[:_WORST]]
    if (more := len(samples) + left - _WORST) > 0:
        parts.append(Text(f"  and {more:,} more; --format html shows every sample"))
    return parts


def _sample(sample: SamplePart) -> Group:
    head = Text(clip(terminal_line(sample.id), 80), style="bold")
    if sample.place is not None:
        head.append(f"  {clip(terminal_line(str(sample.place)), 160)}", style="not bold dim")
    lines: list[RenderableType] = [head, _text(sample.question, length=300)]
    moves = [wording.moved(change) + (f" ({change.note})" if change.note else "") for change in sample.changes]
    lines.append(_text(" · ".join(moves)))
    for bad in sample.unsupported[:_STATEMENTS]:
        said = "contradicted by the contexts" if bad.verdict == "contradicted" else "not in the contexts"
        quote = f" (“{bad.quote}”)" if bad.quote else ""
        lines.append(_text(f"- {said}: {bad.text}{quote}", "red", 400))
    lines += [_text(f"- cause: {sample.cause}")] if sample.cause else []
    lines += [_text(f"- missing from the contexts: {text}", "red", 400) for text in sample.missing[:_STATEMENTS]]
    return Group(*lines, Text(""))


def _robustness(found: Robustness | None) -> list[RenderableType]:
    if found is None:
        return []
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), expand=False)
    for column in ("", "Asked with", "Change, and its 95 % interval", "Crashed"):
        table.add_column(column)
    for row in wording.robustness_rows(found):
        style = "yellow" if row.bad else ""
        said = "\n".join(wording.sentence(text) for text in (row.change, *row.notes) if text)
        mark = MARKS["warn" if row.bad else "not gated"]
        table.add_row(Text(mark, style), row.kind, _block(said, style), Text(row.crashed, style))
    lines: list[RenderableType] = [Text(""), Text(wording.robustness_heading(found), style="bold")]
    if found.incomplete is not None:
        lines.append(_text(f"! {wording.unfinished_robustness(found)}", "yellow"))
    return [*lines, table]


def _block(text: str, style: str) -> Text:
    """Several lines, each of them foreign."""
    return Text("\n".join(clip(terminal_line(line), 300) for line in text.split("\n")), style)


def _failures(groups: tuple[FailurePart, ...]) -> list[RenderableType]:
    if not groups:
        return []
    lines: list[RenderableType] = [Text(""), Text("Samples without a score", style="bold")]
    for group in groups[:_GROUPS]:
        who = FAILED_BY[group.by]
        ids = ", ".join(sample.id for sample in group.samples[:_IDS])
        more = f" and {len(group.samples) - _IDS} more" if len(group.samples) > _IDS else ""
        count = formatting.counted(len(group.samples), "sample")
        lines.append(_text(f"  {who} failed on {count}: {group.reason} ({ids}{more})"))
    if len(groups) > _GROUPS:
        lines.append(Text(f"  and {len(groups) - _GROUPS} more reasons"))
    return lines


def _about(view: ReportView, width: int | None) -> list[RenderableType]:
    facts = [formatting.counted(view.run.samples, "sample")]
    if view.judge is not None:
        facts.append(f"judge: {view.judge.label}")
    if view.cost is not None:
        cached = f", {view.cost.cached_calls:,} from the cache" if view.cost.cached_calls else ""
        share = f", {view.cost.cached_share}" if view.cost.cached_share else ""
        facts.append(
            f"{formatting.counted(view.cost.calls, 'call')}{cached}{share}, {formatting.dollars(view.cost.usd)}"
        )
    if view.run.entrypoint is not None:
        facts.append(f"system: {wording.system_usage(view.run.usage)}")
    if view.run.wall_s:
        facts.append(formatting.seconds(view.run.wall_s))
    if view.comparison is not None and view.comparison.baseline is not None:
        found = view.comparison
        on = f" {wording.compared_on(found.paired, found.total)}" if found.comparable else ""
        facts.append(f"compared with {found.baseline}{on}")
    lines: list[RenderableType] = [Text(""), _text(" · ".join(facts), "dim")]
    if view.accept:
        edit = any(check.kind is CheckKind.PAIRED for check in view.checks)
        lines += _commands(f"To accept the {'edit of the golden set' if edit else 'drop'}:", view.accept, width)
    if not view.passed and view.reproduce:
        lines += _commands("To reproduce:", view.reproduce, width)
    return lines


def _commands(title: str, commands: tuple[str, ...], width: int | None) -> list[RenderableType]:
    """Lines for a shell, never broken by the console: what is copied from the screen must run."""
    lines = [clip(terminal_line(line), 4000) for line in commands]
    wrapped = lines if width is None else [part for line in lines for part in wrap_line(line, width - 2)]
    return [
        Text(title, style="dim"),
        *(Text(f"  {line}", style="dim", no_wrap=True) for line in wrapped),
    ]
