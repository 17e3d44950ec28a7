"""The comment of a gate on a pull request: marked, owned, and the only one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress

from github.AuthenticatedUser import AuthenticatedUser
from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PaginatedList import PaginatedList

from ragstone.github.api.client import (
    ApiErrorKind,
    GitHubApi,
    GitHubApiError,
    listed,
    reply_errors,
)

ACTIONS_BOT = "github-actions[bot]"
MAX_BODY = 65_000
"""GitHub allows 65,536 characters; the rest is reserved for the marker."""

_LOOKS = 3
"""Number of checks for a write with unknown outcome before it is sent again."""


@reply_errors()
def own_login(api: GitHubApi) -> str | None:
    """Who posts with our token. None: an installation (as that of a workflow's token),
    which may not query its own name: then we are some bot."""
    try:
        return AuthenticatedUser(api, url="/user").login
    except GitHubApiError as api_error:
        if api_error.kind in (ApiErrorKind.REFUSED, ApiErrorKind.NOT_FOUND):
            return None
        raise


def marker(identifier: str) -> str:
    """The hidden first line of a comment. `identifier` was validated, so it can't close
    the HTML comment."""
    digest = hashlib.sha256(f"comment\0{identifier}".encode()).hexdigest()[:16]
    return f"<!-- ragstone:comment:{identifier}:{digest} -->"


@reply_errors()
def own_comments(
    listing: PaginatedList[IssueComment], mark: str, login: str | None
) -> list[IssueComment]:
    """Our comments in a listing, by mark and author, from all pages; the one to keep
    first. Raises GitHubApiError."""
    own = []
    for post in listed(listing):
        # Text further down may come from anyone.
        body = post.body or ""
        first_line = body.replace("\r\n", "\n").partition("\n")[0]
        if first_line == mark and _is_by(post.user, login):
            own.append(post)
    # The workflow's own bot first, then by age.
    return sorted(own, key=lambda post: (post.user.login != ACTIONS_BOT, post.id))


def _is_by(author: NamedUser | Organization | None, login: str | None) -> bool:
    """A user's token owns that user's posts; an installation's token owns posts of bots
    (users can't be bots)."""
    if author is None:
        return False
    if login is not None:
        return author.login == login
    return author.type == "Bot" and author.login.endswith("[bot]")


def create_once(
    api: GitHubApi,
    create: Callable[[], IssueComment],
    find: Callable[[], list[IssueComment]],
) -> IssueComment:
    """Create a comment and make sure that it is unique: the first that `find` returns
    stays, others are deleted.

    A POST with unknown outcome is searched for several times before it is sent again,
    once. Raises GitHubApiError.
    """
    try:
        created = create()
    except GitHubApiError as api_error:
        if not api_error.may_have_succeeded:
            raise
        for look in range(_LOOKS):
            api.sleep(api.retry_policy.settle_s * (look + 1))
            own = find()
            if own:
                return own[0]
        created = create()
    # Two concurrent jobs, or a first attempt that appears late: the next run cleans up
    # what is not visible yet.
    with suppress(GitHubApiError):
        own = find()
        if own:
            for double in own[1:]:
                double.delete()
            return own[0]
    return created


def post_comment(
    api: GitHubApi,
    number: int,
    mark: str,
    body_for: Callable[[str], str | None],
) -> str:
    """Update our comment on pull request `number`, or create one. Returns its address,
    "" if nothing was posted.

    `body_for` makes its text from the text that it has, "" if there is none; None
    changes nothing. Doubles of earlier races are deleted. Raises GitHubApiError.
    """
    thread = api.repository.get_issue(number)
    login = own_login(api)

    def find() -> list[IssueComment]:
        return own_comments(thread.get_comments(), mark, login)

    def text_after(body: str) -> str | None:
        new_body = body_for(body.partition("\n")[2])
        return None if new_body is None else f"{mark}\n{new_body}"

    own = find()
    text = text_after(own[0].body or "" if own else "")
    if text is None:
        return ""
    if own:
        comment = own[0]
        comment.edit(text)
    else:
        comment = create_once(api, lambda: thread.create_comment(text), find)
        # A comment that another job created at the same time stays in place of ours.
        if comment.body not in (None, text):
            comment.edit(text_after(comment.body) or comment.body)
    with suppress(GitHubApiError):
        for double in own[1:]:
            double.delete()
    return comment.html_url
