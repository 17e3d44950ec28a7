"""Which branch of a job counts as reviewed: its settings, files and runs are trusted.
Nothing else decides that.

Whoever may push can push a branch and propose a change for it, so the base of a pull
request says nothing about review. Only the default branch counts, and a branch that
GitHub reports as protected.
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
    """What a job trusts, decided once.

    `branch` is the one whose runs can be baselines; None: the default branch, which the
    event doesn't name. `proposed` is the commit that a change is proposed for.
    `refusal` says of a change that is proposed for a branch which doesn't count as
    reviewed why nothing of it is evaluated.
    """

    event: Event
    branch: str | None
    proposed: str | None = None
    refusal: str | None = None


def reviewed_base(api: GitHubApi | None, event: Event) -> ReviewedBase:
    """What is trusted for `event`. If GitHub can't be asked about a branch, it doesn't
    count. Never raises."""
    pull = event.pull_request
    if pull is not None:
        return base_of_change(api, event, pull.base_branch, pull.base_sha)
    branch, commit = event.merge_base_branch, event.merge_base_sha
    if branch or commit:
        return base_of_change(api, event, branch, commit)
    return ReviewedBase(event, event.default_branch)


def base_of_change(
    api: GitHubApi | None, event: Event, branch: str | None, commit: str | None
) -> ReviewedBase:
    """What is trusted for a change that is proposed for `branch` at `commit`. Never
    raises."""
    unreviewed = why_unreviewed(api, event, branch)
    refusal = None
    if unreviewed is not None:
        named = clipped(branch or "", 100)
        refusal = (
            f"'{named}', the branch that this change is proposed for, {unreviewed}, so whoever wrote the change may have "
            "written what it is compared with, too."
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
            answer = if_present(lambda: api.repository.get_branch(encodable))
            # Asked for a branch that was renamed, GitHub answers with the new one.
            if (
                answer is not None
                and answer.name == branch
                and answer.protected is True
            ):
                return None
    except GitHubApiError as api_error:
        return f"is not the default branch, and GitHub doesn't say whether it is protected ({api_error})"
    return "is neither the default branch nor protected"


@reply_errors()
def base_commit(api: GitHubApi, base: ReviewedBase) -> str | None:
    """The commit whose files are trusted; None: it is the one that is checked out.

    This is the base of a change, or the default branch for a run on another branch or a
    tag. A run on the default branch is its own base. Raises GitHubApiError.
    """
    if base.proposed is not None:
        return base.proposed
    branch = base.event.default_branch or api.repository.default_branch
    if base.event.branch == branch:
        return None
    return branch_head(api, branch)
