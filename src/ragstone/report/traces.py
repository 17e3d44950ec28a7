"""The end of a traceback, as one wants to read it: the last frames of the user's own
code, and the error."""

from __future__ import annotations

import re

MAX_FRAMES = 3
MAX_LOG_LINES = 6
"""Number of lines of what is no traceback: the last words of a process."""

_MAX_LINE = 300
_FRAME = re.compile(r'^  File "[^"\n]*", line \d+.*(?:\n    .*)*', re.MULTILINE)
_LIBRARY = re.compile(
    r'(site|dist)-packages[/\\]|[/\\]lib[/\\]python3|[/\\]Lib[/\\]|File "<'
)
_MARKS = re.compile(r"\s*[~^]+\s*")


def last_frames(detail: str | None) -> tuple[str, ...]:
    """The last frames of the user's code in `detail`, and the error below them; or else
    its last lines."""
    all_lines = (detail or "").rstrip().splitlines()
    lines = [line[:_MAX_LINE] for line in all_lines if not _MARKS.fullmatch(line)]
    text = "\n".join(lines)
    frames = list(_FRAME.finditer(text))
    if not frames:
        return tuple(lines[-MAX_LOG_LINES:])
    own_frames = [
        frame[0] for frame in frames if not _LIBRARY.search(frame[0].partition("\n")[0])
    ]
    after_frames = text[frames[-1].end() :].splitlines()
    error = after_frames[1 : MAX_LOG_LINES + 1]
    shown = own_frames or [frame[0] for frame in frames]
    return tuple(
        line.removeprefix("  ")
        for line in [*"\n".join(shown[-MAX_FRAMES:]).splitlines(), *error]
    )
