"""Finds baselines among the artifacts of trusted runs: those that only people with
write access to the repository can start.

GitHub lists the runs and artifacts of forks together with those of the repository, and
a fork can name its branches as it likes. So a run is trusted by its workflow, event,
branch and head repository, its commit must be on the branch, and an artifact counts by
its run, never by its name alone.

A run that can't be a baseline carries the one that it was compared with, so the newest
artifact is usually enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from functools import cached_property, partial

from github.GithubObject import NotSet
from github.WorkflowRun import WorkflowRun

from ragstone.github.api.artifacts import newest_artifact, read_artifact
from ragstone.github.api.client import (
    GitHubApi,
    GitHubApiError,
    branch_head,
    if_present,
    listed,
    reply_errors,
)
from ragstone.pipeline.baseline_search import BaselineStore, StoredRun, StoreFailed

TRUSTED_EVENTS = ("push", "schedule", "workflow_dispatch", "merge_group")
"""Events that only people with write access can trigger, and whose runs have the code
of a branch of the repository."""


@reply_errors()
def workflow_id(api: GitHubApi, file: str) -> int:
    """GitHub's id of the workflow in .github/workflows/`file`. Raises
    GitHubApiError."""
    return api.repository.get_workflow(file).id


def newest_runs(
    api: GitHubApi, workflow: int, event: str, branch: str | None
) -> list[WorkflowRun]:
    """The newest 100 finished runs of the workflow with the id `workflow` for `event`,
    as GitHub filters them. Raises GitHubApiError."""
    runs = api.repository.get_workflow(workflow).get_runs(
        event=event,
        branch=branch or NotSet,
        status="completed",
        exclude_pull_requests=True,
    )
    return listed(runs, max_pages=1)


@contextmanager
def _store_failures() -> Iterator[None]:
    """Raise StoreFailed for errors of GitHub's API."""
    try:
        with reply_errors():
            yield
    except GitHubApiError as api_error:
        hint = ""
        if api_error.lacks_permission:
            hint = "Give the job `permissions: actions: read` (and `contents: read`)."
        raise StoreFailed(str(api_error), hint) from None


MAX_SEARCHED_RUNS = 30
"""Runs whose artifacts are looked up at most, the newest first."""


class GitHubArtifacts(BaselineStore):
    """The artifacts called `artifact_name` of a workflow's trusted runs.

    - `run_id`: the run of this job, which is left out
    - `workflow`: the file of this job's workflow; None if it is unknown
    - `baseline_workflow`: the file of the workflow; None for that of run `run_id`
    - `branch`: the branch of the runs; None for the default branch
    """

    name = "GitHub's list of earlier runs"

    def __init__(
        self,
        api: GitHubApi,
        *,
        run_id: int,
        workflow: str | None,
        branch: str | None,
        artifact_name: str,
        baseline_workflow: str | None = None,
    ) -> None:
        self.api = api
        self.run_id = run_id
        self.workflow = workflow
        self.branch = branch
        self.artifact_name = artifact_name
        self.baseline_workflow = baseline_workflow
        # By commit, for those that GitHub was asked about.
        self._is_on_branch: dict[str, bool] = {}
        self._has_trusted_runs = False

    def newest(self) -> Iterator[StoredRun]:
        with _store_failures():
            repository_id = self.api.repository.id
            branch = self.branch or self.api.repository.default_branch
            self.branch = branch
            self.where = f"on '{branch}' with an artifact"
            self.extent = f"on '{branch}'"
            trusted = []
            # Listed event by event, so that pull requests and forks can't push the
            # wanted runs out of the list.
            for event in TRUSTED_EVENTS:
                # Runs of a merge queue are on branches of their own.
                branch_filter = None if event == "merge_group" else branch
                runs = newest_runs(self.api, self._workflow_id, event, branch_filter)
                # GitHub's filters are checked.
                trusted += [
                    run
                    for run in runs
                    if run.event == event and self._is_trusted(run, repository_id)
                ]
            self._has_trusted_runs = bool(trusted)
            trusted.sort(key=lambda run: (run.created_at, run.id), reverse=True)
            for run in trusted[:MAX_SEARCHED_RUNS]:
                stored = self._stored_run(run)
                if stored is not None:
                    yield stored

    def why_empty(self) -> str:
        which = self.baseline_workflow or "this workflow"
        if not self._has_trusted_runs:
            return f"First run: no finished run of {which} on '{self.branch}' yet."
        return f"No run of {which} on '{self.branch}' has an artifact called '{self.artifact_name}'."

    @cached_property
    def _workflow_id(self) -> int:
        if self.baseline_workflow is None:
            try:
                return self.api.workflow_run(self.run_id).complete().workflow_id
            except GitHubApiError as api_error:
                # The file of the workflow will do, if GitHub doesn't tell the run's.
                if self.workflow is None or api_error.lacks_permission:
                    raise
        return workflow_id(self.api, self.baseline_workflow or self.workflow or "")

    def _is_trusted(self, run: WorkflowRun, repository_id: int) -> bool:
        """Whether `run` is finished, and only people with write access can start it, as
        far as its own fields say."""
        if run.event == "merge_group":
            queue = f"gh-readonly-queue/{self.branch}/"
            has_branch = (run.head_branch or "").startswith(queue)
        else:
            has_branch = run.head_branch == self.branch
        # None, for a repository that no longer exists, is not this one.
        head_repository_id = getattr(run.head_repository, "id", None)
        return (
            run.status == "completed"
            and run.id != self.run_id
            and run.event in TRUSTED_EVENTS
            and has_branch
            and run.repository.id == repository_id
            and head_repository_id == repository_id
            and run.workflow_id == self._workflow_id
        )

    @_store_failures()
    def _has_commit(self, sha: str) -> bool:
        """Whether the branch contains the commit. A run's fields don't prove it: a tag
        may have the branch's name, and a merge queue may drop a commit."""
        if sha not in self._is_on_branch:
            comparison = self.api.repository.compare(sha, self._head)
            compared = if_present(comparison.complete)
            status = None if compared is None else compared.status
            self._is_on_branch[sha] = status in ("ahead", "identical")
        return self._is_on_branch[sha]

    @cached_property
    def _head(self) -> str:
        return branch_head(self.api, self.branch or "")

    def _stored_run(self, run: WorkflowRun) -> StoredRun | None:
        """`run` with its newest artifact; None if it has none."""
        artifact = newest_artifact(self.api, run.id, self.artifact_name)
        if artifact is None:
            return None
        refused = None
        if artifact.expired:
            refused = "the artifact has expired"
        elif not self._has_commit(run.head_sha):
            refused = f"its commit is not {self.extent}"
        read = partial(read_artifact, self.api, artifact)
        return StoredRun(
            f"run {run.id}",
            _store_failures()(read),
            self._has_commit,
            commit=run.head_sha,
            refused=refused,
            run_id=run.id,
            url=run.html_url,
            branch=self.branch or "",
            created_at=f"{run.created_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        )
