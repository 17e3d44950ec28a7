"""The report for a terminal or a log: what matters on one screen, or all of it."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence

from rich.color import ColorSystem
from rich.console import Console
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from ragstone.metrics.score import FAILED_BY
from ragstone.printable import ZERO_WIDTH_SPACE
from ragstone.report.filters import FILTERS
from ragstone.report.parts import Document
from ragstone.report.summary import LINES, summary_of
from ragstone.report.templates import PACKAGE, render_lines, text_environment

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
COLUMNS = 80
"""Of what is printed without --verbose; fewer on a narrower terminal."""

_UNBROKEN = "\x06"
"""Before a line that is not wrapped. No foreign text can have it: it is shown without
control characters."""


def _style(word: str, text: str) -> str:
    """`text` in a style of rich, or in that of a status word."""
    return Style.parse(STYLES.get(word, word)).render(
        text, color_system=ColorSystem.STANDARD
    )


text_environment(PACKAGE).filters.update(FILTERS, mark=MARKS.__getitem__)
text_environment(PACKAGE).globals.update(
    UNBROKEN=_UNBROKEN, FAILED_BY=FAILED_BY, style=_style
)


def render_text(
    report: Document,
    *,
    verbose: bool = True,
    width: int | None = None,
    colour: bool = False,
    files: Sequence[str] = (),
) -> str:
    """The whole report in lines of at most `width` columns, apart from commands, which
    are on one line each; or without `verbose` what matters, on one screen if line one
    leaves room for more.

    `colour` only adds ANSI styles. `files` are lines about files, above the last line.
    """
    if verbose:
        return _printed("report.txt.j2", report, width, colour, files=files)
    columns = min(width or WIDTH, COLUMNS)
    return _printed(
        "summary.txt.j2",
        report,
        columns,
        colour,
        summary=summary_of(report, LINES - 2),  # line one stands at both ends
        columns=columns,
        files=files,
    )


def print_report(
    report: Document, *, verbose: bool = False, files: Sequence[str] = ()
) -> None:
    """Print what matters of the report, or all of it, to standard output.

    In colour, and as wide as the terminal, if it is one. `files` are lines about files,
    above the last line.
    """
    out = sys.stdout
    width = None
    colour = False
    if out.isatty():
        width = shutil.get_terminal_size((WIDTH, 24)).columns
        colour = "NO_COLOR" not in os.environ
    text = render_text(report, verbose=verbose, width=width, colour=colour, files=files)
    # What keeps a log from running commands is only in the way on a terminal.
    out.write(text.replace(ZERO_WIDTH_SPACE, "") if out.isatty() else text)


def _printed(
    template: str, report: Document, width: int | None, colour: bool, **values: object
) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width or WIDTH, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
    )
    for text in render_lines(template, PACKAGE, report=report, **values):
        if text.startswith(_UNBROKEN):
            console.print(Text.from_ansi(text.removeprefix(_UNBROKEN)), soft_wrap=True)
            continue
        words = text.lstrip(" ")
        indent = len(text) - len(words)
        console.print(Padding(Text.from_ansi(words), (0, 0, 0, indent)))
    lines = [text.rstrip() for text in out.getvalue().rstrip().split("\n")]
    return "\n".join(lines) + "\n"
