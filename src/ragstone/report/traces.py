"""The end of a traceback, as one wants to read it: the last frames of the user's own
code, and the error."""

from __future__ import annotations

import re
from itertools import pairwise

MAX_FRAMES = 3
MAX_LOG_LINES = 6
"""Number of lines of what is no traceback: the last words of a process."""

_MAX_LINE = 300
_FRAME = re.compile(r'  File "[^"]*", line \d+')
_LIBRARY = re.compile(
    r'(site|dist)-packages[/\\]|[/\\]lib[/\\]python3|[/\\]Lib[/\\]|File "<'
)
_MARKS = re.compile(r"\s*[~^]+\s*")


def last_frames(detail: str | None) -> tuple[str, ...]:
    """The last frames of the user's code in `detail`, and the error below them; or else
    its last lines."""
    all_lines = (detail or "").rstrip().splitlines()
    lines = [line[:_MAX_LINE] for line in all_lines if not _MARKS.fullmatch(line)]
    starts = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not starts:
        return tuple(lines[-MAX_LOG_LINES:])
    error = starts[-1] + 1
    while error < len(lines) and lines[error].startswith("    "):
        error += 1
    frames = [lines[start:end] for start, end in pairwise([*starts, error])]
    own_frames = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    shown: list[str] = []
    for frame in (own_frames or frames)[-MAX_FRAMES:]:
        shown += frame
    shown += lines[error : error + MAX_LOG_LINES]
    return tuple(line.removeprefix("  ") for line in shown)
