"""Workflow commands: annotations within GitHub's limits, and output in which foreign text can't act as a command."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

from ragstone.printable import ZERO_WIDTH_SPACE, clean, without_commands

MAX_PER_LEVEL = 10
"""GitHub shows 10 annotations per level and step, and silently drops the rest."""

MAX_MESSAGE = 4_000


class Level(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation for a line of a file, or for the job if `file` is None. `file` is relative to the workspace."""

    level: Level
    message: str
    title: str | None = None
    file: str | None = None
    line: int | None = None


def escape_data(text: str) -> str:
    """Escape the message of a command: percent signs first, then line breaks."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Escape a property of a command: like `escape_data`, plus colon and comma, which separate properties."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def render_annotation(annotation: Annotation) -> str:
    # A name that can't be written verbatim would refer to another file, or none.
    file = annotation.file if annotation.file is not None and _plain(annotation.file) == annotation.file else None
    properties = {
        "file": file,
        "line": str(annotation.line) if annotation.line is not None and file else None,
        "title": annotation.title,
    }
    listed = ",".join(f"{name}={escape_property(_plain(value))}" for name, value in properties.items() if value)
    message = _plain(annotation.message)
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - 1] + "…"
    return f"::{annotation.level}{' ' if listed else ''}{listed}::{escape_data(message)}"


def within_limits(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    """The first ten of each level. If some are left out, the tenth says how many."""
    by_level: dict[Level, list[Annotation]] = {level: [] for level in Level}
    for annotation in annotations:
        by_level[annotation.level].append(annotation)
    kept: list[Annotation] = []
    for level, found in by_level.items():
        if len(found) <= MAX_PER_LEVEL:
            kept += found
            continue
        left_out = len(found) - (MAX_PER_LEVEL - 1)
        kept += found[: MAX_PER_LEVEL - 1]
        kept.append(Annotation(level, f"{left_out} more are listed in the job summary."))
    return tuple(kept)


def print_annotations(annotations: Iterable[Annotation], out: TextIO) -> None:
    """Write `annotations`, limited, as commands."""
    for annotation in within_limits(annotations):
        out.write(render_annotation(annotation) + "\n")
    out.flush()


def mask(secret: str, out: TextIO) -> None:
    """Make GitHub mask `secret` in the log. Multi-line secrets are masked line by line, like GitHub does."""
    out.write(_masks(secret))
    out.flush()


def _masks(secret: str) -> str:
    return "".join(f"::add-mask::{escape_data(line)}\n" for line in secret.splitlines() if line.strip())


class Stopped:
    """Writes text while commands are stopped, until `word` is written as a command; masks secrets as they appear."""

    def __init__(self, out: TextIO, word: str) -> None:
        self._out = out
        self._word = word
        self.ends_line = True

    def __call__(self, text: str) -> None:
        if text:
            # The log viewer interprets escape sequences, and treats a carriage return as a new line.
            shown = ZERO_WIDTH_SPACE.join(map(clean, text.split(ZERO_WIDTH_SPACE)))
            self._out.write(shown)
            self._out.flush()
            self.ends_line = shown.endswith("\n")

    def mask(self, secret: str) -> None:
        """Make GitHub mask `secret` from now on. Thread-safe."""
        # In one piece, so that nothing else can be written while commands are active.
        self._out.write(f"\n::{self._word}::\n{_masks(secret)}::stop-commands::{self._word}\n")
        self._out.flush()


@contextmanager
def commands_stopped(out: TextIO, *, token: Callable[[], str] = lambda: secrets.token_hex(24)) -> Iterator[Stopped]:
    """Within the block, no written text acts as a command, neither ``::x::`` nor ``##[x]``.

    Yields the writer. The token is random and never passed to anything that produces such text.
    """
    word = f"ragstone-{token()}"
    out.write(f"::stop-commands::{word}\n")
    write = Stopped(out, word)
    try:
        yield write
    finally:
        out.write(f"{'' if write.ends_line else chr(10)}::{word}::\n")
        out.flush()


@contextmanager
def group(title: str, out: TextIO) -> Iterator[None]:
    """Group the output of the block under `title`."""
    out.write(f"::group::{escape_data(_plain(title))}\n")
    try:
        yield
    finally:
        out.write("::endgroup::\n")
        out.flush()


def _plain(text: str) -> str:
    """Remove invisible, reordering and control characters, and commands in the old form."""
    return without_commands(clean(text))
