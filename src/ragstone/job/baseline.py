"""The trusted baseline: the newest run of this workflow, on the baseline's branch, that can be one.

Only runs that nobody outside the repository can start are considered. A fork shares its parent's list of runs and
artifacts, and can use any branch name. So a run is identified by workflow, event, branch and head repository, its
commit must be on the branch, and an artifact is identified by its run, never by its name alone.

A run that can't be a baseline carries the one it used (run/lineage.py), so the newest artifact is usually enough. If
the newest runs left none, the artifacts are listed by name, and the run of each is verified like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragstone.archive import ArchiveRefused
from ragstone.ci.github.artifacts import Artifact, artifacts_called, newest_artifact, read_artifact
from ragstone.ci.github.client import ApiErrorKind, GitHubApi, GitHubApiError
from ragstone.ci.github.trusted_runs import TrustedRuns, WorkflowRun
from ragstone.run.archive_members import MEMBER_LIMITS, carried_run, manifest_of, open_members, own_run
from ragstone.run.directory import HISTORY, RunDirectory
from ragstone.run.manifest import Manifest

MAX_NEAR = 10
"""Number of runs whose artifacts are requested individually, before artifacts are listed by name."""

MAX_LISTED_PAGES = 20
MAX_FAR = 50
"""Maximum number of runs to verify that were found by their artifacts."""

MAX_DOWNLOADS = 10


@dataclass(frozen=True, slots=True)
class TrustedBaseline:
    """A run directory from a trusted run. `files` are its members by name.

    `carried_by` is the run whose artifact contained it, if not its own. `history` comes from the newest run that left
    one, which may be a later run.
    """

    run_id: int
    url: str
    sha: str
    branch: str
    created_at: str
    files: Mapping[str, bytes] = field(repr=False)
    carried_by: int | None = None
    history: bytes | None = field(default=None, repr=False)

    def materialise(self, directory: Path) -> RunDirectory:
        """As `open_members`."""
        return open_members(self.files, directory)


@dataclass(frozen=True, slots=True)
class NoBaseline:
    """There is nothing to compare with; `reason` is one sentence. This is never a regression."""

    reason: str
    history: bytes | None = field(default=None, repr=False)


def find_baseline(
    api: GitHubApi, *, run_id: int, workflow: str | None, branch: str | None, artifact_name: str
) -> TrustedBaseline | NoBaseline:
    """Find the baseline of this job's workflow on `branch` (None: the default branch). Never raises GitHubApiError."""
    try:
        runs = TrustedRuns.of_job(api, run_id=run_id, workflow=workflow, branch=branch)
        return _Search(runs, artifact_name).find()
    except GitHubApiError as api_error:
        if api_error.kind is ApiErrorKind.REFUSED:
            return NoBaseline(
                "GitHub does not let this job read earlier runs: give it `permissions: actions: read` "
                f"(and `contents: read`). {api_error}"
            )
        return NoBaseline(f"Can't get earlier runs from GitHub ({api_error}).")


class _Enough(Exception):  # noqa: N818 - an outcome, not a program error
    """The download limit of one job is reached."""


