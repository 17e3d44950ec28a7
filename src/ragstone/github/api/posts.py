"""Posts and updates the one comment of a gate on a pull request, which is found again by
its marker and author."""

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
MAX_BODY_CHARACTERS = 65_000
"""GitHub allows 65,536; the others are for the marker."""

# How often a comment with unknown outcome is searched for before it is sent again.
_MAX_SEARCHES = 3


@reply_errors()
def own_login(api: GitHubApi) -> str | None:
    """The login of the user whose token this is; None if it is the token of an
    installation, such as a workflow's own, which can't query its name."""
    try:
        return AuthenticatedUser(api, url="/user").login
    except GitHubApiError as api_error:
        if api_error.kind in (ApiErrorKind.REFUSED, ApiErrorKind.NOT_FOUND):
            return None
        raise


def marker(identifier: str) -> str:
    """The hidden first line of a comment. `identifier` is the input `comment-id`, whose
    pattern admits nothing that could close the HTML comment."""
    digest = hashlib.sha256(f"comment\0{identifier}".encode()).hexdigest()[:16]
    return f"<!-- ragstone:comment:{identifier}:{digest} -->"


@reply_errors()
def own_comments(
    listing: PaginatedList[IssueComment], mark: str, login: str | None
) -> list[IssueComment]:
    """The gate's comments in a listing, by their first line and author, the one to keep
    first. Raises GitHubApiError."""
    own = []
    for comment in listed(listing):
        # The text below the first line may have marks that others wrote.
        body = comment.body or ""
        first_line = body.replace("\r\n", "\n").partition("\n")[0]
        if first_line == mark and _is_author(comment.user, login):
            own.append(comment)
    # Those of the workflow's bot come first, the oldest before others.
    return sorted(
        own, key=lambda comment: (comment.user.login != ACTIONS_BOT, comment.id)
    )


def _is_author(author: NamedUser | Organization | None, login: str | None) -> bool:
    """Whether `author` may be the user of our token: the one called `login`, or any bot
    if the token's user is not known. Accounts of people are never bots."""
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
    """Create a comment, and delete all that `find` then returns but the first. Returns
    the comment that stays.

    If the outcome of `create` is unknown, the comment is searched for several times
    before `create` is called again. Raises GitHubApiError.
    """
    try:
        created = create()
    except GitHubApiError as api_error:
        if not api_error.may_have_succeeded:
            raise
        for search in range(1, _MAX_SEARCHES + 1):
            api.sleep(api.retry_policy.settle_s * search)
            own = find()
            if own:
                return own[0]
        created = create()
    # Another job may have created one at the same time, or the first attempt appears
    # late. What is not visible yet is deleted by the next run.
    with suppress(GitHubApiError):
        own = find()
        if own:
            for duplicate in own[1:]:
                duplicate.delete()
            return own[0]
    return created


def post_comment(
    api: GitHubApi,
    number: int,
    mark: str,
    body_for: Callable[[str], str | None],
) -> str:
    """Update the gate's comment on pull request `number`, or create it. Returns its
    address, "" if nothing was posted.

    `body_for` is called with the text below the mark of the existing comment, "" if
    there is none, and returns the new one; None posts nothing. Duplicates, of jobs that
    ran at the same time, are deleted. Raises GitHubApiError.
    """
    issue = api.repository.get_issue(number)
    login = own_login(api)

    def find() -> list[IssueComment]:
        return own_comments(issue.get_comments(), mark, login)

    def updated(text: str) -> str | None:
        new_body = body_for(text.partition("\n")[2])
        return None if new_body is None else f"{mark}\n{new_body}"

    own = find()
    current_text = ""
    if own:
        current_text = own[0].body or ""
    text = updated(current_text)
    if text is None:
        return ""
    if own:
        comment = own[0]
        comment.edit(text)
    else:
        comment = create_once(api, lambda: issue.create_comment(text), find)
        # A comment that another job created at the same time stays in place of ours.
        if comment.body not in (None, text):
            new_text = updated(comment.body)
            if new_text is not None:
                comment.edit(new_text)
    with suppress(GitHubApiError):
        for duplicate in own[1:]:
            duplicate.delete()
    return comment.html_url
