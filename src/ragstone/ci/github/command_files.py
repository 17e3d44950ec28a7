"""The files that GitHub's runner reads after a step, such as its outputs and summary: never written through a link.

GitHub drops a summary over 1 MiB entirely, so ours is always smaller.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

COMMAND_FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def append(path: Path, data: bytes) -> None:
    """Append `data` to the regular file `path`, which is created if it doesn't exist.

    Raises OSError, also for a link, a pipe or a file with several names, which could lead elsewhere or block.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        _refuse_irregular(os.fstat(descriptor), path)
        file.write(data)


def size(path: Path) -> int:
    """Size of `path` in bytes, 0 if it doesn't exist. Raises OSError like `append`."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    _refuse_irregular(found, path)
    return found.st_size


def _refuse_irregular(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise OSError(0, "it is not a regular file", str(path))


MAX_VALUE_BYTES = 200_000
"""GitHub allows 1 MB of outputs per job; longer values are left out rather than truncated."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def is_output_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def format_output(name: str, value: str, *, token: Callable[[], str] = lambda: secrets.token_hex(16)) -> str:
    """One entry of the output file, with a random delimiter that does not occur in `value`.

    Raises ValueError for an invalid name.
    """
    if not is_output_name(name):
        raise ValueError(f"not a valid output name: {name!r}")
    delimiter = f"ragstone_{token()}"
    while delimiter in value:
        delimiter = f"ragstone_{token()}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def write_outputs(path: Path | None, values: Mapping[str, str]) -> tuple[str, ...]:
    """Append `values` to the output file; None (not in a step): do nothing. Returns the names that were too long.

    Raises OSError, also if the file is not regular.
    """
    too_long = tuple(name for name, value in values.items() if len(value.encode("utf-8", "replace")) > MAX_VALUE_BYTES)
    if path is None:
        return too_long
    kept = {name: "" if name in too_long else _one_encoding(value) for name, value in values.items()}
    append(path, "".join(format_output(name, value) for name, value in kept.items()).encode("utf-8"))
    return too_long


def output_path(environ: Mapping[str, str], variable: str = "GITHUB_OUTPUT") -> Path | None:
    """The file in a runner's file variable, None if it is not set."""
    value = environ.get(variable, "")
    return Path(value) if value else None


def _one_encoding(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


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
