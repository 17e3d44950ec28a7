"""Step outputs, written to the file in GITHUB_OUTPUT."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from ragstone.ci.github.command_files import append

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
