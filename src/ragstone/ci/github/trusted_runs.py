"""The trusted runs of a workflow: those that nobody outside the repository can start.

A fork shares its parent's list of runs, and can use any branch name. So a run is identified by workflow, event, branch
and head repository, and its commit must be on the branch.
"""

from __future__ import annotations

from urllib.parse import quote

from ragstone.ci.github.client import ApiErrorKind, ApiReply, Branch, GitHubApi, GitHubApiError, Repository

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
    """The runs of one workflow on one branch. GitHub's filters are verified."""

    def __init__(
        self, api: GitHubApi, *, repository_id: int, workflow_id: int | str, branch: str, own_run: int
    ) -> None:
        self.api = api
        self.repository_id = repository_id
        self.branch = branch
        self._workflow_id = workflow_id
        self._own_run = own_run
        self._head: str | None = None
        self._held: dict[str, bool] = {}

    @classmethod
    def of_job(cls, api: GitHubApi, *, run_id: int, workflow: str | None, branch: str | None) -> TrustedRuns:
        """The runs of the workflow of run `run_id`, without that run; `branch` None is the default branch.

        Raises GitHubApiError.
        """
        repository = api.get(Repository, api.base)
        return cls(
            api,
            repository_id=repository.id,
            workflow_id=_workflow_id(api, run_id, workflow),
            branch=branch or repository.default_branch,
            own_run=run_id,
        )

    def newest(self) -> list[WorkflowRun]:
        """The newest runs, at most 100 per event, newest first. Raises GitHubApiError."""
        path = f"{self.api.base}/actions/workflows/{quote(str(self._workflow_id), safe='')}/runs"
        found: list[WorkflowRun] = []
        # Listed event by event, so that pull requests and forks can't push the wanted runs out of the list.
        for event in TRUSTED_EVENTS:
            wanted: dict[str, str | int] = {"event": event, "status": "completed", "exclude_pull_requests": "true"}
            if event != "merge_group":
                wanted["branch"] = self.branch
            runs = self.api.pages(WorkflowRun, path, wanted, key="workflow_runs", max_pages=1)
            found += [run for run in runs if run.event == event and self._is_trusted(run)]
        return sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)

    def get(self, run_id: int) -> WorkflowRun | None:
        """Run `run_id`, None if it is gone or not one of these. Raises GitHubApiError."""
        try:
            run = self.api.get(WorkflowRun, f"{self.api.base}/actions/runs/{run_id}")
        except GitHubApiError as api_error:
            if api_error.kind is ApiErrorKind.NOT_FOUND:
                return None
            raise
        return run if self._is_trusted(run) else None

    def names_branch(self, head_branch: str | None) -> bool:
        """Whether a run with that head branch could be one of these."""
        return head_branch == self.branch or (head_branch or "").startswith(f"gh-readonly-queue/{self.branch}/")

    def branch_holds(self, sha: str) -> bool:
        """Whether the branch contains the commit: a tag may have the branch's name, and a queue may drop a commit.

        Raises GitHubApiError.
        """
        if sha not in self._held:
            if self._head is None:
                # By its branch name: a comparison with the bare name could use a tag instead.
                path = f"{self.api.base}/branches/{quote(self.branch, safe='')}"
                self._head = self.api.get(Branch, path).commit.sha
            path = f"{self.api.base}/compare/{quote(sha, safe='')}...{quote(self._head, safe='')}"
            try:
                self._held[sha] = self.api.get(_Comparison, path).status in ("ahead", "identical")
            except GitHubApiError as api_error:
                if api_error.kind is not ApiErrorKind.NOT_FOUND:
                    raise
                self._held[sha] = False
        return self._held[sha]

    def _is_trusted(self, run: WorkflowRun) -> bool:
        return is_trusted(run, self.repository_id, self._workflow_id, self.branch, self._own_run)


def is_trusted(run: WorkflowRun, repository_id: int, workflow_id: int | str, branch: str, own_run: int) -> bool:
    """Whether only people with write access can start `run`, as far as the run itself tells.

    A head repository that no longer exists (null) is not ours.
    """
    on_branch = (
        (run.head_branch or "").startswith(f"gh-readonly-queue/{branch}/")
        if run.event == "merge_group"
        else run.head_branch == branch
    )
    return (
        run.event in TRUSTED_EVENTS
        and run.status == "completed"
        and on_branch
        and run.repository.id == repository_id
        and run.head_repository is not None
        and run.head_repository.id == repository_id
        and (isinstance(workflow_id, str) or run.workflow_id == workflow_id)
        and run.id != own_run
    )


def _workflow_id(api: GitHubApi, run_id: int, workflow: str | None) -> int | str:
    """This job's workflow, from GitHub's data on this run; from its file if the run can't be read."""
    try:
        return api.get(WorkflowRun, f"{api.base}/actions/runs/{run_id}").workflow_id
    except GitHubApiError as api_error:
        if workflow is None or api_error.kind is ApiErrorKind.REFUSED:
            raise
        return workflow
