"""What a store for baselines does: keep archives of run directories by commit. It knows nothing of their content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
ENDING = ".zip"
KEPT = 20
"""Number of runs that a store keeps at least."""


class StoreFailed(Exception):  # noqa: N818 - an outcome to report
    """The store can't be read or written; the message is a clause without secrets."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An archive from a store. `prefix` is the folder of the run in it.

    `commit` is the commit that it was kept for, which the run in it must have; None: the store itself vouches that it
    comes from the branch.
    """

    archive: bytes = field(repr=False)
    commit: str | None
    place: str
    prefix: str = ""


class BaselineStore(Protocol):
    """Where the runs of a branch are kept."""

    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:
        """The archives kept for `ancestors` (newest first), in that order, read as they are asked for.

        Raises StoreFailed.
        """
        ...

    def keep(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:
        """Keep the run directory `run` for `commit`, in place of an earlier one. Where it is, in words.

        What is kept for `ancestors` beyond the newest KEPT can be dropped. Raises StoreFailed.
        """
        ...
