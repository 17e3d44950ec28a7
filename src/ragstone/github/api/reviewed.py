"""Decides which branch of a job counts as reviewed, so that its settings, files and
runs are trusted.

Who can push can push a branch and propose a change for it, so a branch is not reviewed
just because it is the base of a pull request. Only the default branch counts, and
branches that GitHub reports as protected.
"""

from __future__ import annotations

from msgspec import Struct

from ragstone.formatting import clipped
from ragstone.github.api.client import (
    GitHubApi,
    GitHubApiError,
    branch_head,
    if_present,
    reply_errors,
)
from ragstone.github.api.event import Event


class ReviewedBase(Struct, frozen=True):
    """What a job trusts."""

    event: Event
    branch: str | None
    """The branch whose runs can be baselines; None for the default branch if the event
    doesn't name it."""
    base_commit: str | None = None
    """The commit that a change is proposed for; None if the job is not for a change."""
    refusal: str | None = None
    """Why a change is not evaluated, if it is proposed for a branch that doesn't count
    as reviewed."""


def reviewed_base(api: GitHubApi | None, event: Event) -> ReviewedBase:
    """What a job for `event` trusts. A branch that GitHub can't be asked about doesn't
    count as reviewed. Never raises."""
    pull = event.pull_request
    if pull is not None:
        return base_of_change(api, event, pull.base_branch, pull.base_sha)
    if event.merge_base_branch or event.merge_base_sha:
        return base_of_change(api, event, event.merge_base_branch, event.merge_base_sha)
    return ReviewedBase(event, event.default_branch)


def base_of_change(
    api: GitHubApi | None, event: Event, branch: str | None, commit: str | None
) -> ReviewedBase:
    """What a job for a change trusts that is proposed for `branch` at `commit`. Never
    raises."""
    reason = why_unreviewed(api, event, branch)
    refusal = None
    if reason is not None:
        name = clipped(branch or "", 100)
        refusal = (
            f"'{name}', the branch that this change is proposed for, {reason}. Its author may have written what the change "
            "is compared with, too."
        )
    return ReviewedBase(event, branch, commit, refusal)


def why_unreviewed(
    api: GitHubApi | None, event: Event, branch: str | None
) -> str | None:
    """Why `branch` doesn't count as reviewed, as a clause; None if it does. Never
    raises GitHubApiError."""
    if branch is None:
        return "is not known"
    default_branch = event.default_branch
    if branch == default_branch:
        return None
    if api is None:
        return "is not the default branch, and without a GitHub token it can't be asked whether it is protected"
    try:
        with reply_errors():
            if branch == (default_branch or api.repository.default_branch):
                return None
            encodable = branch.encode(errors="replace").decode()
            found_branch = if_present(lambda: api.repository.get_branch(encodable))
            # For a branch that was renamed, GitHub returns the one with the new name.
            if (
                found_branch is not None
                and found_branch.name == branch
                and found_branch.protected is True
            ):
                return None
    except GitHubApiError as api_error:
        return f"is not the default branch, and GitHub doesn't say whether it is protected ({api_error})"
    return "is neither the default branch nor protected"


@reply_errors()
def base_commit(api: GitHubApi, base: ReviewedBase) -> str | None:
    """The commit whose files are trusted: the base of a change, or the newest commit of
    the default branch for a run on another branch or a tag. None for a run on the
    default branch, which trusts its checkout. Raises GitHubApiError."""
    if base.base_commit is not None:
        return base.base_commit
    branch = base.event.default_branch or api.repository.default_branch
    if base.event.branch == branch:
        return None
    return branch_head(api, branch)
