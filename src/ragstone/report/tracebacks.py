"""Shortens a traceback to the last frames of the user's own code, and the error."""

from __future__ import annotations

import re

MAX_FRAMES = 3
MAX_LOG_LINES = 6
"""Maximum number of lines of an error, or of output that is no traceback."""

_MAX_LINE_CHARACTERS = 300
_FRAME = re.compile(r'^  File "[^"\n]*", line \d+.*(?:\n    .*)*', re.MULTILINE)
_LIBRARY = re.compile(
    r'(site|dist)-packages[/\\]|[/\\]lib[/\\]python3|[/\\]Lib[/\\]|File "<'
)
_ERROR_MARKERS = re.compile(r"\s*[~^]+\s*")


def last_frames(detail: str | None) -> tuple[str, ...]:
    """Return the lines of the last frames of the user's code in `detail`, and of the
    error below them; if `detail` is no traceback, its last lines."""
    all_lines = (detail or "").rstrip().splitlines()
    lines = [
        line[:_MAX_LINE_CHARACTERS]
        for line in all_lines
        if not _ERROR_MARKERS.fullmatch(line)
    ]
    text = "\n".join(lines)
    frames = list(_FRAME.finditer(text))
    if not frames:
        return tuple(lines[-MAX_LOG_LINES:])
    own_frames = [
        frame[0] for frame in frames if not _LIBRARY.search(frame[0].partition("\n")[0])
    ]
    after_frames = text[frames[-1].end() :].splitlines()
    error = after_frames[1 : MAX_LOG_LINES + 1]
    shown_frames = own_frames or [frame[0] for frame in frames]
    frame_lines = "\n".join(shown_frames[-MAX_FRAMES:]).splitlines()
    return tuple(line.removeprefix("  ") for line in [*frame_lines, *error])
