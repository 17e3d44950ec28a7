"""Renders the report for a terminal or a log: a summary on one screen, or all of it."""

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
from ragstone.report.summary import MAX_LINES, summary_of
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
DEFAULT_WIDTH = 120
"""Number of columns if there is no terminal."""

MAX_SUMMARY_WIDTH = 80
"""Number of columns of a summary; fewer on a narrower terminal."""

_MIN_WIDTH = 40

_NO_WRAP = "\x06"
"""Written before a line that must not be wrapped. Foreign text can't have this character:
control characters are replaced in it."""


def _apply_style(style: str, text: str) -> str:
    """Return `text` in the style of a status word, or in another style of rich."""
    return Style.parse(STYLES.get(style, style)).render(
        text, color_system=ColorSystem.STANDARD
    )


# All text templates of this package share one environment.
text_environment(PACKAGE).filters.update(FILTERS, mark=MARKS.__getitem__)
text_environment(PACKAGE).globals.update(
    NO_WRAP=_NO_WRAP, FAILED_BY=FAILED_BY, style=_apply_style
)


def render_text(
    report: Document,
    *,
    verbose: bool = True,
    width: int | None = None,
    colour: bool = False,
    files: Sequence[str] = (),
) -> str:
    """Render the whole report, or without `verbose` a summary on one screen, in lines of
    at most `width` columns. Commands are not wrapped.

    With `colour`, the text is the same, with ANSI styles. `files` are lines about files,
    which come before the last line.
    """
    if verbose:
        return _render("report.txt.j2", report, width, colour, files=files)
    columns = min(width or DEFAULT_WIDTH, MAX_SUMMARY_WIDTH)
    # Line one is printed twice, which may take two more lines.
    summary = summary_of(report, MAX_LINES - 2)
    return _render(
        "summary.txt.j2",
        report,
        columns,
        colour,
        summary=summary,
        columns=columns,
        files=files,
    )


def print_report(
    report: Document, *, verbose: bool = False, files: Sequence[str] = ()
) -> None:
    """Print the summary of a report, or with `verbose` all of it, to standard output: in
    colour, and as wide as the terminal, if it is one.

    `files` are lines about files, which come before the last line.
    """
    out = sys.stdout
    width = None
    colour = False
    if out.isatty():
        width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
        colour = "NO_COLOR" not in os.environ
    text = render_text(report, verbose=verbose, width=width, colour=colour, files=files)
    # These keep a runner from taking text for commands; a terminal doesn't need them.
    out.write(text.replace(ZERO_WIDTH_SPACE, "") if out.isatty() else text)


def _render(
    template: str, report: Document, width: int | None, colour: bool, **values: object
) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width or DEFAULT_WIDTH, _MIN_WIDTH),
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
    )
    for text in render_lines(template, PACKAGE, report=report, **values):
        if text.startswith(_NO_WRAP):
            console.print(Text.from_ansi(text.removeprefix(_NO_WRAP)), soft_wrap=True)
            continue
        # A wrapped line keeps its indent.
        words = text.lstrip(" ")
        indent = len(text) - len(words)
        console.print(Padding(Text.from_ansi(words), (0, 0, 0, indent)))
    lines = [text.rstrip() for text in out.getvalue().rstrip().split("\n")]
    return "\n".join(lines) + "\n"
