"""What a store for baselines does: save archives of run directories by commit. It knows nothing of their content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.archive import read_members

MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
ENDING = ".zip"
MIN_SAVED = 20
"""Number of runs that a store has at least, before it removes old ones."""


class StoreFailed(Exception):  # noqa: N818 - an outcome to report
    """The store can't be read or written; the message is a clause without secrets."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A run in a store, not read yet.

    `read` takes the limits of the members that are wanted, and raises ArchiveRefused, StoreFailed and ApiRefused.
    `commit` is the commit that the run is of; if `exact`, its manifest must say so. `is_on_branch` tells
    whether a commit is on the store's branch: a run carries the baseline it was compared with, which may be of any.
    `refused`: why the run needn't be read. `history_only`: it can't be a baseline, but its history counts. `run_id`,
    `url`, `branch` and `created_at` are those of the platform's run, where it has one.
    """

    place: str
    read: Callable[[Mapping[str, int]], dict[str, bytes]]
    is_on_branch: Callable[[str], bool]
    commit: str | None = None
    exact: bool = False
    refused: str | None = None
    history_only: bool = False
    run_id: int = 0
    url: str = ""
    branch: str = ""
    created_at: str = ""


class BaselineStore(ABC):
    """Where the runs of a branch are saved. In messages it is called `name`, its runs are `where`, and a commit of its
    branch is `extent`. `hint` is the sentence for one that refuses to be read.
    """

    name = "The baseline store"
    hint = ""
    where = "in the store"
    extent = "before this one"

    @abstractmethod
    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:
        """What is saved for `ancestors` (newest first), in that order, looked up as it is asked for.

        Raises StoreFailed and ApiRefused.
        """

    def of_run(self, run_id: int) -> Stored | None:  # noqa: ARG002 - for stores that know runs by their id
        """What the platform's run `run_id` left, if that run may be a baseline of the branch. Raises ApiRefused."""
        return None

    def why_empty(self) -> str:
        """A sentence for a store in which nothing was found."""
        return "No baseline: the store has no run of a commit before this one."

    @abstractmethod
    def save(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:
        """Save the run directory `run` for `commit`, in place of an earlier one. Where it is, in words.

        What is saved for `ancestors` beyond the newest MIN_SAVED can be removed. Raises StoreFailed.
        """


def of_commit(commit: str, archive: bytes, place: str, ancestors: Sequence[str]) -> Stored:
    """An archive that was saved for `commit`, one of `ancestors`."""
    return Stored(
        place, lambda limits: read_members(archive, limits), ancestors.__contains__, commit=commit, exact=True
    )
