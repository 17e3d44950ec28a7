"""The job summary. One that is over 1 MiB is dropped whole by GitHub, so ours never is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

MAX_BYTES = 1024 * 1024
_MARGIN = 4096


def write_summary(path: Path | None, renderings: Iterable[str]) -> bool:
    """Append the first of `renderings` (fullest first) that fits beside what the step has written already.

    Returns False where no file is known or nothing fits; nothing is ever cut.
    """
    if path is None:
        return False
    taken = path.stat().st_size if path.exists() else 0
    for text in renderings:
        body = (text if text.endswith("\n") else text + "\n").encode("utf-8", "replace")
        if taken + len(body) + 1 <= MAX_BYTES - _MARGIN:
            with path.open("ab") as file:
                file.write(b"\n" + body if taken else body)
            return True
    return False
