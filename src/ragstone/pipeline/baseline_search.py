"""The baseline: the newest run that can be one, in a folder or among GitHub's
artifacts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from ragstone.archive import ArchiveRefused
from ragstone.errors import RagstoneError, RunDirectoryError
from ragstone.evaluation.archive_members import MEMBER_LIMITS, unpack_run
from ragstone.evaluation.directory import HISTORY, RunDirectory
from ragstone.evaluation.lineage import carried_run
from ragstone.evaluation.replay import confirm
from ragstone.history.file import History, parse_history

MAX_READ = 10
"""Number of archives that are read at most."""


class StoreFailed(Exception):  # noqa: N818 - an outcome to report
    """The store can't be read or written. The message is a clause without secrets,
    `hint` a sentence or empty."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


class StoredRun(Struct, frozen=True):
    """A run in a store, not read yet.

    `read` takes the limits of the members that are wanted, and raises ArchiveRefused
    and StoreFailed. `commit` is the commit that the run is of; if `exact`, its manifest
    must say so. `is_on_branch` tells whether a commit is on the store's branch: a run
    carries the baseline it was compared with, which may be of any. `refused`: why the
    run needn't be read. `run_id`, `url`, `branch` and `created_at` are those of
    GitHub's run.
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

    @abstractmethod
    def why_empty(self) -> str:
        """A sentence for a store in which nothing was found."""


class TrustedBaseline(Struct, frozen=True):
    """A run that a store vouches for, as it is there: its scores are not confirmed.

    `carried_by` is the place in the store whose archive contained it, if not its own.
    `run_id` is 0 outside of GitHub.
    """

    place: str
    sha: str
    created_at: str
    run: RunDirectory
    run_id: int = 0
    url: str = ""
    branch: str = ""
    carried_by: int | None = None


class Comparison(Struct, frozen=True):
    """What a run is compared with: the `run` of the baseline, and `trusted`, how its
    store has it.

    `reason` says in a sentence why there is none, `unproven` why the run can't pass
    without it, and `damage` what is wrong with the `history` of the branch.
    """

    run: RunDirectory | None = None
    trusted: TrustedBaseline | None = None
    reason: str = ""
    unproven: str | None = None
    history: History = field(default_factory=History)
    damage: tuple[str, ...] = ()


def open_baseline_in(store: BaselineStore, directory: Path) -> Comparison:
    """The newest baseline in `store`, opened in the new `directory`, and the history of
    the branch."""
    search = BaselineSearch(store, directory)
    baseline = search.find()
    history, damage = History(), tuple[str, ...]()
    if search.history is not None:
        try:
            history = parse_history(search.history, HISTORY)
        except RagstoneError as error:
            damage = (
                f"The history can't be used, so drift is not measured: {error.message}",
            )
    if baseline is None:
        reason, unproven = search.reason, None
        if search.is_unread:
            unproven = f"Not proven, because a baseline could not be read. {reason}"
        return Comparison(None, None, reason, unproven, history, damage)
    try:
        run = confirm(baseline.run)
    except RagstoneError as error:
        reason = f"The baseline in {baseline.place} can't be used: {error.message}"
        return Comparison(None, None, reason, f"Not proven. {reason}", history, damage)
    return Comparison(run, baseline, history=history, damage=damage)


class BaselineSearch(Struct):
    """Looks for the newest baseline in a store. Runs are opened below the new
    `directory`.

    A run that can't be a baseline leads to the one it carries. What is wrong with an
    archive or a store is a reason, never an error.
    """

    store: BaselineStore
    directory: Path
    seen: int = 0
    reads: int = 0
    refusals: list[str] = []
    reason: str = ""
    """Why there is none, in a sentence. This is never a regression."""
    is_unread: bool = False
    """Whether there may be one: the store, or a run in it, could not be read."""
    history: bytes | None = None
    """That of the newest run that left one, which may be later than the baseline."""

    def find(self) -> TrustedBaseline | None:
        store = self.store
        try:
            for stored in store.newest():
                if self.reads == MAX_READ:
                    break
                baseline = self._look_at(stored)
                if baseline is not None:
                    return baseline
        except StoreFailed as failed:
            self.is_unread = True
            self.reason = (
                f"{store.name} can't be read: {failed}. {failed.hint}".rstrip()
            )
            return None
        self.reason = store.why_empty()
        if self.seen:
            why = ""
            if self.refusals:
                reasons = "; ".join(self.refusals[:3])
                why = f" ({reasons})"
            self.reason = (
                f"None of the newest runs {store.where} can be a baseline{why}."
            )
        return None

    def _look_at(self, stored: StoredRun) -> TrustedBaseline | None:
        """The baseline in `stored`: itself, or the one that it carries."""
        self.seen += 1
        try:
            if stored.refused is not None:
                raise ArchiveRefused(stored.refused)
            self.reads += 1
            files = stored.read(MEMBER_LIMITS)
            run = _opened(files, self.directory / str(self.reads))
            commit = run.manifest.system.commit
            if stored.exact and commit != stored.commit:
                raise ArchiveRefused(
                    f"it contains a run of commit {(commit or 'unknown')[:12]}"
                )
        except ArchiveRefused as refused:
            self._refuse(stored, refused.reason)
            self.is_unread = self.is_unread or stored.refused is None
            return None
        self.history = self.history or files.get(HISTORY)
        if run.manifest.standing.eligible:
            return TrustedBaseline(
                stored.place,
                stored.commit,
                stored.created_at or run.manifest.created_at,
                run,
                stored.run_id,
                stored.url,
                stored.branch,
            )
        return self._carried_by(run, stored)

    def _carried_by(
        self, run: RunDirectory, stored: StoredRun
    ) -> TrustedBaseline | None:
        """The baseline that `run`, which can't be one, carries."""
        try:
            carried = carried_run(run)
        except RunDirectoryError as error:
            self._refuse(stored, f"the baseline that it carries: {error.message}")
            return None
        if carried is None:
            return None
        commit = carried.manifest.system.commit or "unknown"
        if not stored.is_on_branch(commit):
            why = f"the baseline that it carries is of a commit that is not {self.store.extent}"
            self._refuse(stored, why)
            return None
        used = run.manifest.used
        run_id, url = stored.run_id, stored.url
        if used is not None and used.run_id:
            run_id = used.run_id
            url = f"{url.removesuffix(str(stored.run_id))}{run_id}"
        return TrustedBaseline(
            stored.place,
            commit,
            carried.manifest.created_at,
            carried,
            run_id,
            url,
            stored.branch,
            carried_by=stored.run_id,
        )

    def _refuse(self, stored: StoredRun, why: str) -> None:
        self.refusals.append(f"{stored.place} was left out: {why}")


def _opened(files: Mapping[str, bytes], directory: Path) -> RunDirectory:
    """The run of an archive. Raises ArchiveRefused."""
    try:
        return unpack_run(files, directory)
    except RunDirectoryError:
        raise ArchiveRefused("it contains no run that this version can read") from None
