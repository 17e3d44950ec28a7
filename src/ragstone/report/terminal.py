"""The report for a terminal or a log: what matters on one screen, or all of it."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragstone.metrics.score import FAILED_BY
from ragstone.printable import ZERO_WIDTH_SPACE
from ragstone.report import wording
from ragstone.report.escape import line
from ragstone.report.parts import MetricRow, ReportView
from ragstone.report.reproduce import wrap_line
from ragstone.report.rows import check_reason
from ragstone.report.summary import summaries
from ragstone.report.templates import PACKAGE, render_lines
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
SCREEN = (80, 24)
"""Columns and lines of what is printed without --verbose; narrower on a narrower terminal."""

# Marks in what the template writes, none of which foreign text can have: it is shown without control characters.
_STYLE, _STYLED = "\x01", "\x02"
METRICS, INDENTED, UNBROKEN, FILES = "\x03", "\x05", "\x06", "\x0e"

_ENDLESS = 10_000
_COLUMNS = ("", "Metric", "Score", "Plot", "Change", "Threshold", "State")
_WITHOUT_PLOT = tuple(column for column in _COLUMNS if column != "Plot")
_STACKED = ("", "Metric", "Both", "Threshold", "State")
_HEADS = {"Plot": "Score vs threshold", "Both": "Score, and change"}

_CONSTANTS = {
    **{"MARKS": MARKS, "STYLES": STYLES, "FAILED_BY": FAILED_BY, "FILES": FILES},
    **{"METRICS": METRICS, "INDENTED": INDENTED, "UNBROKEN": UNBROKEN},
}


def render_text(view: ReportView, *, width: int | None = None, colour: bool = False) -> str:
    """The whole report in lines of at most `width` columns; `colour` only adds ANSI styles.

    Without a width it is not for a terminal: commands are on one line each, however long.
    """
    return _with_files(_whole(view, width, colour))


def _whole(view: ReportView, width: int | None, colour: bool) -> str:
    out = io.StringIO()
    console = plain_console(out, width, colour)
    shell = partial(_shell, width=None if width is None else console.width)
    written = _written("report.txt.j2", view=view, shell=shell, check_reason=check_reason)
    for part in _parts(written, view, console):
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return _trimmed(out)


def render_summary(view: ReportView, *, width: int | None = None, colour: bool = False, lines: int = SCREEN[1]) -> str:
    """What matters of the report, in at most `lines` lines if line one leaves room for more."""
    return _with_files(_brief(view, width, colour, lines))


def _brief(view: ReportView, width: int | None, colour: bool, lines: int) -> str:
    text, columns = "", min(width or WIDTH, SCREEN[0])
    for first in summaries(view):
        out = io.StringIO()
        console = plain_console(out, columns, colour)
        for part in _parts(_written("summary.txt.j2", view=view, first=first, width=columns), view, console):
            console.print(part)
        text = _trimmed(out)
        if text.count("\n") <= lines:
            break
    return text


def _written(template: str, **values: object) -> list[str]:
    style = (_STYLE + "{}" + _STYLED).format
    return render_lines(template, PACKAGE, style=style, wording=wording, **values, **_CONSTANTS)


def _trimmed(out: io.StringIO) -> str:
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n")) + "\n"


def _with_files(text: str, files: Sequence[str] = ()) -> str:
    """`text` with the lines about files where the template has their place, above the last line."""
    return text.replace(f"{FILES}\n", "".join(f"{line}\n" for line in files))


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


def print_report(
    view: ReportView, stream: TextIO | None = None, *, verbose: bool = False, files: Sequence[str] = ()
) -> None:
    """Print what matters of the report, or all of it, to `stream` (standard output).

    In colour, and as wide as the terminal, if it is one. `files` are lines about files, above the last line.
    """
    out = stream if stream is not None else sys.stdout
    width, colour = look_of(out)
    text = _whole(view, width, colour) if verbose else _brief(view, width, colour, SCREEN[1] - len(files))
    write_to(out, _with_files(text, files))


def write_to(stream: TextIO, text: str) -> None:
    """Write a report to `stream`; what keeps a log from running commands is only in the way on a terminal."""
    stream.write(text.replace(ZERO_WIDTH_SPACE, "") if stream.isatty() else text)


def _text(text: str, style: str = "", length: int = 600) -> Text:
    return Text(line(text, length), style=style)


def _parts(lines: Iterable[str], view: ReportView, console: Console) -> Iterator[RenderableType]:
    """What a template writes, line by line, with the tables where it marks their places."""
    for written in lines:
        if written == METRICS:
            yield from [_metric_table(view.metrics, console)] if view.metrics else []
        else:
            pieces = [piece.rpartition(_STYLED) for piece in written.lstrip(INDENTED + UNBROKEN).split(_STYLE)]
            text = Text.assemble(*((words, style) for style, _, words in pieces), no_wrap=written.startswith(UNBROKEN))
            yield Padding(text, (0, 0, 0, 2)) if written.startswith(INDENTED) else text


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


def _shell(commands: tuple[str, ...], width: int | None) -> list[str]:
    """Lines for a shell, never broken by the console: what is copied from the screen must run."""
    lines = [line(command, 4000) for command in commands]
    return lines if width is None else [part for one in lines for part in wrap_line(one, width - 2)]
