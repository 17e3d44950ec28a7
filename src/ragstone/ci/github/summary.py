"""The job summary. GitHub drops a summary over 1 MiB entirely, so ours is always smaller."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragstone.ci.github.command_files import append, size

MAX_BYTES = 1024 * 1024
_MARGIN = 4096


def write_summary(path: Path | None, renderings: Iterable[str]) -> bool:
    """Append the first of `renderings` (most detailed first) that fits next to what the step has already written.

    Returns False if there is no file or nothing fits; nothing is ever truncated. Raises OSError, also if the file is
    not regular.
    """
    if path is None:
        return False
    taken = size(path)
    for text in renderings:
        body = (text if text.endswith("\n") else text + "\n").encode("utf-8", "replace")
        if taken + len(body) + 1 <= MAX_BYTES - _MARGIN:
            append(path, b"\n" + body if taken else body)
            return True
    return False
