"""The comments of a pull request, and the issue of a failing nightly run: each marked,
owned, and the only one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from github.AuthenticatedUser import AuthenticatedUser
from github.GithubObject import NotSet
from github.Issue import Issue
from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PaginatedList import PaginatedList

from ragstone.github.api.client import (
    ApiErrorKind,
    GitHubApi,
    GitHubApiError,
    listed,
    reading_replies,
)

ACTIONS_BOT = "github-actions[bot]"
COMMENT = "comment"
KIND = "issue"
MAX_BODY = 65_000
"""GitHub allows 65,536 characters; the rest is reserved for the marker."""

_LOOKS = 3
"""Number of checks for a write with unknown outcome before it is sent again."""

Post = TypeVar("Post", IssueComment, Issue)


@dataclass(frozen=True, slots=True)
class Identity:
    """The author of posts with our token. `login` None: an installation, which can't
    query its own name."""

    login: str | None

    def wrote(self, author: NamedUser | Organization | None) -> bool:
        """A user's token owns that user's posts; an installation's token owns posts of
        bots (users can't be bots)."""
        if author is None:
            return False
        if self.login is not None:
            return author.login == self.login
        return author.type == "Bot" and author.login.endswith("[bot]")


@reading_replies()
def find_identity(api: GitHubApi) -> Identity:
    """Query our identity. A workflow's token belongs to an installation and gets 403:
    then we are some bot."""
    try:
        return Identity(AuthenticatedUser(api.requester, url="/user").login)
    except GitHubApiError as api_error:
        if api_error.kind in (ApiErrorKind.REFUSED, ApiErrorKind.NOT_FOUND):
            return Identity(None)
        raise


def marker(kind: str, identifier: str) -> str:
    """The hidden first line of a post. `identifier` was validated, so it can't close
    the HTML comment."""
    digest = hashlib.sha256(f"{kind}\0{identifier}".encode()).hexdigest()[:16]
    return f"<!-- ragstone:{kind}:{identifier}:{digest} -->"


def is_marked(text: str, mark: str) -> bool:
    """Whether `mark` is the whole first line: text further down may come from
    anyone."""
    return text.replace("\r\n", "\n").partition("\n")[0] == mark


@reading_replies()
def own_posts(
    listing: PaginatedList[Post], mark: str, identity: Identity
) -> list[Post]:
    """Our posts in a listing, by mark and author, from all pages; the one to keep
    first. Raises GitHubApiError."""
    own = [
        post
        for post in listed(listing)
        if is_marked(post.body or "", mark) and identity.wrote(post.user)
    ]
    # The workflow's own bot first, then by age.
    return sorted(own, key=lambda post: (post.user.login != ACTIONS_BOT, post.id))


def create_once(
    api: GitHubApi,
    create: Callable[[], Post],
    *,
    find: Callable[[], list[Post]],
    remove: Callable[[Post], None],
) -> Post:
    """Create a post and make sure that it is unique: the first that `find` returns
    stays, others are removed.

    A POST with unknown outcome is searched for several times before it is sent again,
    once. Raises GitHubApiError.
    """
    try:
        created = create()
    except GitHubApiError as api_error:
        if not api_error.may_have_happened:
            raise
        for look in range(_LOOKS):
            api.sleep(api.patience.settle_s * (look + 1))
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
                remove(double)
            return own[0]
    return created


def follow_up(
    api: GitHubApi,
    issue_id: str,
    *,
    failing: bool,
    title: str,
    body: str,
    recovery: str,
) -> str:
    """Update the sticky issue to match the last run. Returns a sentence on what was
    done with it, "" for nothing.

    `failing`: open it or update it with `body`; otherwise close it,
    with `recovery` as the last comment. `body` has no marker. Raises GitHubApiError.
    """
    mark = marker(KIND, issue_id)
    identity = find_identity(api)
    content = f"{mark}\n{body}"

    def find() -> list[Issue]:
        creator: Any = (
            identity.login or NotSet
        )  # PyGithub's type leaves out the login that it takes
        listing = api.repository.get_issues(
            state="open", sort="created", direction="desc", creator=creator
        )
        posts = own_posts(listing, mark, identity)
        # A pull request is listed as an issue. Its `pull_request` would be asked for,
        # where there is none.
        return [
            issue
            for issue in posts
            if not issue.html_url.endswith(f"/pull/{issue.number}")
        ]

    def create() -> Issue:
        return api.repository.create_issue(title, content)

    def close(issue: Issue) -> None:
        issue.edit(state="closed", state_reason="completed")

    own = find()
    if failing and own:
        own[0].edit(title=title, body=content)
        return f"The issue {own[0].html_url} was updated."
    if failing:
        opened = create_once(api, create, find=find, remove=close)
        return f"The issue {opened.html_url} was opened."
    if not own:
        return ""
    # Close it first: otherwise, if closing failed, the recovery would be announced
    # again every night.
    for issue in own:
        close(issue)
    own[0].create_comment(recovery)
    return f"The issue {own[0].html_url} was closed."


def post_comment(
    api: GitHubApi,
    number: int,
    mark: str,
    body_for: Callable[[str], str | None],
    is_in: Callable[[str], bool] = lambda _: True,
) -> str:
    """Update our comment on pull request `number`, or create one. Returns its address,
    "" if nothing was posted.

    `body_for` makes its text from the text that it has, "" if there is none; None
    changes nothing. Doubles of earlier races are deleted, and one that another job's
    comment won is added to that. `is_in` says whether our part is in a text: where
    another job wrote over it at the same time, it is written again. Raises
    GitHubApiError.
    """
    thread = api.repository.get_issue(number)
    identity = find_identity(api)

    def find() -> list[IssueComment]:
        return own_posts(thread.get_comments(), mark, identity)

    def text_after(comment: IssueComment) -> str | None:
        body = body_for((comment.body or "").partition("\n")[2])
        return None if body is None else f"{mark}\n{body}"

    def restore(comment_id: int) -> None:
        """Write our part again as long as another job, which read the comment before we
        wrote, took it out."""
        with suppress(GitHubApiError):
            for _ in range(_LOOKS):
                api.sleep(api.patience.settle_s)
                current = next(
                    (comment for comment in find() if comment.id == comment_id), None
                )
                if current is None or is_in((current.body or "").partition("\n")[2]):
                    return
                text = text_after(current)
                if text is None:
                    return
                current.edit(text)

    own = find()
    if own:
        text = text_after(own[0])
        if text is None:
            return ""
        own[0].edit(text)
        restore(own[0].id)
        with suppress(GitHubApiError):
            for double in own[1:]:
                double.delete()
        return own[0].html_url
    body = body_for("")
    if body is None:
        return ""
    text = f"{mark}\n{body}"
    created = create_once(
        api, lambda: thread.create_comment(text), find=find, remove=IssueComment.delete
    )
    # A comment that another job created at the same time stays in place of ours.
    merged = text if created.body in (None, text) else text_after(created)
    if merged is not None and merged != text:
        created.edit(merged)
    restore(created.id)
    return created.html_url
