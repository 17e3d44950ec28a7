"""The trusted runs of a workflow, which nobody outside the repository can start, and
their artifacts as a store.

A fork shares its parent's list of runs and artifacts, and can use any branch name. So a
run is identified by workflow, event, branch and head repository, its commit must be on
the branch, and an artifact is identified by its run, never by its name alone.

A run that can't be a baseline carries the one it used, so the newest artifact is
usually enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC
from functools import cached_property

from github.Artifact import Artifact
from github.GithubObject import NotSet
from github.WorkflowRun import WorkflowRun

from ragstone.github.api.artifacts import newest_artifact, read_artifact
from ragstone.github.api.client import (
    GitHubApi,
    GitHubApiError,
    head_of,
    if_present,
    listed,
    reading_replies,
)
from ragstone.pipeline.baseline_search import BaselineStore, StoredRun, StoreFailed

TRUSTED_EVENTS = ("push", "schedule", "workflow_dispatch", "merge_group")
"""Events that only people with write access can trigger, and that run the branch's own
code."""


@reading_replies()
def workflow_id(api: GitHubApi, file: str) -> int:
    """GitHub's id of the workflow in `file` of .github/workflows. Raises
    GitHubApiError."""
    return api.repository.get_workflow(file).id


def newest_runs(
    api: GitHubApi, workflow: int, event: str, branch: str | None
) -> list[WorkflowRun]:
    """The newest 100 finished runs of `workflow` for `event`, by GitHub's filters.
    Raises GitHubApiError."""
    runs = api.repository.get_workflow(workflow).get_runs(
        event=event,
        branch=branch or NotSet,
        status="completed",
        exclude_pull_requests=True,
    )
    return listed(runs, max_pages=1)


class TrustedRuns:
    """The runs of a workflow, without run `own_run`, on `branch` (None: the default
    branch).

    `named` is the file of the workflow; None: that of run `own_run`, whose file is
    `workflow`. GitHub's filters are verified. All of it raises GitHubApiError.
    """

    @reading_replies()
    def __init__(
        self,
        api: GitHubApi,
        own_run: int,
        workflow: str | None,
        branch: str | None,
        named: str | None = None,
    ) -> None:
        self.repository_id = api.repository.id
        self.branch = branch or api.repository.default_branch
        self._api = api
        own = _own_run(api, own_run, named or workflow)
        if own is not None and named is None:
            self._workflow_id = own.workflow_id
        else:
            self._workflow_id = workflow_id(api, named or workflow or "")
        self._own_run = own_run
        self._head: str | None = None
        self._on_branch: dict[str, bool] = {}

    @reading_replies()
    def newest(self) -> list[WorkflowRun]:
        """The newest runs, at most 100 per event, newest first."""
        trusted: list[WorkflowRun] = []
        # Listed event by event, so that pull requests and forks can't push the wanted
        # runs out of the list.
        for event in TRUSTED_EVENTS:
            branch = None if event == "merge_group" else self.branch
            runs = newest_runs(self._api, self._workflow_id, event, branch)
            trusted += [
                run for run in runs if run.event == event and self._is_trusted(run)
            ]
        return sorted(trusted, key=lambda run: (run.created_at, run.id), reverse=True)

    @reading_replies()
    def get(self, run_id: int) -> WorkflowRun | None:
        """Run `run_id`, None if it is gone or not one of these."""
        run = if_present(self._api.repository.get_workflow_run(run_id).complete)
        return run if run is not None and self._is_trusted(run) else None

    @reading_replies()
    def branch_holds(self, sha: str) -> bool:
        """Whether the branch contains the commit: a tag may have the branch's name, and
        a queue may drop a commit."""
        if sha not in self._on_branch:
            self._head = self._head or head_of(self._api, self.branch)
            compared = if_present(
                self._api.repository.compare(sha, self._head).complete
            )
            self._on_branch[sha] = compared is not None and compared.status in (
                "ahead",
                "identical",
            )
        return self._on_branch[sha]

    def _is_trusted(self, run: WorkflowRun) -> bool:
        return (
            run.status == "completed"
            and run.id != self._own_run
            and self._is_of_branch(run)
        )

    def _is_of_branch(self, run: WorkflowRun) -> bool:
        """Whether only people with write access can start `run`, as far as the run
        itself tells.

        A head repository that no longer exists (null) is not ours.
        """
        queued = (run.head_branch or "").startswith(f"gh-readonly-queue/{self.branch}/")
        return (
            run.event in TRUSTED_EVENTS
            and (
                queued if run.event == "merge_group" else run.head_branch == self.branch
            )
            and run.repository.id == self.repository_id
            and getattr(run.head_repository, "id", None) == self.repository_id
            and run.workflow_id == self._workflow_id
        )


def _own_run(api: GitHubApi, run_id: int, workflow: str | None) -> WorkflowRun | None:
    """GitHub's data on the run; None if it can't be read, and there is the file of a
    `workflow` to go by."""
    try:
        return api.workflow_run(run_id).complete()
    except GitHubApiError as api_error:
        if workflow is None or api_error.lacks_permission:
            raise
        return None


MAX_LOOKED_AT = 30
"""Number of runs whose artifacts are looked for."""


@dataclass
class GitHubArtifacts(BaselineStore):
    """The artifacts called `artifact_name` of a workflow, on `branch` (None: the
    default branch).

    `named` is the file of the workflow; None: that of run `run_id`.
    """

    name = "GitHub's list of earlier runs"

    api: GitHubApi
    _: KW_ONLY
    run_id: int
    workflow: str | None
    branch: str | None
    artifact_name: str
    named: str | None = None
    _seen: set[int] = field(default_factory=set, init=False)
    _has_runs: bool = field(default=False, init=False)

    def newest(self) -> Iterator[StoredRun]:
        with _store_failures():
            runs = self._runs.newest()
            self._has_runs = bool(runs)
            for run in runs[:MAX_LOOKED_AT]:
                artifact = self._newest_artifact(run.id)
                if artifact is not None and run.id not in self._seen:
                    yield self._stored(run, artifact)

    def of_run(self, run_id: int) -> StoredRun | None:
        if run_id in self._seen:
            return None
        with _store_failures():
            run = self._runs.get(run_id)
            artifact = None if run is None else self._newest_artifact(run_id)
            return (
                None if run is None or artifact is None else self._stored(run, artifact)
            )

    def why_empty(self) -> str:
        first, which = (
            ("First run", "this workflow")
            if self.named is None
            else ("No baseline", self.named)
        )
        if not self._has_runs:
            return f"{first}: no finished run of {which} on '{self.branch}' yet."
        return f"No run of {which} on '{self.branch}' has an artifact called '{self.artifact_name}'."

    @cached_property
    def _runs(self) -> TrustedRuns:
        runs = TrustedRuns(
            self.api, self.run_id, self.workflow, self.branch, self.named
        )
        self.branch = runs.branch
        self.where = f"on '{runs.branch}' with an artifact"
        self.extent = f"on '{runs.branch}'"
        return runs

    def _newest_artifact(self, run_id: int) -> Artifact | None:
        return newest_artifact(self.api, run_id, self.artifact_name)

    def _stored(self, run: WorkflowRun, artifact: Artifact) -> StoredRun:
        runs = self._runs
        self._seen.add(run.id)
        refused = None
        if artifact.expired:
            refused = "the artifact has expired"
        elif not runs.branch_holds(run.head_sha):
            refused = f"its commit is not on '{self.branch}'"

        def read(limits: Mapping[str, int]) -> dict[str, bytes]:
            with _store_failures():
                return read_artifact(self.api, artifact, limits)

        def is_on_branch(commit: str) -> bool:
            with _store_failures():
                return runs.branch_holds(commit)

        return StoredRun(
            f"run {run.id}",
            read,
            is_on_branch,
            commit=run.head_sha,
            refused=refused,
            run_id=run.id,
            url=run.html_url,
            branch=runs.branch,
            created_at=f"{run.created_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        )


@contextmanager
def _store_failures() -> Iterator[None]:
    """Turn a refusal of GitHub into StoreFailed."""
    try:
        with reading_replies():
            yield
    except GitHubApiError as refused:
        hint = (
            "Give the job `permissions: actions: read` (and `contents: read`)."
            if refused.lacks_permission
            else ""
        )
        raise StoreFailed(str(refused), hint) from None