class _Search:
    """One search for a baseline."""

    def __init__(self, runs: TrustedRuns, artifact_name: str) -> None:
        self._runs = runs
        self._api = runs.api
        self._name = artifact_name
        self._looked_at: set[int] = set()
        self._refusals: list[str] = []
        self._downloads = 0
        self._history: bytes | None = None

    def find(self) -> TrustedBaseline | NoBaseline:
        """The baseline, or why there is none. Raises GitHubApiError."""
        listed = self._runs.newest()
        try:
            found = self._among(listed[:MAX_NEAR]) or self._by_artifacts({run.id: run for run in listed})
        except _Enough:
            found = None
        return found if found is not None else NoBaseline(self._why_none(listed), self._history)

    def _among(self, runs: list[WorkflowRun]) -> TrustedBaseline | None:
        for run in runs:
            artifact = newest_artifact(self._api, run.id, self._name)
            if artifact is not None and (found := self._look_at(run, artifact)) is not None:
                return found
        return None

    def _by_artifacts(self, known: Mapping[int, WorkflowRun]) -> TrustedBaseline | None:
        """The same, using the list of artifacts with that name: runs without one (cancelled ones) cost nothing."""
        newest: dict[int, Artifact] = {}
        ours = self._runs.repository_id
        for artifact in artifacts_called(self._api, self._name, max_pages=MAX_LISTED_PAGES):
            source = artifact.workflow_run
            # Only to save requests: GitHub's data about the run itself decides.
            if source is None or source.id is None or not self._runs.names_branch(source.head_branch):
                continue
            if source.repository_id == source.head_repository_id == ours and source.id not in self._looked_at:
                newest.setdefault(source.id, artifact)
        for run_id, artifact in list(newest.items())[:MAX_FAR]:
            run = known.get(run_id) or self._runs.get(run_id)
            if run is not None and (found := self._look_at(run, artifact)) is not None:
                return found
        return None

    def _look_at(self, run: WorkflowRun, artifact: Artifact) -> TrustedBaseline | None:
        """The baseline that `run` leads to: itself, the one it carries, or the one it names."""
        if run.id in self._looked_at:
            return None
        self._looked_at.add(run.id)
        try:
            files = self._read(run, artifact)
            self._history = self._history or files.get(HISTORY)
            manifest = manifest_of(files)
            own = own_run(files)
            if own is not None:
                return self._found(run.id, run.html_url, run.head_sha, run.created_at, own.files)
        except ArchiveRefused as refused:
            self._refusals.append(f"run {run.id} was left out: {refused.reason}")
            return None
        return self._carried(run, manifest, files) or self._named(manifest)

    def _read(self, run: WorkflowRun, artifact: Artifact) -> dict[str, bytes]:
        if artifact.expired:
            raise ArchiveRefused("the artifact has expired")
        if not self._runs.branch_holds(run.head_sha):
            raise ArchiveRefused(f"its commit is not on '{self._runs.branch}'")
        if self._downloads == MAX_DOWNLOADS:
            raise _Enough
        self._downloads += 1
        return read_artifact(self._api, artifact, MEMBER_LIMITS)

    def _carried(self, run: WorkflowRun, manifest: Manifest, files: Mapping[str, bytes]) -> TrustedBaseline | None:
        try:
            carried = carried_run(files)
        except ArchiveRefused as refused:
            self._refusals.append(f"run {run.id}: {refused.reason}")
            return None
        if carried is None:
            return None
        commit = carried.manifest.system.commit
        if commit is None or not self._runs.branch_holds(commit):
            self._refusals.append(f"the baseline that run {run.id} carries is not on '{self._runs.branch}'")
            return None
        used = manifest.baseline.used if manifest.baseline is not None else None
        original = (used.run_id if used is not None else None) or run.id
        url = f"{run.html_url.removesuffix(str(run.id))}{original}"
        return self._found(original, url, commit, carried.manifest.created_at, carried.files, carried_by=run.id)

    def _named(self, manifest: Manifest) -> TrustedBaseline | None:
        """The run that `manifest` names as its baseline, if its artifact still exists."""
        used = manifest.baseline.used if manifest.baseline is not None else None
        if used is None or used.run_id is None or used.run_id in self._looked_at:
            return None
        run = self._runs.get(used.run_id)
        return None if run is None else self._among([run])

    def _found(
        self,
        run_id: int,
        url: str,
        sha: str,
        created_at: str,
        files: Mapping[str, bytes],
        carried_by: int | None = None,
    ) -> TrustedBaseline:
        return TrustedBaseline(run_id, url, sha, self._runs.branch, created_at, files, carried_by, self._history)

    def _why_none(self, listed: list[WorkflowRun]) -> str:
        branch, seen = self._runs.branch, len(self._looked_at)
        if not listed and not seen:
            return f"First run: no finished run of this workflow on '{branch}' yet."
        if not seen:
            return f"No run of this workflow on '{branch}' has an artifact called '{self._name}'."
        why = f" ({'; '.join(self._refusals[:3])})" if self._refusals else ""
        which = "The last run" if seen == 1 else f"None of the last {seen} runs"
        verb = "can't be" if seen == 1 else "can be"
        return f"{which} on '{branch}' with an artifact {verb} a baseline{why}."
