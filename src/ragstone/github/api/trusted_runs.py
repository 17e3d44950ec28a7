"""The trusted runs of a workflow, which nobody outside the repository can start, and their artifacts as a store.

A fork shares its parent's list of runs and artifacts, and can use any branch name. So a run is identified by workflow,
event, branch and head repository, its commit must be on the branch, and an artifact is identified by its run, never by
its name alone.

A run that can't be a baseline carries the one it used, so the newest artifact is usually enough. If the newest runs
left none, the artifacts are listed by name, and the run of each is verified like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from urllib.parse import quote

from ragstone.github.api.artifacts import Artifact, artifacts_called, newest_artifact, read_artifact
from ragstone.github.api.client import ApiReply, GitHubApi, GitHubApiError, Repository
from ragstone.pipeline.baseline_search import BaselineStore, StoredRun, StoreFailed

TRUSTED_EVENTS = ("push", "schedule", "workflow_dispatch", "merge_group")
"""Events that only people with write access can trigger, and that run the branch's own code."""


class _Owner(ApiReply):
    id: int


class _HeadCommit(ApiReply):
    tree_id: str


class WorkflowRun(ApiReply):
    """A run in GitHub's list. `head_commit` is the commit `head_sha`; its tree is Git's name for all its files."""

    id: int
    workflow_id: int
    event: str
    status: str | None = None
    head_branch: str | None = None
    head_sha: str
    head_commit: _HeadCommit | None = None
    created_at: str
    run_attempt: int = 1
    html_url: str = ""
    repository: _Owner
    head_repository: _Owner | None = None


class _Workflow(ApiReply):
    id: int


class _Comparison(ApiReply):
    status: str


def workflow_id(api: GitHubApi, file: str) -> int:
    """GitHub's id of the workflow in `file` of .github/workflows. Raises GitHubApiError."""
    return api.get(_Workflow, f"{api.base}/actions/workflows/{quote(file, safe='')}").id


class TrustedRuns:
    """The runs of a workflow, without run `own_run`, on `branch` (None: the default branch).

    `named` is the file of the workflow; None: that of run `own_run`, whose file is `workflow`. GitHub's filters are
    verified. All of it raises GitHubApiError.
    """

    def __init__(
        self, api: GitHubApi, own_run: int, workflow: str | None, branch: str | None, named: str | None = None
    ) -> None:
        repository = api.get(Repository, api.base)
        self.repository_id = repository.id
        self.branch = branch or repository.default_branch
        self._api = api
        own = self._own = _own_run(api, own_run, named or workflow)
        if own is not None and named is None:
            self._workflow_id = own.workflow_id
        else:
            self._workflow_id = workflow_id(api, named or workflow or "")
        self._own_run = own_run
        self._head: str | None = None
        self._held: dict[str, bool] = {}

    def newest(self) -> list[WorkflowRun]:
        """The newest runs, at most 100 per event, newest first."""
        path = f"{self._api.base}/actions/workflows/{self._workflow_id}/runs"
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

    def earlier_attempt(self) -> WorkflowRun | None:
        """The own run, if it could be one of these once it is completed, and was started before."""
        own = self._own
        return own if own is not None and own.run_attempt > 1 and self._is_of_branch(own) else None

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
        return run.status == "completed" and run.id != self._own_run and self._is_of_branch(run)

    def _is_of_branch(self, run: WorkflowRun) -> bool:
        """Whether only people with write access can start `run`, as far as the run itself tells.

        A head repository that no longer exists (null) is not ours.
        """
        queued = (run.head_branch or "").startswith(f"gh-readonly-queue/{self.branch}/")
        return (
            run.event in TRUSTED_EVENTS
            and (queued if run.event == "merge_group" else run.head_branch == self.branch)
            and run.repository.id == self.repository_id
            and run.head_repository is not None
            and run.head_repository.id == self.repository_id
            and run.workflow_id == self._workflow_id
        )


