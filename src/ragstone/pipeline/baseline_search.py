"""The baseline: the newest run that can be one, in a folder or among GitHub's
artifacts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragstone.archive import ArchiveRefused
from ragstone.errors import RagstoneError
from ragstone.evaluation.archive_members import (
    MEMBER_LIMITS,
    carried_run,
    manifest_of,
    open_members,
    own_run,
)
from ragstone.evaluation.directory import HISTORY, RunDirectory
from ragstone.history.file import History, parse_history

MAX_READ = 10
"""Number of archives that are read at most."""


class StoreFailed(Exception):  # noqa: N818 - an outcome to report
    """The store can't be read or written. The message is a clause without secrets,
    `hint` a sentence or empty."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in a store, not read yet.

    `read` takes the limits of the members that are wanted, and raises ArchiveRefused
    and StoreFailed. `commit` is the commit that the run is of; if `exact`, its manifest
    must say so. `is_on_branch` tells whether a commit is on the store's branch: a run
    carries the baseline it was compared with, which may be of any. `refused`: why the
    run needn't be read. `run_id`, `url`, `branch` and `created_at` are those of GitHub's run.
    """

    place: str
    read: Callable[[Mapping[str, int]], dict[str, bytes]]
    is_on_branch: Callable[[str], bool]
    commit: str
    exact: bool = False
    refused: str | None = None
    run_id: int = 0
    url: str = ""
    branch: str = ""
    created_at: str = ""


class BaselineStore(ABC):
    """Where the runs of a branch are saved. In messages it is called `name`, its runs
    are `where`, and a commit of its branch is `extent`.
    """

    name = "The baseline folder"
    where = "in the folder"
    extent = "before this one"

    @abstractmethod
    def newest(self) -> Iterator[StoredRun]:
        """The runs that may be baselines, newest first, looked up as they are asked
        for. Raises StoreFailed."""

    def of_run(self, run_id: int) -> StoredRun | None:  # noqa: ARG002 - for stores that know runs by their id
        """What GitHub's run `run_id` left, if that run may be a baseline of the branch.
        Raises StoreFailed."""
        return None

    def why_empty(self) -> str:
        """A sentence for a store in which nothing was found."""
        return "No baseline: the folder has no run of a commit before this one."


@dataclass(frozen=True, slots=True)
class TrustedBaseline:
    """A run that a store vouches for. `files` are its members by name.

    `carried_by` is the place in the store whose archive contained it, if not its own.
    `history` comes from the newest run that left one, which may be a later run.
    `run_id` is 0 outside of GitHub.
    """

    place: str
    sha: str
    created_at: str
    files: Mapping[str, bytes] = field(repr=False)
    run_id: int = 0
    url: str = ""
    branch: str = ""
    carried_by: int | None = None
    history: bytes | None = field(default=None, repr=False)

    def materialise(self, directory: Path) -> RunDirectory:
        return open_members(self.files, directory)


@dataclass(frozen=True, slots=True)
class NoBaseline:
    """There is nothing to compare with; `reason` is one sentence. This is never a
    regression."""

    reason: str
    history: bytes | None = field(default=None, repr=False)
    is_empty: bool = False
    """Whether the store has nothing to look at."""
    is_unread: bool = False
    """Whether there may be a baseline: the store, or a run in it, could not be read."""

    @property
    def unproven(self) -> str | None:
        """Why a run can't pass without this baseline; None if it can."""
        if not self.is_unread:
            return None
        return f"Not proven, because a baseline could not be read. {self.reason}"


def find_baseline(store: BaselineStore) -> TrustedBaseline | NoBaseline:
    """The newest baseline in `store`.

    A run that can't be a baseline leads to the one it carries, else to the one it
    names. What is wrong with an archive or a store is a reason, never an error.
    """
    return _Search(store).find()


@dataclass(slots=True)
class _Search:
    store: BaselineStore
    seen: int = 0
    reads: int = 0
    refusals: list[str] = field(default_factory=list)
    is_unread: bool = False
    history: bytes | None = None

    def find(self) -> TrustedBaseline | NoBaseline:
        store = self.store
        try:
            for stored in store.newest():
                if self.reads == MAX_READ:
                    break
                baseline = self._look_at(stored)
                if baseline is not None:
                    return baseline
        except StoreFailed as failed:
            reason = f"{store.name} can't be read: {failed}. {failed.hint}".rstrip()
            return NoBaseline(reason, self.history, is_unread=True)
        if not self.seen:
            return NoBaseline(store.why_empty(), self.history, is_empty=True)
        why = f" ({'; '.join(self.refusals[:3])})" if self.refusals else ""
        reason = (
            f"None of the newest {self.seen} runs {store.where} can be a baseline{why}."
        )
        if self.seen == 1:
            reason = f"The newest run {store.where} can't be a baseline{why}."
        return NoBaseline(reason, self.history, is_unread=self.is_unread)

    def _look_at(self, stored: StoredRun) -> TrustedBaseline | None:
        """The baseline that `stored` leads to: itself, the one it carries, or the one
        it names."""
        self.seen += 1
        try:
            if stored.refused is not None:
                raise ArchiveRefused(stored.refused)
            self.reads += 1
            files = stored.read(MEMBER_LIMITS)
            manifest = manifest_of(files)
            commit = manifest.system.commit
            if stored.exact and commit != stored.commit:
                raise ArchiveRefused(
                    f"it contains a run of commit {(commit or 'unknown')[:12]}"
                )
            self.history = self.history or files.get(HISTORY)
            own = own_run(files)
        except ArchiveRefused as refused:
            self.refusals.append(f"{stored.place} was left out: {refused.reason}")
            self.is_unread = self.is_unread or stored.refused is None
            return None
        if own is not None:
            return TrustedBaseline(
                stored.place,
                stored.commit,
                stored.created_at or manifest.created_at,
                own.files,
                stored.run_id,
                stored.url,
                stored.branch,
                history=self.history,
            )
        used = manifest.baseline.used if manifest.baseline is not None else None
        used_run = used.run_id if used is not None else None
        try:
            carried = carried_run(files)
            if carried is not None:
                commit = carried.manifest.system.commit or "unknown"
                if not stored.is_on_branch(commit):
                    raise ArchiveRefused(
                        f"the baseline that it carries is of a commit that is not {self.store.extent}"
                    )
                run_id, url = used_run or stored.run_id, stored.url
                if run_id:
                    url = f"{url.removesuffix(str(stored.run_id))}{run_id}"
                return TrustedBaseline(
                    stored.place,
                    commit,
                    carried.manifest.created_at,
                    carried.files,
                    run_id,
                    url,
                    stored.branch,
                    carried_by=stored.run_id,
                    history=self.history,
                )
        except ArchiveRefused as refused:
            self.refusals.append(f"{stored.place} was left out: {refused.reason}")
        named = None
        if used_run is not None and self.reads < MAX_READ:
            named = self.store.of_run(used_run)
        return None if named is None else self._look_at(named)


def history_from(body: bytes | None) -> tuple[History, str | None]:
    """The history in `body`, and a sentence if it can't be used."""
    if body is None:
        return History(), None
    try:
        return parse_history(body, HISTORY), None
    except RagstoneError as error:
        return (
            History(),
            f"The history can't be used, so drift is not measured: {error.message}",
        )
