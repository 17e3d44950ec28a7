"""The baseline: the newest run in a store that can be one, whichever store it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ragstone.archive import ArchiveRefused
from ragstone.ci.github.client import ApiReply, Commit, GitHubApi, GitHubApiError
from ragstone.ci.http import ApiRefused
from ragstone.ci.store import BaselineStore, Stored, StoreFailed
from ragstone.errors import RagstoneError
from ragstone.gate.policy import Policy
from ragstone.history.file import History, parse_history
from ragstone.run.archive_members import MEMBER_LIMITS, carried_run, manifest_of, open_members, own_run
from ragstone.run.directory import HISTORY, RunDirectory
from ragstone.run.manifest import Manifest

MAX_READ = 10
"""Number of archives that are read at most."""


@dataclass(frozen=True, slots=True)
class TrustedBaseline:
    """A run that a store vouches for. `files` are its members by name.

    `carried_by` is the place in the store whose archive contained it, if not its own. `history` comes from the newest
    run that left one, which may be a later run. `run_id` is 0 where the store knows no runs of a platform.
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
    """There is nothing to compare with; `reason` is one sentence. This is never a regression."""

    reason: str
    history: bytes | None = field(default=None, repr=False)
    is_empty: bool = False
    """Whether the store has nothing to look at."""


def find_baseline(store: BaselineStore, ancestors: Sequence[str] = ()) -> TrustedBaseline | NoBaseline:
    """The newest baseline in `store` for `ancestors`, the commits before this one, newest first.

    A run that can't be a baseline leads to the one it carries, else to the one it names. What is wrong with an archive
    or a store is a reason, never an error.
    """
    return _Search(store).find(ancestors)


class _Search:
    def __init__(self, store: BaselineStore) -> None:
        self._store = store
        self._seen = 0
        self._reads = 0
        self._refusals: list[str] = []
        self._history: bytes | None = None

    def find(self, ancestors: Sequence[str]) -> TrustedBaseline | NoBaseline:
        try:
            for stored in self._store.newest(ancestors):
                if self._reads == MAX_READ:
                    break
                found = self._look_at(stored)
                if found is not None:
                    return found
        except (StoreFailed, ApiRefused) as failed:
            hint = self._store.hint if isinstance(failed, ApiRefused) and failed.lacks_permission else ""
            return NoBaseline(f"{self._store.name} can't be read: {failed}. {hint}".rstrip(), self._history)
        return NoBaseline(self._why_none(), self._history, is_empty=not self._seen)

    def _look_at(self, stored: Stored) -> TrustedBaseline | None:
        """The baseline that `stored` leads to: itself, the one it carries, or the one it names."""
        if stored.history_only:
            with suppress(ArchiveRefused):
                self._read(stored)
            return None
        self._seen += 1
        try:
            files, manifest = self._read(stored)
            own = own_run(files)
            if own is not None:
                commit = stored.commit or manifest.system.commit or "unknown"
                return self._found(stored, commit, stored.created_at or manifest.created_at, own.files)
        except ArchiveRefused as refused:
            self._refusals.append(f"{stored.place} was left out: {refused.reason}")
            return None
        used = manifest.baseline.used if manifest.baseline is not None else None
        used_run = used.run_id if used is not None else None
        try:
            carried = carried_run(files)
            if carried is not None:
                commit = carried.manifest.system.commit or "unknown"
                if stored.is_on_branch(commit):
                    created = carried.manifest.created_at
                    return self._found(stored, commit, created, carried.files, carried_from=used_run or stored.run_id)
                raise ArchiveRefused(f"the baseline that it carries is of a commit that is not {self._store.extent}")
        except ArchiveRefused as refused:
            self._refusals.append(f"{stored.place} was left out: {refused.reason}")
        named = self._store.of_run(used_run) if used_run is not None and self._reads < MAX_READ else None
        return self._look_at(named) if named is not None else None

    def _read(self, stored: Stored) -> tuple[dict[str, bytes], Manifest]:
        if stored.refused is not None:
            raise ArchiveRefused(stored.refused)
        self._reads += 1
        files = stored.read(MEMBER_LIMITS)
        manifest = manifest_of(files)
        commit = manifest.system.commit
        if stored.exact and commit != stored.commit:
            raise ArchiveRefused(f"it contains a run of commit {(commit or 'unknown')[:12]}")
        self._history = self._history or files.get(HISTORY)
        return files, manifest

    def _found(
        self, stored: Stored, commit: str, created: str, files: Mapping[str, bytes], carried_from: int | None = None
    ) -> TrustedBaseline:
        run_id, url = stored.run_id, stored.url
        if carried_from:
            run_id, url = carried_from, f"{url.removesuffix(str(stored.run_id))}{carried_from}"
        return TrustedBaseline(
            stored.place,
            commit,
            created,
            files,
            run_id=run_id,
            url=url,
            branch=stored.branch,
            carried_by=stored.run_id if carried_from is not None else None,
            history=self._history,
        )

    def _why_none(self) -> str:
        if not self._seen:
            return self._store.why_empty()
        why = f" ({'; '.join(self._refusals[:3])})" if self._refusals else ""
        if self._seen == 1:
            return f"The newest run {self._store.where} can't be a baseline{why}."
        return f"None of the newest {self._seen} runs {self._store.where} can be a baseline{why}."


_MERGED = re.compile(r"^Merge pull request #(\d{1,9}) |\(#(\d{1,9})\)\s*$")
_TAG_PAGES = 5


class _Tag(ApiReply):
    name: str
    commit: Commit


def history_from(body: bytes | None) -> tuple[History, str | None]:
    """The history in `body`, and a sentence if it can't be used."""
    if body is None:
        return History(), None
    try:
        return parse_history(body, HISTORY), None
    except RagstoneError as error:
        return History(), f"The history can't be used, so drift is not measured: {error.message}"


def tagged_commits(api: GitHubApi, policy: Policy) -> dict[str, str]:
    """The newest tags by commit, if the policy measures drift from a release. Never raises GitHubApiError."""
    if policy.drift.anchor != "release":
        return {}
    try:
        tags = list(api.pages(_Tag, f"{api.base}/tags", max_pages=_TAG_PAGES))
    except GitHubApiError:
        return {}  # the report says that the history has no release
    return {tag.commit.sha: tag.name for tag in reversed(tags)}


def merged_pull_request(message: str | None) -> int | None:
    """The pull request merged by a commit with this `message`, in GitHub's wording; None if there is none."""
    found = _MERGED.search((message or "").partition("\n")[0])
    return int(found[1] or found[2]) or None if found else None
