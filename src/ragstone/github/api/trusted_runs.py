"""The trusted runs of a workflow, which nobody outside the repository can start, and
their artifacts as a store.

A fork shares its parent's list of runs and artifacts, and can use any branch name. So a
run is identified by workflow, event, branch and head repository, its commit must be on
the branch, and an artifact is identified by its run, never by its name alone.

A run that can't be a baseline carries the one it used, so the newest artifact is
usually enough.
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
"""Events that only people with write access can trigger, and that run the branch's own
code."""


@reply_errors()
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


@contextmanager
def _store_failures() -> Iterator[None]:
    """Turn a refusal of GitHub into StoreFailed."""
    try:
        with reply_errors():
            yield
    except GitHubApiError as refused:
        right = "Give the job `permissions: actions: read` (and `contents: read`)."
        hint = ""
        if refused.lacks_permission:
            hint = right
        raise StoreFailed(str(refused), hint) from None


MAX_LOOKED_AT = 30
"""Number of runs whose artifacts are looked for."""


class GitHubArtifacts(BaselineStore):
    """The artifacts called `artifact_name` of a workflow, on `branch` (None: the
    default branch), without those of run `run_id`. GitHub's filters are verified.

    `named` is the file of the workflow; None: that of run `run_id`, whose file is
    `workflow`.
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
        named: str | None = None,
    ) -> None:
        self.api = api
        self.run_id = run_id
        self.workflow = workflow
        self.branch = branch
        self.artifact_name = artifact_name
        self.named = named
        self._on_branch: dict[str, bool] = {}
        self._has_runs = False

    def newest(self) -> Iterator[StoredRun]:
        with _store_failures():
            # Read also where there is no run yet: without it, nothing is known.
            repository_id = self.api.repository.id
            branch = self.branch or self.api.repository.default_branch
            self.branch = branch
            self.where, self.extent = (
                f"on '{branch}' with an artifact",
                f"on '{branch}'",
            )
            trusted = []
            # Listed event by event, so that pull requests and forks can't push the
            # wanted runs out of the list.
            for event in TRUSTED_EVENTS:
                of_branch = None if event == "merge_group" else branch
                runs = newest_runs(self.api, self._workflow_id, event, of_branch)
                trusted += [
                    run
                    for run in runs
                    if run.event == event and self._is_trusted(run, repository_id)
                ]
            self._has_runs = bool(trusted)
            trusted.sort(key=lambda run: (run.created_at, run.id), reverse=True)
            for run in trusted[:MAX_LOOKED_AT]:
                stored = self._stored(run)
                if stored is not None:
                    yield stored

    def why_empty(self) -> str:
        which = self.named or "this workflow"
        if not self._has_runs:
            return f"First run: no finished run of {which} on '{self.branch}' yet."
        return f"No run of {which} on '{self.branch}' has an artifact called '{self.artifact_name}'."

    @cached_property
    def _workflow_id(self) -> int:
        if self.named is None:
            try:
                return self.api.workflow_run(self.run_id).complete().workflow_id
            except GitHubApiError as api_error:
                if self.workflow is None or api_error.lacks_permission:
                    raise
        return workflow_id(self.api, self.named or self.workflow or "")

    def _is_trusted(self, run: WorkflowRun, repository_id: int) -> bool:
        """Whether `run` is finished, and only people with write access can start it, as
        far as the run itself tells.

        A head repository that no longer exists (null) is not ours.
        """
        if run.event == "merge_group":
            queue = f"gh-readonly-queue/{self.branch}/"
            is_of_branch = (run.head_branch or "").startswith(queue)
        else:
            is_of_branch = run.head_branch == self.branch
        return (
            run.status == "completed"
            and run.id != self.run_id
            and run.event in TRUSTED_EVENTS
            and is_of_branch
            and run.repository.id == repository_id
            and getattr(run.head_repository, "id", None) == repository_id
            and run.workflow_id == self._workflow_id
        )

    @_store_failures()
    def _branch_holds(self, sha: str) -> bool:
        """Whether the branch contains the commit: a tag may have the branch's name, and
        a queue may drop a commit."""
        if sha not in self._on_branch:
            comparison = self.api.repository.compare(sha, self._head)
            compared = if_present(comparison.complete)
            status = None if compared is None else compared.status
            self._on_branch[sha] = status in ("ahead", "identical")
        return self._on_branch[sha]

    @cached_property
    def _head(self) -> str:
        return branch_head(self.api, self.branch or "")

    def _stored(self, run: WorkflowRun) -> StoredRun | None:
        """`run` with its newest artifact, if it has one."""
        artifact = newest_artifact(self.api, run.id, self.artifact_name)
        if artifact is None:
            return None
        refused = None
        if artifact.expired:
            refused = "the artifact has expired"
        elif not self._branch_holds(run.head_sha):
            refused = f"its commit is not {self.extent}"

        return StoredRun(
            f"run {run.id}",
            _store_failures()(partial(read_artifact, self.api, artifact)),
            self._branch_holds,
            commit=run.head_sha,
            refused=refused,
            run_id=run.id,
            url=run.html_url,
            branch=self.branch or "",
            created_at=f"{run.created_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        )
