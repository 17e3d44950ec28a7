"""Looks for the baseline, the newest run that can be one, in a folder or among GitHub's
artifacts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.archive import ArchiveRefused
from ragstone.errors import RagstoneError, RunDirectoryError
from ragstone.evaluation.archive_members import MEMBER_LIMITS, unpack_run
from ragstone.evaluation.directory import HISTORY, RunDirectory
from ragstone.evaluation.lineage import carried_run
from ragstone.evaluation.replay import confirm
from ragstone.history.file import History, parse_history

MAX_READ = 10
"""How many archives are read at most."""

_MAX_SHOWN_REFUSALS = 3


class StoreFailed(Exception):  # noqa: N818 - an outcome to report
    """The store can't be read or written.

    The message is a clause without secrets; `hint` is a sentence, or empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class StoredRun(Struct, frozen=True):
    """A run in a store that has not been read yet. `place` says where it is, and the
    last four fields are those of GitHub's run."""

    place: str
    read: Callable[[Mapping[str, int]], dict[str, bytes]]
    """Reads the members of its archive that are named, each up to its limit in bytes.
    Raises ArchiveRefused and StoreFailed."""
    is_on_branch: Callable[[str], bool]
    """Tells whether a commit is on the store's branch. A run carries the baseline that
    it was compared with, which may be of any commit."""
    commit: str
    exact: bool = False
    """Whether the manifest of the run must name `commit`."""
    refused: str | None = None
    """Why the run can't be a baseline, if that is known without reading it."""
    run_id: int = 0
    url: str = ""
    branch: str = ""
    created_at: str = ""


class BaselineStore(ABC):
    """Where the runs of a branch are saved."""

    # The words of messages: "None of the newest runs in the folder can be a baseline".
    name = "The baseline folder"
    where = "in the folder"
    extent = "before this one"  # as a commit of the branch is

    @abstractmethod
    def newest(self) -> Iterator[StoredRun]:
        """The runs that may be baselines, newest first. Each is looked up only when the
        iteration reaches it. Raises StoreFailed."""

    @abstractmethod
    def why_empty(self) -> str:
        """A sentence that says why there is no run in the store."""


class TrustedBaseline(Struct, frozen=True):
    """A run that a store vouches for. Its scores have not been confirmed yet. Outside of
    GitHub, its `run_id` is 0."""

    place: str
    sha: str
    created_at: str
    run: RunDirectory
    run_id: int = 0
    url: str = ""
    branch: str = ""
    carried_by: int | None = None
    """The id of the run that carries it; None if it was saved by itself."""


class Comparison(Struct, frozen=True):
    """What a run is compared with: `run`, the baseline."""

    run: RunDirectory | None = None
    trusted: TrustedBaseline | None = None
    """The baseline as its store has it."""
    reason: str = ""
    """Why there is no baseline, in a sentence."""
    unproven: str | None = None
    """Why the run can't pass without a baseline, in a sentence."""
    history: History = field(default_factory=History)
    damage: tuple[str, ...] = ()
    """What is wrong with the history of the branch."""


def open_baseline_in(store: BaselineStore, directory: Path) -> Comparison:
    """Open the newest baseline in `store`, in the new `directory`, and the history of
    the branch."""
    search = BaselineSearch(store, directory)
    baseline = search.find()
    comparison = Comparison(reason=search.reason)
    if search.history is not None:
        try:
            history = parse_history(search.history, HISTORY)
            comparison = replace(comparison, history=history)
        except RagstoneError as error:
            damage = (
                f"The history can't be used, so drift is not measured: {error.message}"
            )
            comparison = replace(comparison, damage=(damage,))
    if baseline is None and search.is_unread:
        unproven = f"Not proven, because a baseline could not be read. {search.reason}"
        return replace(comparison, unproven=unproven)
    if baseline is None:
        return comparison
    try:
        run = confirm(baseline.run)
    except RagstoneError as error:
        reason = f"The baseline in {baseline.place} can't be used: {error.message}"
        return replace(comparison, reason=reason, unproven=f"Not proven. {reason}")
    return replace(comparison, run=run, trusted=baseline)


class BaselineSearch(Struct):
    """A search for the newest baseline in a store. Runs are opened in `directory`.

    If a run can't be a baseline, the one that it carries is taken. A broken archive or
    store is a reason why there is no baseline, never an error.
    """

    store: BaselineStore
    directory: Path
    runs_seen: int = 0
    archives_read: int = 0
    refusals: list[str] = []
    reason: str = ""
    """Why there is no baseline, in a sentence."""
    is_unread: bool = False
    """Whether there may be a baseline that could not be read."""
    history: bytes | None = None
    """The history in the newest run that has one. That run may be later than the
    baseline."""

    def find(self) -> TrustedBaseline | None:
        """The newest baseline; None, with a `reason`, if there is none."""
        store = self.store
        try:
            for stored in store.newest():
                if self.archives_read == MAX_READ:
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
        if self.runs_seen:
            because = ""
            if self.refusals:
                reasons = "; ".join(self.refusals[:_MAX_SHOWN_REFUSALS])
                because = f" ({reasons})"
            self.reason = (
                f"None of the newest runs {store.where} can be a baseline{because}."
            )
        return None

    def _look_at(self, stored: StoredRun) -> TrustedBaseline | None:
        """The run in `stored` if it can be a baseline, or the one that it carries; None
        if neither can be used."""
        self.runs_seen += 1
        try:
            if stored.refused is not None:
                raise ArchiveRefused(stored.refused)
            self.archives_read += 1
            files = stored.read(MEMBER_LIMITS)
            run = _open_run(files, self.directory / str(self.archives_read))
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
        """The baseline that `run` carries; None if there is none that can be used."""
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
        # On GitHub, the baseline's own run, if the run that carries it says which one.
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


def _open_run(files: Mapping[str, bytes], directory: Path) -> RunDirectory:
    """Write the `files` of an archive to `directory`, and open them as a run. Raises
    ArchiveRefused."""
    try:
        return unpack_run(files, directory)
    except RunDirectoryError:
        raise ArchiveRefused("it contains no run that this version can read") from None
