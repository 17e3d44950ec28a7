"""The report for a terminal or a log: what matters on one screen, or all of it."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragstone.metrics.score import FAILED_BY
from ragstone.printable import ZERO_WIDTH_SPACE
from ragstone.report.escape import line
from ragstone.report.filters import FILTERS, changed, row_name, scored, status_word, thresholds
from ragstone.report.oracle import oracle_lines
from ragstone.report.parts import Document, MetricPart
from ragstone.report.shell import wrap_line
from ragstone.report.summary import summaries
from ragstone.report.templates import PACKAGE, render_lines, text_environment
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
_MARKS = {"METRICS": "\x03", "INDENTED": "\x05", "UNBROKEN": "\x06", "FILES": "\x0e"}

_ENDLESS = 10_000
_FORMS = (
    ("", "Metric", "Score", "Score vs threshold", "Change", "Threshold", "State"),
    ("", "Metric", "Score", "Change", "Threshold", "State"),
    ("", "Metric", "Score, and change", "Threshold", "State"),
)
"""The columns of the table of metrics, from wide to narrow."""
_MAY_WRAP = ("Metric", "State")


text_environment(PACKAGE).filters.update(FILTERS, mark=MARKS.__getitem__, oracle_lines=oracle_lines)
text_environment(PACKAGE).globals.update(_MARKS, FAILED_BY=FAILED_BY)


def render_text(report: Document, *, width: int | None = None, colour: bool = False) -> str:
    """The whole report in lines of at most `width` columns; `colour` only adds ANSI styles.

    Without a width it is not for a terminal: commands are on one line each, however long.
    """
    return _with_files(_whole(report, width, colour))


def render_summary(report: Document, *, width: int | None = None, colour: bool = False, lines: int = SCREEN[1]) -> str:
    """What matters of the report, in at most `lines` lines if line one leaves room for more."""
    return _with_files(_brief(report, width, colour, lines))


def print_report(
    report: Document, stream: TextIO | None = None, *, verbose: bool = False, files: Sequence[str] = ()
) -> None:
    """Print what matters of the report, or all of it, to `stream` (standard output).

    In colour, and as wide as the terminal, if it is one. `files` are lines about files, above the last line.
    """
    out = stream if stream is not None else sys.stdout
    width, colour = look_of(out)
    text = _whole(report, width, colour) if verbose else _brief(report, width, colour, SCREEN[1] - len(files))
    write_to(out, _with_files(text, files))


def write_to(stream: TextIO, text: str) -> None:
    """Write a report to `stream`; what keeps a log from running commands is only in the way on a terminal."""
    stream.write(text.replace(ZERO_WIDTH_SPACE, "") if stream.isatty() else text)


def look_of(stream: TextIO) -> tuple[int | None, bool]:
    """The width of `stream` if it is a terminal, and whether it shows colours."""
    colour = stream.isatty() and "NO_COLOR" not in os.environ
    return shutil.get_terminal_size((WIDTH, 24)).columns if stream.isatty() else None, colour


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


def _whole(report: Document, width: int | None, colour: bool) -> str:
    def shell(command: str) -> list[str]:
        """A command, never broken by the console: what is copied from the screen must run."""
        text = line(command, 4000)
        return [text] if width is None else wrap_line(text, max(width, 40) - 2)

    return _printed("report.txt.j2", report, width, colour, shell=shell)


def _brief(report: Document, width: int | None, colour: bool, lines: int) -> str:
    text, columns = "", min(width or WIDTH, SCREEN[0])
    for summary in summaries(report):
        text = _printed("summary.txt.j2", report, columns, colour, summary=summary, columns=columns)
        if text.count("\n") <= lines:
            break
    return text


def _printed(template: str, report: Document, width: int | None, colour: bool, **values: object) -> str:
    def style(word: str, text: str) -> str:
        """`text` in a style of rich, or in that of a status word."""
        return f"{_STYLE}{STYLES.get(word, word)}{_STYLED}{text}{_STYLE}{_STYLED}"

    out = io.StringIO()
    console = plain_console(out, width, colour)
    for part in _rendered(render_lines(template, PACKAGE, report=report, style=style, **values), report, console):
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return "\n".join(text.rstrip() for text in out.getvalue().rstrip().split("\n")) + "\n"


def _with_files(text: str, files: Sequence[str] = ()) -> str:
    """`text` with the lines about files where the template has their place, above the last line."""
    return text.replace(f"{_MARKS['FILES']}\n", "".join(f"{file}\n" for file in files))


def _rendered(lines: Iterable[str], report: Document, console: Console) -> Iterator[RenderableType]:
    """What a template writes, line by line, with the table of metrics where it marks its place."""
    for text in lines:
        if text == _MARKS["METRICS"]:
            if report.metrics:
                yield _metrics(report, console)
            continue
        styled = Text(no_wrap=text.startswith(_MARKS["UNBROKEN"]))
        for piece in text.lstrip(_MARKS["INDENTED"] + _MARKS["UNBROKEN"]).split(_STYLE):
            style, _, words = piece.rpartition(_STYLED)
            styled.append(words, style or None)
        yield Padding(styled, (0, 0, 0, 2)) if text.startswith(_MARKS["INDENTED"]) else styled


def _metrics(report: Document, console: Console) -> RenderableType:
    """The widest table that fits without breaking a word, or a list."""
    checks = {check.name: check for check in report.checks}
    scale = Scale.for_checks(checks[row.check] for row in report.metrics if row.check is not None)
    rows = []
    for row in report.metrics:
        cells = _cells(row)
        if row.check is not None:
            check = checks[row.check]
            cells["Score vs threshold"] = Text(f"{check.kind:5} {scale.draw(check, 17)}", STYLES[status_word(row)])
        rows.append(cells)
    for columns in _FORMS:
        table = _table(rows, columns)
        if Measurement.get(console, console.options.update(width=_ENDLESS), table).minimum <= console.width:
            return table
    return Group(*(_listed(row) for row in report.metrics))


def _cells(row: MetricPart) -> dict[str, Text]:
    """The cells of a row by column."""
    word = status_word(row)
    both = scored(row) if row.change is None else f"{scored(row)}\n{changed(row)}"
    return {
        "": Text(MARKS[word], style=STYLES[word]),
        "Metric": Text(line(row_name(row), 120)),
        "Score": Text(scored(row)),
        "Score vs threshold": Text(),
        "Change": Text(changed(row)),
        "Score, and change": Text(both),
        "Threshold": Text("\n".join(thresholds(row))),
        "State": Text(line(row.state), STYLES[word]),
    }


def _table(rows: Sequence[dict[str, Text]], columns: Sequence[str]) -> Table:
    is_narrow = columns == _FORMS[-1]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0 if is_narrow else 1), expand=False)
    for column in columns:
        if column in _MAY_WRAP:
            table.add_column(column)
            continue
        lines = [part for cells in rows for part in cells[column].split()]
        widest = max(part.cell_len for part in (Text(column), *lines))
        table.add_column(column, no_wrap=True, min_width=widest)
    for cells in rows:
        table.add_row(*(cells[column] for column in columns))
    return table


def _listed(row: MetricPart) -> Text:
    word = status_word(row)
    parts = [f"{line(row_name(row), 120)}: {scored(row)}", *thresholds(row)]
    if row.change is not None:
        parts.append(f"change {changed(row)}")
    return Text.assemble((f"{MARKS[word]} ", STYLES[word]), ", ".join(parts), (f": {line(row.state)}", STYLES[word]))
