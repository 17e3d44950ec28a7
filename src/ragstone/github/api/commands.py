"""What GitHub's runner reads: commands, as which no foreign text can act, and files,
never written through a link.

GitHub drops a summary over 1 MiB entirely, so ours is always smaller.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, TextIO

from msgspec import Struct

from ragstone.formatting import clipped
from ragstone.printable import ZERO_WIDTH_SPACE, clean, without_commands
from ragstone.settings.variables import Environ

Write = Callable[[str], None]
"""Writes text to the log of the job."""

COMMAND_FILES = (
    "GITHUB_OUTPUT",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Open the regular file `path`, which is created if it doesn't exist, to append to
    it.

    Raises OSError, also for a link, a pipe or a file with several names, which could
    lead elsewhere or block.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise OSError(0, "it is not a regular file", str(path))
        yield file


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def is_output_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def format_output(
    name: str, value: str, *, token: Callable[[], str] = lambda: secrets.token_hex(16)
) -> str:
    """One entry of the output file, with a random delimiter that does not occur in
    `value`.

    Raises ValueError for an invalid name.
    """
    if not is_output_name(name):
        raise ValueError(f"not a valid output name: {name!r}")
    delimiter = f"ragstone_{token()}"
    while delimiter in value:
        delimiter = f"ragstone_{token()}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def write_outputs(path: Path | None, values: Mapping[str, str]) -> None:
    """Append `values` to the output file; None (not in a step): do nothing. Raises
    OSError, also if the file is not regular."""
    if path is None:
        return
    entries = ""
    for name, value in values.items():
        text = value.encode("utf-8", "replace").decode("utf-8")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        entries += format_output(name, text)
    with appending(path) as file:
        file.write(entries.encode("utf-8"))


def output_path(environ: Environ, variable: str = "GITHUB_OUTPUT") -> Path | None:
    """The file in a runner's file variable, None if it is not set."""
    value = environ.get(variable, "")
    return Path(value) if value else None


MAX_BYTES = 1024 * 1024
_MARGIN = 4096


def write_summary(path: Path | None, text: str) -> bool:
    """Append `text` if it fits next to what the step has already written; None (not in
    a step): do nothing.

    Returns False if there is no room; nothing is ever truncated. Raises OSError, also
    if the file is not regular.
    """
    if path is None:
        return True
    with appending(path) as file:
        used_bytes = os.fstat(file.fileno()).st_size
        body = (text.removesuffix("\n") + "\n").encode("utf-8", "replace")
        if used_bytes + len(body) + 1 > MAX_BYTES - _MARGIN:
            return False
        file.write(b"\n" + body if used_bytes else body)
    return True


MAX_PER_LEVEL = 10
"""GitHub shows 10 annotations per level and step, and silently drops the rest."""

MAX_MESSAGE = 4_000


class Level(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


class Annotation(Struct, frozen=True):
    """An annotation for a `line` of a `file`, relative to the workspace; without a
    `file`, for the job."""

    level: Level
    message: str
    title: str | None = None
    file: str | None = None
    line: int | None = None


def escape_data(text: str) -> str:
    """Escape the message of a command: percent signs first, then line breaks."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def render_annotation(annotation: Annotation) -> str:
    properties = {"title": annotation.title or ""}
    # A name that can't be written verbatim would refer to another file, or none.
    if annotation.file is not None and _plain(annotation.file) == annotation.file:
        place = {"file": annotation.file, "line": str(annotation.line or "")}
        properties = {**place, **properties}
    listed = []
    for name, value in properties.items():
        if value:
            # Colons and commas separate properties.
            escaped = escape_data(_plain(value)).replace(":", "%3A").replace(",", "%2C")
            listed.append(f"{name}={escaped}")
    command = f"{annotation.level} {','.join(listed)}".strip()
    message = clipped(_plain(annotation.message), MAX_MESSAGE)
    return f"::{command}::{escape_data(message)}"


def print_annotations(annotations: Iterable[Annotation], out: TextIO) -> None:
    """Write the first ten `annotations` of each level as commands."""
    written: Counter[Level] = Counter()
    for annotation in annotations:
        written[annotation.level] += 1
        if written[annotation.level] <= MAX_PER_LEVEL:
            out.write(render_annotation(annotation) + "\n")
    out.flush()


def mask(secret: str, out: TextIO) -> None:
    """Make GitHub mask `secret` in the log. Multi-line secrets are masked line by line,
    like GitHub does."""
    out.write(_masks(secret))
    out.flush()


def _masks(secret: str) -> str:
    return "".join(
        f"::add-mask::{escape_data(line)}\n"
        for line in secret.splitlines()
        if line.strip()
    )


class Stopped:
    """Writes text while commands are stopped, until `word` is written as a command;
    masks secrets as they appear."""

    def __init__(self, out: TextIO, word: str) -> None:
        self._out = out
        self._word = word

    def __call__(self, text: str) -> None:
        if text:
            # The log viewer interprets escape sequences, and treats a carriage return
            # as a new line.
            shown = ZERO_WIDTH_SPACE.join(map(clean, text.split(ZERO_WIDTH_SPACE)))
            self._out.write(shown)
            self._out.flush()

    def mask(self, secret: str) -> None:
        """Make GitHub mask `secret` from now on. Thread-safe."""
        # In one piece, so that nothing else can be written while commands are active.
        self._out.write(
            f"\n::{self._word}::\n{_masks(secret)}::stop-commands::{self._word}\n"
        )
        self._out.flush()


@contextmanager
def commands_stopped(out: TextIO) -> Iterator[Stopped]:
    """Within the block, no written text acts as a command, neither ``::x::`` nor
    ``##[x]``.

    Yields the writer. The token is random and never passed to anything that produces
    such text.
    """
    word = f"ragstone-{secrets.token_hex(24)}"
    out.write(f"::stop-commands::{word}\n")
    try:
        yield Stopped(out, word)
    finally:
        out.write(f"\n::{word}::\n")
        out.flush()


def _plain(text: str) -> str:
    """Remove invisible, reordering and control characters, and commands in the old
    form."""
    return without_commands(clean(text))