def _own_run(api: GitHubApi, run_id: int, workflow: str | None) -> WorkflowRun | None:
    """GitHub's data on the run; None if it can't be read, and there is the file of a `workflow` to go by."""
    try:
        return api.get(WorkflowRun, f"{api.base}/actions/runs/{run_id}")
    except GitHubApiError as api_error:
        if workflow is None or api_error.lacks_permission:
            raise
        return None


MAX_NEAR = 10
"""Number of runs whose artifacts are requested individually, before artifacts are listed by name."""

MAX_LISTED_PAGES = 20
MAX_FAR = 50
"""Maximum number of runs to verify that were found by their artifacts."""


@dataclass
class GitHubArtifacts(BaselineStore):
    """The artifacts called `artifact_name` of a workflow, on `branch` (None: the default branch).

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
    _found: TrustedRuns | None = field(default=None, init=False)
    _has_runs: bool = field(default=False, init=False)

    def newest(self) -> Iterator[StoredRun]:
        with _store_failures():
            listed = self._runs().newest()
            self._has_runs = bool(listed)
            again = self._runs().earlier_attempt()
            if again is not None and (artifact := newest_artifact(self.api, again.id, self.artifact_name)) is not None:
                yield replace(self._stored(again, artifact), history_only=True)
            for run in listed[:MAX_NEAR]:
                artifact = newest_artifact(self.api, run.id, self.artifact_name)
                if artifact is not None and run.id not in self._seen:
                    yield self._stored(run, artifact)
            yield from self._by_artifacts({run.id: run for run in listed})

    def of_run(self, run_id: int) -> StoredRun | None:
        if run_id in self._seen:
            return None
        with _store_failures():
            run = self._runs().get(run_id)
            artifact = newest_artifact(self.api, run.id, self.artifact_name) if run is not None else None
            return self._stored(run, artifact) if run is not None and artifact is not None else None

    def why_empty(self) -> str:
        first, which = ("First run", "this workflow") if self.named is None else ("No baseline", self.named)
        if not self._has_runs:
            return f"{first}: no finished run of {which} on '{self.branch}' yet."
        return f"No run of {which} on '{self.branch}' has an artifact called '{self.artifact_name}'."

    def _runs(self) -> TrustedRuns:
        if self._found is None:
            self._found = TrustedRuns(self.api, self.run_id, self.workflow, self.branch, self.named)
            branch = self.branch = self._found.branch
            self.where, self.extent = f"on '{branch}' with an artifact", f"on '{branch}'"
        return self._found

    def _by_artifacts(self, known: Mapping[int, WorkflowRun]) -> Iterator[StoredRun]:
        """By the list of artifacts with that name: runs without one (cancelled ones) cost nothing."""
        newest: dict[int, Artifact] = {}
        runs = self._runs()
        for artifact in artifacts_called(self.api, self.artifact_name, max_pages=MAX_LISTED_PAGES):
            source = artifact.workflow_run
            # Only to save requests: GitHub's data about the run itself decides.
            if source is None or source.id is None or not runs.names_branch(source.head_branch):
                continue
            if source.repository_id == source.head_repository_id == runs.repository_id and source.id not in self._seen:
                newest.setdefault(source.id, artifact)
        for run_id, artifact in list(newest.items())[:MAX_FAR]:
            run = known.get(run_id) or runs.get(run_id)
            if run is not None and run_id not in self._seen:
                yield self._stored(run, artifact)

    def _stored(self, run: WorkflowRun, artifact: Artifact) -> StoredRun:
        runs = self._runs()
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
            created_at=run.created_at,
        )


@contextmanager
def _store_failures() -> Iterator[None]:
    """Turn a refusal of GitHub into StoreFailed."""
    try:
        yield
    except GitHubApiError as refused:
        hint = "Give the job `permissions: actions: read` (and `contents: read`)." if refused.lacks_permission else ""
        raise StoreFailed(str(refused), hint) from None
