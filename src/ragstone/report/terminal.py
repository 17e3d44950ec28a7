"""The report for a terminal or a log: what matters on one screen, or all of it."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.color import ColorSystem
from rich.console import Console
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ragstone.metrics.score import FAILED_BY
from ragstone.printable import ZERO_WIDTH_SPACE
from ragstone.report.escape import line
from ragstone.report.filters import FILTERS, PHRASES, row_name, status_word, thresholds
from ragstone.report.parts import Document
from ragstone.report.shell import wrap_line
from ragstone.report.summary import summaries
from ragstone.report.templates import PACKAGE, render_lines, text_environment
from ragstone.report.trend import interval_pictures

STYLES = {
    "pass": "green",
    "fail": "bold red",
    "warn": "yellow",
    "inconclusive": "yellow",
    "error": "bold magenta",
    "not gated": "dim",
}
MARKS = {
    "pass": "✔",
    "fail": "✘",
    "warn": "!",
    "inconclusive": "?",
    "error": "✘",
    "not gated": "·",
}
WIDTH = 120
"""Columns if there is no terminal."""
SCREEN = (80, 24)
"""Columns and lines of what is printed without --verbose; narrower on a narrower
terminal."""

# Marks in what the templates write, none of which foreign text can have: it is shown
# without control characters.
_METRICS, _UNBROKEN = "\x03", "\x06"
_ENDLESS = 10_000
_TITLES = ("", "Metric", "Score", "Score vs threshold", "Change", "Threshold", "State")
_MAY_WRAP = ("Metric", "State")


def _style(word: str, text: str) -> str:
    """`text` in a style of rich, or in that of a status word."""
    return Style.parse(STYLES.get(word, word)).render(
        text, color_system=ColorSystem.STANDARD
    )


text_environment(PACKAGE).filters.update(FILTERS, mark=MARKS.__getitem__)
text_environment(PACKAGE).globals.update(
    METRICS=_METRICS, UNBROKEN=_UNBROKEN, FAILED_BY=FAILED_BY, style=_style
)


def render_text(
    report: Document,
    *,
    width: int | None = None,
    colour: bool = False,
    files: Sequence[str] = (),
) -> str:
    """The whole report in lines of at most `width` columns; commands are broken as a
    shell reads them again.

    Without a width it is not for a terminal: commands are on one line each, however
    long. `colour` only adds ANSI styles. `files` are lines about files, above the last
    line.
    """
    return _printed("report.txt.j2", report, width, colour, files=files)


def render_summary(
    report: Document,
    *,
    width: int | None = None,
    colour: bool = False,
    files: Sequence[str] = (),
) -> str:
    """What matters of the report: on one screen if line one leaves room for more."""
    columns = min(width or WIDTH, SCREEN[0])
    lines = SCREEN[1]
    text = ""
    for summary in summaries(report):
        text = _printed(
            "summary.txt.j2",
            report,
            columns,
            colour,
            summary=summary,
            columns=columns,
            files=files,
        )
        if text.count("\n") <= lines:
            break
    return text


def print_report(
    report: Document,
    stream: TextIO | None = None,
    *,
    verbose: bool = False,
    files: Sequence[str] = (),
) -> None:
    """Print what matters of the report, or all of it, to `stream` (standard output).

    In colour, and as wide as the terminal, if it is one. `files` are lines about files,
    above the last line.
    """
    out = stream if stream is not None else sys.stdout
    width, colour = look_of(out)
    text = (render_text if verbose else render_summary)(
        report, width=width, colour=colour, files=files
    )
    # What keeps a log from running commands is only in the way on a terminal.
    out.write(text.replace(ZERO_WIDTH_SPACE, "") if out.isatty() else text)


def look_of(stream: TextIO) -> tuple[int | None, bool]:
    """The width of `stream` if it is a terminal, and whether it shows colours."""
    colour = stream.isatty() and "NO_COLOR" not in os.environ
    return shutil.get_terminal_size(
        (WIDTH, 24)
    ).columns if stream.isatty() else None, colour


def _printed(
    template: str, report: Document, width: int | None, colour: bool, **values: object
) -> str:
    def shell(command: str) -> list[str]:
        """A command in lines; what is copied from the screen must run."""
        text = line(command, 4000)
        if width is None:
            return [text]
        return wrap_line(text, max(width, 40) - 2)

    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width or WIDTH, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
    )
    table = _table(report)
    widest = console.measure(
        table, options=console.options.update(width=_ENDLESS)
    ).minimum
    has_room = widest <= console.width
    for text in render_lines(
        template, PACKAGE, report=report, has_room=has_room, shell=shell, **values
    ):
        if text == _METRICS:
            console.print(table)
        elif text.startswith(_UNBROKEN):
            console.print(Text.from_ansi(text.removeprefix(_UNBROKEN)), soft_wrap=True)
        else:
            words = text.lstrip(" ")
            console.print(
                Padding(Text.from_ansi(words), (0, 0, 0, len(text) - len(words)))
            )
    return (
        "\n".join(text.rstrip() for text in out.getvalue().rstrip().split("\n")) + "\n"
    )


def _table(report: Document) -> Table:
    """The table of metrics."""
    pictures = interval_pictures(report.metrics, report.checks, width=17)
    rows = []
    for row in report.metrics:
        style = STYLES[status_word(row)]
        kind, picture = pictures.get(row.check, ("", ""))
        rows.append(
            [
                Text(MARKS[status_word(row)], style),
                Text(line(row_name(row), 120)),
                Text(PHRASES["scored"](row)),
                Text(f"{kind:5} {picture}", style),
                Text(PHRASES["changed"](row)),
                Text("\n".join(thresholds(row))),
                Text(line(row.state), style),
            ]
        )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title, *cells in zip(_TITLES, *rows, strict=True):
        if title in _MAY_WRAP:
            table.add_column(title)
        else:
            widths: list[int] = []
            for cell in (Text(title), *cells):
                widths += [part.cell_len for part in cell.split()]
            table.add_column(title, no_wrap=True, min_width=max(widths))
    for row_cells in rows:
        table.add_row(*row_cells)
    return table
