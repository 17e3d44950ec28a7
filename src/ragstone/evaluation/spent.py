"""What judging a run has cost, kept call by call in its directory, so that a resumed
run counts on from there."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone.errors import RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.files import writing_to
from ragstone.evaluation.manifest import Cost
from ragstone.files import read_regular
from ragstone.judge.protocol import Ledger

_BYTES = 256
"""The size of the file. It is written whole each time, at once, so that it is whole
when the process is killed."""


def read_spent(path: Path) -> Ledger:
    """What was spent; nothing if there is no file. Raises RunDirectoryError if it can't
    be read."""
    if not os.path.lexists(path):
        return Ledger()
    what, hint = (
        "what the run has spent can't be read",
        "Start over without --resume; the cache is kept.",
    )
    with (
        disk_errors(path, what, kind=RunDirectoryError, hint=hint),
        parse_errors(path, what, kind=RunDirectoryError, hint=hint),
    ):
        cost = Cost.model_validate_json(read_regular(path, limit=_BYTES))
    return Ledger(**cost.model_dump(exclude={"usd"}), cost_usd=cost.usd)


def write_spent(path: Path, spent: Ledger) -> None:
    """Write what was spent. Follows no link. Raises RunDirectoryError."""
    with writing_to(path):
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644
        )
        try:
            os.write(
                descriptor, Cost.of(spent).model_dump_json().ljust(_BYTES).encode()
            )
        finally:
            os.close(descriptor)
