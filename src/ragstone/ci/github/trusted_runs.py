"""The trusted runs of a workflow: those that nobody outside the repository can start.

A fork shares its parent's list of runs, and can use any branch name. So a run is identified by workflow, event, branch
and head repository, and its commit must be on the branch.
"""

from __future__ import annotations

from urllib.parse import quote

from ragstone.ci.github.client import ApiReply, GitHubApi, GitHubApiError, Repository

TRUSTED_EVENTS = ("push", "schedule", "workflow_dispatch", "merge_group")
"""Events that only people with write access can trigger, and that run the branch's own code."""


class _Owner(ApiReply):
    id: int


class WorkflowRun(ApiReply):
    """A run in GitHub's list."""

    id: int
    workflow_id: int
    event: str
    status: str | None = None
    head_branch: str | None = None
    head_sha: str
    created_at: str
    html_url: str = ""
    repository: _Owner
    head_repository: _Owner | None = None


class _Comparison(ApiReply):
    status: str


class TrustedRuns:
    """The runs of the workflow of run `own_run`, without that run, on `branch` (None: the default branch).

    GitHub's filters are verified. All of it raises GitHubApiError.
    """

    def __init__(self, api: GitHubApi, own_run: int, workflow: str | None, branch: str | None) -> None:
        repository = api.get(Repository, api.base)
        self.repository_id = repository.id
        self.branch = branch or repository.default_branch
        self._api = api
        self._workflow_id = _workflow_id(api, own_run, workflow)
        self._own_run = own_run
        self._head: str | None = None
        self._held: dict[str, bool] = {}

    def newest(self) -> list[WorkflowRun]:
        """The newest runs, at most 100 per event, newest first."""
        path = f"{self._api.base}/actions/workflows/{quote(str(self._workflow_id), safe='')}/runs"
        found: list[WorkflowRun] = []
        # Listed event by event, so that pull requests and forks can't push the wanted runs out of the list.
        for event in TRUSTED_EVENTS:
            wanted: dict[str, str | int] = {"event": event, "status": "completed", "exclude_pull_requests": "true"}
            if event != "merge_group":
                wanted["branch"] = self.branch
            runs = self._api.pages(WorkflowRun, path, wanted, key="workflow_runs", max_pages=1)
            found += [run for run in runs if run.event == event and self._is_trusted(run)]
        return sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)

    def get(self, run_id: int) -> WorkflowRun | None:
        """Run `run_id`, None if it is gone or not one of these."""
        run = self._api.find(WorkflowRun, f"{self._api.base}/actions/runs/{run_id}")
        return run if run is not None and self._is_trusted(run) else None

    def names_branch(self, head_branch: str | None) -> bool:
        """Whether a run with that head branch could be one of these."""
        return head_branch == self.branch or (head_branch or "").startswith(f"gh-readonly-queue/{self.branch}/")

    def branch_holds(self, sha: str) -> bool:
        """Whether the branch contains the commit: a tag may have the branch's name, and a queue may drop a commit."""
        if sha not in self._held:
            self._head = self._head or self._api.head_of(self.branch)
            path = f"{self._api.base}/compare/{quote(sha, safe='')}...{quote(self._head, safe='')}"
            compared = self._api.find(_Comparison, path)
            self._held[sha] = compared is not None and compared.status in ("ahead", "identical")
        return self._held[sha]

    def _is_trusted(self, run: WorkflowRun) -> bool:
        """Whether only people with write access can start `run`, as far as the run itself tells.

        A head repository that no longer exists (null) is not ours.
        """
        queued = (run.head_branch or "").startswith(f"gh-readonly-queue/{self.branch}/")
        return (
            run.event in TRUSTED_EVENTS
            and run.status == "completed"
            and (queued if run.event == "merge_group" else run.head_branch == self.branch)
            and run.repository.id == self.repository_id
            and run.head_repository is not None
            and run.head_repository.id == self.repository_id
            and (isinstance(self._workflow_id, str) or run.workflow_id == self._workflow_id)
            and run.id != self._own_run
        )


def _workflow_id(api: GitHubApi, run_id: int, workflow: str | None) -> int | str:
    """The run's workflow, from GitHub's data on it; from its file if the run can't be read."""
    try:
        return api.get(WorkflowRun, f"{api.base}/actions/runs/{run_id}").workflow_id
    except GitHubApiError as api_error:
        if workflow is None or api_error.lacks_permission:
            raise
        return workflow
