"""The job summary. One that is over 1 MiB is dropped whole by GitHub, so ours never is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragstone.github.command_files import append, size

MAX_BYTES = 1024 * 1024
_MARGIN = 4096


def write_summary(path: Path | None, renderings: Iterable[str]) -> bool:
    """Append the first of `renderings` (fullest first) that fits beside what the step has written already.

    Returns False where no file is known or nothing fits; nothing is ever cut. Raises OSError; also where the
    file is not a regular one.
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
