"""The run that a workflow_run job reports, and its pull request: by GitHub's word,
never by the run's artifacts."""

from __future__ import annotations

from github.PullRequest import PullRequest
from github.WorkflowRun import WorkflowRun

from ragstone.github.api.client import GitHubApi, listed, reading_replies
from ragstone.github.api.event import Event


class NothingToPost(Exception):  # noqa: N818 - an outcome to report
    """The message says why."""


@reading_replies()
def head_and_pull(api: GitHubApi, event: Event) -> tuple[WorkflowRun, PullRequest]:
    """The run, from the API, and the one open pull request with its head commit."""
    upstream = event.upstream
    if upstream is None:
        raise NothingToPost("this workflow_run job does not name it")
    head = api.workflow_run(upstream.run_id)
    if head.event != "pull_request" or head.head_sha != upstream.head_sha:
        raise NothingToPost("it is not for a pull request")
    repository_id = getattr(head.head_repository, "id", None)
    if upstream.head_owner is None or not head.head_branch or repository_id is None:
        raise NothingToPost("the head repository of the pull request no longer exists")
    listing = api.repository.get_pulls(
        state="open", head=f"{upstream.head_owner}:{head.head_branch}"
    )
    pulls = [
        pull
        for pull in listed(listing, max_pages=3)
        if pull.head.sha == head.head_sha
        and getattr(pull.head.repo, "id", None) == repository_id
        and getattr(pull.base.repo, "id", None) == head.repository.id
    ]
    if len(pulls) != 1:
        raise NothingToPost(f"{len(pulls)} open pull requests have its commit as head")
    return head, pulls[0]
