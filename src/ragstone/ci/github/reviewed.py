"""Which branch of a job counts as reviewed: its settings, files and runs are trusted. Nothing else decides that."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.ci.github.client import GitHubApi, Repository
from ragstone.ci.github.event import Event, EventKind

_CHANGES = (EventKind.PULL_REQUEST, EventKind.MERGE_GROUP)


@dataclass(frozen=True, slots=True)
class Base:
    """What a change is proposed for: a branch, and its commit."""

    branch: str | None
    commit: str


def reviewed_base(branch: str | None, commit: str) -> Base:
    """What is trusted for a change that GitHub says is proposed for `branch`: that branch, whichever it is."""
    return Base(branch, commit)


def base_branch(event: Event) -> str | None:
    """The branch whose runs can be baselines; None: the default branch, which the event doesn't name."""
    base = _proposed_for(event) if event.kind in _CHANGES else None
    return (base.branch if base is not None else None) or event.default_branch


def base_commit(api: GitHubApi, event: Event) -> str | None:
    """The commit whose files are trusted; None: it is the one that is checked out.

    This is the base of a change, or the default branch for a run on another branch or a tag. A run on the default
    branch is its own base. Raises GitHubApiError.
    """
    base = _proposed_for(event)
    if base is not None:
        return base.commit
    branch = event.default_branch or api.get(Repository, api.base).default_branch
    return None if event.branch == branch else api.head_of(branch)


def proposed_change(event: Event) -> tuple[str, str] | None:
    """The commits between which the change lies, the trusted one first; None: the job is for a state of a branch."""
    base = _proposed_for(event) if event.kind in _CHANGES else None
    if base is None:
        return None
    return base.commit, event.pull_request.head.sha if event.pull_request is not None else event.sha


def _proposed_for(event: Event) -> Base | None:
    """The base of a pull request or of a queued merge."""
    if event.pull_request is not None:
        return reviewed_base(event.pull_request.base.ref, event.pull_request.base.sha)
    if event.kind is EventKind.MERGE_GROUP and event.merge_base_sha is not None:
        return reviewed_base(event.merge_base_branch, event.merge_base_sha)
    return None
