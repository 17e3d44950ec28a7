"""Finds the run that a workflow_run job reports, and its pull request. Both come from
GitHub, never from the run's artifacts."""

from __future__ import annotations

from github.PullRequest import PullRequest
from github.WorkflowRun import WorkflowRun

from ragstone.github.api.client import GitHubApi, listed, reply_errors
from ragstone.github.api.event import Event


class NothingToPost(Exception):  # noqa: N818 - an outcome to report
    """Nothing is posted for a run. The message is the reason, as a clause."""


@reply_errors()
def reported_run_and_pull(
    api: GitHubApi, event: Event
) -> tuple[WorkflowRun, PullRequest]:
    """The run that this job follows, and the one open pull request whose head is the
    run's commit. Raises NothingToPost and GitHubApiError."""
    upstream = event.upstream
    if upstream is None:
        raise NothingToPost("the event of this job names no workflow run")
    run = api.workflow_run(upstream.run_id)
    if run.event != "pull_request":
        raise NothingToPost(f"run {run.id} is not for a pull request")
    if run.head_sha != upstream.head_sha:
        raise NothingToPost(f"run {run.id} is of another commit than the event says")
    # PyGithub's repository is None if it no longer exists.
    repository_id = getattr(run.head_repository, "id", None)
    if upstream.head_owner is None or not run.head_branch or repository_id is None:
        raise NothingToPost("the head repository of the pull request no longer exists")
    listing = api.repository.get_pulls(
        state="open", head=f"{upstream.head_owner}:{run.head_branch}"
    )
    pulls = [
        pull
        for pull in listed(listing, max_pages=3)
        if pull.head.sha == run.head_sha
        and getattr(pull.head.repo, "id", None) == repository_id
        and getattr(pull.base.repo, "id", None) == run.repository.id
    ]
    if len(pulls) != 1:
        raise NothingToPost(
            f"{len(pulls)} open pull requests have the commit of run {run.id} as their head, instead of one"
        )
    return run, pulls[0]
