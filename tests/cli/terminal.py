"""Runs the command line on a pseudo-terminal, as in a window of some width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli.project import command, environment, ragstone

_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\]8;[^\x07\x1b]*(?:\x07|\x1b\\))")


@dataclass(frozen=True)
class Screen:
    """What was written to the terminal. `text` is without control sequences, and all spaces in it can be broken."""

    raw: str
    code: int

    @property
    def text(self) -> str:
        return _CONTROL.sub("", self.raw).replace("\r\n", "\n").replace("\xa0", " ")

    @property
    def lines(self) -> list[str]:
        return [line.rsplit("\r", 1)[-1] for line in self.text.split("\n")]


def on_terminal(arguments: Sequence[str], cwd: Path, *, columns: int, answers: str = "") -> Screen:
    """Run the command line with a terminal of `columns` as its only input and output; `answers` are typed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {key: value for key, value in environment().items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env={**env, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        if answers:
            os.write(ours, answers.encode())
        written = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            written += piece
        code = process.wait(timeout=120)
    os.close(ours)
    return Screen(written.decode("utf-8", "replace"), code)


def in_window(arguments: Sequence[str], cwd: Path, *, columns: int) -> Screen:
    """What the command line shows in this process, on streams that say that they are a terminal."""
    done = ragstone(arguments, cwd, columns=columns)
    return Screen(done.stdout + done.stderr, done.returncode)
