"""What judging a run has cost so far, written to its directory after each call, so that
a resumed run continues to count from there."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone.errors import RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.manifest import Cost
from ragstone.evaluation.run_files import writing_to
from ragstone.files import read_regular
from ragstone.judge.protocol import Ledger

_FILE_BYTES = 256
"""The fixed size of the file: it is overwritten by a single call, so that it is never
half written when the process is killed."""


def read_spent(path: Path) -> Ledger:
    """The cost in the file `path`; an empty ledger if there is no file. Raises
    RunDirectoryError if it can't be read."""
    if not os.path.lexists(path):
        return Ledger()
    problem = "what the run has spent can't be read"
    hint = "Start over without --resume; cached judgements are still used."
    with (
        disk_errors(path, problem, kind=RunDirectoryError, hint=hint),
        parse_errors(path, problem, kind=RunDirectoryError, hint=hint),
    ):
        cost = Cost.model_validate_json(read_regular(path, limit=_FILE_BYTES))
    return Ledger(**cost.model_dump(exclude={"usd"}), cost_usd=cost.usd)


def write_spent(path: Path, spent: Ledger) -> None:
    """Write the cost to the file `path`, but not through a link. Raises
    RunDirectoryError."""
    body = Cost.of(spent).model_dump_json().ljust(_FILE_BYTES)
    with writing_to(path):
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644
        )
        try:
            os.write(descriptor, body.encode())
        finally:
            os.close(descriptor)
