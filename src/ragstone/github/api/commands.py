"""Writes what GitHub's runner reads: commands in the log, and files.

Text of others, such as answers, can't act as a command, and files are never written
through a link.
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
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
# Flags to open neither a link nor, waiting for its reader, a pipe. Windows lacks them.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextmanager
def open_to_append(path: Path) -> Iterator[BinaryIO]:
    """Open the regular file `path` to append to it, and create it if it doesn't exist.

    Raises OSError, also for a link, a pipe or a file with several hard links, which
    could lead elsewhere or block.
    """
    descriptor = os.open(path, _APPEND | _NO_LINK, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise OSError(0, "it is not a regular file", str(path))
        yield file


_OUTPUT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def is_output_name(name: str) -> bool:
    return _OUTPUT_NAME.fullmatch(name) is not None


def format_output(
    name: str, value: str, *, token: Callable[[], str] = lambda: secrets.token_hex(16)
) -> str:
    """An entry of the output file, with a random delimiter that doesn't occur in
    `value`. Raises ValueError for an invalid name."""
    if not is_output_name(name):
        raise ValueError(f"not a valid output name: {name!r}")
    delimiter = f"ragstone_{token()}"
    while delimiter in value:
        delimiter = f"ragstone_{token()}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def write_outputs(path: Path | None, values: Mapping[str, str]) -> None:
    """Append `values` to the output file `path`; without one, as outside of a step, do
    nothing. Raises OSError, also if the file is not regular."""
    if path is None:
        return
    entries = ""
    for name, value in values.items():
        text = value.encode("utf-8", "replace").decode("utf-8")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        entries += format_output(name, text)
    with open_to_append(path) as file:
        file.write(entries.encode("utf-8"))


def output_path(environ: Environ, variable: str = "GITHUB_OUTPUT") -> Path | None:
    """The file that a variable of the runner names; None if it is not set."""
    value = environ.get(variable, "")
    return Path(value) if value else None


MAX_SUMMARY_BYTES = 1024 * 1024 - 4096
"""GitHub drops a step's whole summary if it is larger than 1 MiB."""


def write_summary(path: Path | None, text: str) -> bool:
    """Append `text` to the summary `path`; without one, as outside of a step, do
    nothing.

    Returns False, and writes nothing, if the summary would become too large. Raises
    OSError, also if the file is not regular.
    """
    if path is None:
        return True
    with open_to_append(path) as file:
        used_bytes = os.fstat(file.fileno()).st_size
        body = (text.removesuffix("\n") + "\n").encode("utf-8", "replace")
        if used_bytes + len(body) + 1 > MAX_SUMMARY_BYTES:
            return False
        file.write(b"\n" + body if used_bytes else body)
    return True


MAX_PER_LEVEL = 10
"""GitHub shows 10 annotations per level and step, and silently drops any more."""

MAX_MESSAGE_CHARACTERS = 4_000


class Level(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


class Annotation(Struct, frozen=True):
    """An annotation for a line of a file, or for the whole job."""

    level: Level
    message: str
    title: str | None = None
    file: str | None = None
    """The path relative to the workspace; None for the whole job."""
    line: int | None = None


def escape_data(text: str) -> str:
    """Escape the message of a command: percent signs first, then line breaks."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def render_annotation(annotation: Annotation) -> str:
    """The command that makes GitHub show `annotation`."""
    properties = {"title": annotation.title or ""}
    # A name that can't be written verbatim would refer to another file, or none.
    if annotation.file is not None and _plain(annotation.file) == annotation.file:
        location = {"file": annotation.file, "line": str(annotation.line or "")}
        properties = {**location, **properties}
    assignments = []
    for name, value in properties.items():
        if value:
            # Colons and commas separate properties.
            escaped = escape_data(_plain(value)).replace(":", "%3A").replace(",", "%2C")
            assignments.append(f"{name}={escaped}")
    command = f"{annotation.level} {','.join(assignments)}".strip()
    message = clipped(_plain(annotation.message), MAX_MESSAGE_CHARACTERS)
    return f"::{command}::{escape_data(message)}"


def print_annotations(annotations: Iterable[Annotation], out: TextIO) -> None:
    """Write the first MAX_PER_LEVEL `annotations` of each level as commands."""
    written: Counter[Level] = Counter()
    for annotation in annotations:
        written[annotation.level] += 1
        if written[annotation.level] <= MAX_PER_LEVEL:
            out.write(render_annotation(annotation) + "\n")
    out.flush()


def mask(secret: str, out: TextIO) -> None:
    """Make GitHub mask `secret` in the log, each of its lines by itself, as GitHub
    masks its own secrets."""
    out.write(_mask_commands(secret))
    out.flush()


def _mask_commands(secret: str) -> str:
    return "".join(
        f"::add-mask::{escape_data(line)}\n"
        for line in secret.splitlines()
        if line.strip()
    )


class UntrustedWriter:
    """Writes text while commands are stopped. The command `token` starts them again."""

    def __init__(self, out: TextIO, token: str) -> None:
        self._out = out
        self._token = token

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
            f"\n::{self._token}::\n{_mask_commands(secret)}::stop-commands::{self._token}\n"
        )
        self._out.flush()


@contextmanager
def commands_stopped(out: TextIO) -> Iterator[UntrustedWriter]:
    """Stop commands within the block: neither ``::x::`` nor ``##[x]`` acts as one.
    Yields a writer for text of others."""
    # Random, and unknown to everything whose text is written.
    token = f"ragstone-{secrets.token_hex(24)}"
    out.write(f"::stop-commands::{token}\n")
    try:
        yield UntrustedWriter(out, token)
    finally:
        out.write(f"\n::{token}::\n")
        out.flush()


def _plain(text: str) -> str:
    """Remove invisible, reordering and control characters from `text`, and commands in
    the old form ``##[x]``."""
    return without_commands(clean(text))
