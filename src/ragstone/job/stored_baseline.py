"""The newest baseline in a store, and what is kept there: the rules of GitHub's artifacts, for any store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragstone.archive import ArchiveRefused, read_members
from ragstone.ci.platforms import job_of
from ragstone.ci.store import BaselineStore, Stored, StoreFailed
from ragstone.errors import RunDirectoryError
from ragstone.job.stores.git import Git
from ragstone.run.archive_members import MEMBER_LIMITS, EligibleRun, carried_run, manifest_of, open_members, own_run
from ragstone.run.directory import HISTORY, RunDirectory

MAX_READ = 10
"""Number of archives that are read at most."""

DEFAULT_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """What a store has: the baseline and a sentence on it, or None and the reason; and the history of the branch."""

    run: RunDirectory | None
    reason: str
    history: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str | None:
        """The baseline in a few words; None if there is none."""
        return None if self.run is None else f"commit {(self.run.manifest.system.commit or 'unknown')[:12]}"


def find_baseline(store: BaselineStore, git: Git, directory: Path) -> StoredBaseline:
    """The newest baseline among the commits before this one, written to `directory`, its scores recomputed.

    A run is taken for what its manifest says only if it is kept for the commit that the manifest names. One that can't
    be a baseline leads to the one it carries. What is wrong with an archive is a reason, never an error.
    """
    ancestors = git.ancestors()
    history: bytes | None = None
    refusals: list[str] = []
    seen = 0
    try:
        for stored in store.newest(ancestors):
            if seen == MAX_READ:
                break
            seen += 1
            try:
                files = _members(stored)
                found = _eligible(stored, files, ancestors)
                history = history or files.get(HISTORY)
                if found is not None:
                    run = open_members(found.files, directory)
                    return StoredBaseline(run, _described(found, stored), history)
            except ArchiveRefused as refused:
                refusals.append(f"{stored.place} was left out: {refused.reason}")
            except RunDirectoryError as error:
                return StoredBaseline(None, f"The baseline in {stored.place} can't be used: {error.message}", history)
    except StoreFailed as failed:
        return StoredBaseline(None, f"The baseline store can't be read: {failed}.", history)
    return StoredBaseline(None, _why_none(git, seen, refusals), history)


def refusal_of(environ: Mapping[str, str], git: Git, branch: str | None) -> str | None:
    """Why this job's run can't be a baseline whatever its verdict, as a clause; None if it can.

    `branch` is the branch whose runs are baselines (None: the default branch, as far as the CI system says it).
    """
    job = job_of(environ)
    if job is not None and job.request is not None:
        return "a merge request's run can't be one"
    ours = branch or (job.default_branch if job is not None else None) or DEFAULT_BRANCH
    built = job.branch if job is not None else git.branch()
    if built != ours:
        return f"it ran on {f'branch {built!r}' if built else 'no branch'}, and baselines come from '{ours}'"
    return None


def _members(stored: Stored) -> dict[str, bytes]:
    prefix = f"{stored.prefix}/" if stored.prefix not in ("", ".") else ""
    files = read_members(stored.archive, {f"{prefix}{name}": limit for name, limit in MEMBER_LIMITS.items()})
    return {name.removeprefix(prefix): content for name, content in files.items()}


def _eligible(stored: Stored, files: Mapping[str, bytes], ancestors: Sequence[str]) -> EligibleRun | None:
    """The run that the archive leads to: its own, or the one it carries. Raises ArchiveRefused."""
    commit = manifest_of(files).system.commit
    if stored.commit is not None and commit != stored.commit:
        raise ArchiveRefused(f"it contains a run of commit {(commit or 'unknown')[:12]}")
    found = own_run(files) or carried_run(files)
    if found is None:
        return None
    theirs = found.manifest.system.commit
    if stored.commit is not None and theirs not in ancestors:
        raise ArchiveRefused("the baseline that it carries is of a commit that is not before this one")
    return found


def _described(found: EligibleRun, stored: Stored) -> str:
    commit = (found.manifest.system.commit or "unknown")[:12]
    return f"Baseline: commit {commit}, {found.manifest.created_at}, from {stored.place}."


def _why_none(git: Git, seen: int, refusals: Sequence[str]) -> str:
    if not seen:
        shallow = (
            " This is a shallow clone: fetch the commits before this one, whose runs the store keeps."
            if git.is_shallow()
            else ""
        )
        return f"No baseline: the store has no run of a commit before this one.{shallow}"
    why = f" ({'; '.join(refusals[:3])})" if refusals else ""
    which = (
        "the run in the store can't be one" if seen == 1 else f"none of the newest {seen} runs in the store can be one"
    )
    return f"No baseline: {which}{why}."
