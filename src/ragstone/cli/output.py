"""Prints lines for the user: wrapped at words on a terminal, unchanged in a file or a
pipe."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstone.printable import shown_name
from ragstone.report.escape import escape_terminal

if TYPE_CHECKING:
    from ragstone.report.page import PackedChunk
    from ragstone.report.parts import Document
    from ragstone.report.render import Format
    from ragstone.report.templates import Templates

_LABEL = re.compile(r"^\S+(?: \S+)* {2,}(?=\S)")
"""Words at the beginning of a line that two or more spaces separate from the rest."""

_MIN_COLUMNS = 40


def say(text: str, *, err: bool = False, label: str = "") -> None:
    """Print `text`, made safe for a terminal, to standard output or standard error. If
    it starts with `label`, that is red."""
    stream = sys.stderr if err else sys.stdout
    shown = escape_terminal(text)
    if stream.isatty():
        width = max(_MIN_COLUMNS, shutil.get_terminal_size().columns)
        lines = [wrapped(line, width) for line in shown.split("\n")]
        shown = "\n".join(chain.from_iterable(lines))
    styled = click.style(label, fg="red", bold=True)
    click.echo(styled + shown.removeprefix(label), err=err)


def print_text(text: str, output: Path | None) -> None:
    """Write `text` to the file `output`, or print it unchanged if there is none."""
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)


def show_report(
    document: Document,
    format_name: Format,
    output: Path | None,
    *,
    verbose: bool,
    packed_samples: Iterable[PackedChunk] = (),
    templates: Templates | None = None,
) -> None:
    """Print a report, or write the whole report to the file `output`. `packed_samples` are the
    samples of an HTML report."""
    from ragstone.report.render import render
    from ragstone.report.terminal import print_report

    if output is None and format_name == "text":
        print_report(document, verbose=verbose)
    else:
        text = render(
            document,
            format_name,
            templates=templates,
            packed_samples=packed_samples,
        )
        print_text(text, output)


def show(
    format_name: str, document: Callable[[], object], text: Callable[[], str]
) -> None:
    """Print the result of a command: `document` as JSON in the format ``json``, else
    `text`."""
    if format_name == "json":
        click.echo(json.dumps(document(), indent=2))
    else:
        say(text())


def wrapped(line: str, width: int) -> list[str]:
    """`line` in lines of at most `width` columns, broken between words only. They are
    indented like the first one, or up to the end of its label."""
    label = _LABEL.match(line)
    indent_width = len(line) - len(line.lstrip())
    if label:
        indent_width = len(label.group())
    indent = " " * indent_width
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    ) or [""]


def linked(path: Path) -> str:
    """`path` for standard output. On a terminal, it is a link to the file (OSC 8)."""
    shown = escape_terminal(shown_name(str(path)))
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return shown
    return f"\x1b]8;;{path.resolve().as_uri()}\x1b\\{shown}\x1b]8;;\x1b\\"


def check_output(path: Path) -> None:
    """Raise ConfigError if `path`, to be written to, is a link."""
    from ragstone.errors import disk_errors
    from ragstone.files import refuse_link

    with disk_errors(path, "can't be written"):
        refuse_link(path)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`. Raises ConfigError, also if it is a link."""
    from ragstone.errors import disk_errors

    check_output(path)
    with disk_errors(path, "can't be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
