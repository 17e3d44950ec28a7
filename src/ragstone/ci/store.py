"""What a store for baselines does: keep archives of run directories by commit. It knows nothing of their content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.archive import read_members

MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
ENDING = ".zip"
KEPT = 20
"""Number of runs that a store keeps at least."""


class StoreFailed(Exception):  # noqa: N818 - an outcome to report
    """The store can't be read or written; the message is a clause without secrets."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A run in a store, not read yet.

    `read` takes the limits of the members that are wanted, and raises ArchiveRefused, StoreFailed and ApiRefused.
    `commit` is the commit that the run is of; if `exact`, its manifest must say so. `holds` says whether a commit is on
    the branch that the store is of: a run carries the baseline it was compared with, which may be of any commit.
    `refused`: why the run needn't be read. `run_id`, `url`, `branch` and `created_at` are those of the platform's run,
    where it has one.
    """

    place: str
    read: Callable[[Mapping[str, int]], dict[str, bytes]]
    holds: Callable[[str], bool]
    commit: str | None = None
    exact: bool = False
    refused: str | None = None
    run_id: int = 0
    url: str = ""
    branch: str = ""
    created_at: str = ""


class BaselineStore(ABC):
    """Where the runs of a branch are kept. In messages it is called `name`, its runs are `where`, and a commit of its
    branch is `extent`. `hint` is the sentence for one that refuses to be read.
    """

    name = "The baseline store"
    hint = ""
    where = "in the store"
    extent = "before this one"

    @abstractmethod
    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:
        """What is kept for `ancestors` (newest first), in that order, looked up as it is asked for.

        Raises StoreFailed and ApiRefused.
        """

    def of_run(self, run_id: int) -> Stored | None:  # noqa: ARG002 - for stores that keep runs by their id
        """What the platform's run `run_id` left, if that run may be a baseline of the branch. Raises ApiRefused."""
        return None

    def why_empty(self) -> str:
        """A sentence for a store in which nothing was found."""
        return "No baseline: the store has no run of a commit before this one."

    @abstractmethod
    def keep(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:
        """Keep the run directory `run` for `commit`, in place of an earlier one. Where it is, in words.

        What is kept for `ancestors` beyond the newest KEPT can be dropped. Raises StoreFailed.
        """


def of_commit(commit: str, archive: bytes, place: str, ancestors: Sequence[str]) -> Stored:
    """An archive that was kept for `commit`, one of `ancestors`."""
    return Stored(
        place, lambda limits: read_members(archive, limits), ancestors.__contains__, commit=commit, exact=True
    )
