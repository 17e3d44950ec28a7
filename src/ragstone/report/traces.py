"""The end of a traceback, as one wants to read it: the last frames of the user's own
code, and the error."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_FRAMES = 3
MAX_LOG_LINES = 6
"""Number of lines of what is no traceback: the last words of a process."""

_MAX_LINE = 300
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line \d+')
_LIBRARY = re.compile(
    r"site-packages[/\\]|dist-packages[/\\]|[/\\]lib[/\\]python3|[/\\]Lib[/\\]|^<"
)
_MARKS = re.compile(r"\s*[~^]+\s*")


def last_frames(detail: str | None) -> tuple[str, ...]:
    """The last frames of the user's code in `detail`, and the error below them; or else
    its last lines."""
    lines = [
        line[:_MAX_LINE]
        for line in (detail or "").rstrip().splitlines()
        if not _MARKS.fullmatch(line)
    ]
    starts = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not starts:
        return tuple(lines[-MAX_LOG_LINES:])
    frames = [_frame(lines, start) for start in starts]
    own_frames = [frame for frame in frames if not _is_library(frame[0])]
    shown: list[str] = []
    for frame in (own_frames or frames)[-MAX_FRAMES:]:
        shown += frame
    end = starts[-1] + len(frames[-1])
    shown += lines[end : end + MAX_LOG_LINES]
    return tuple(line.removeprefix("  ") for line in shown)


def _frame(lines: Sequence[str], start: int) -> list[str]:
    """The line with the file, and the source below it, which is indented further."""
    end = start + 1
    while end < len(lines) and lines[end].startswith("    "):
        end += 1
    return [lines[start], *lines[start + 1 : end]]


def _is_library(line: str) -> bool:
    match = _FRAME.match(line)
    return match is None or _LIBRARY.search(match["file"]) is not None
