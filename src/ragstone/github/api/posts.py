"""The comments of a pull request, and the issue of a failing nightly run: each marked, owned, and the only one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from ragstone.github.api.client import ApiErrorKind, ApiReply, GitHubApi, GitHubApiError

KIND = "issue"


class IssueStep(StrEnum):
    OPENED = "opened"
    UPDATED = "updated"
    CLOSED = "closed"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class IssueResult:
    step: IssueStep
    url: str = ""


def follow_up(
    api: GitHubApi, issue_id: str, *, failing: bool, may_open: bool, title: str, body: str, recovery: str
) -> IssueResult:
    """Update the sticky issue to match the last run.

    `failing`: open it (if `may_open`) or update it with `body`; otherwise close it, with `recovery` as the last
    comment. `body` has no marker. Raises GitHubApiError.
    """
    mark = marker(KIND, issue_id)
    identity = find_identity(api)
    content = f"{mark}\n{body}"

    def find() -> list[Post]:
        listing: dict[str, str | int] = {"state": "open", "sort": "created", "direction": "desc"}
        if identity.login is not None:
            listing["creator"] = identity.login
        found = own_posts(api, f"{api.base}/issues", mark, identity, listing)
        return [post for post in found if post.pull_request is None]

    def close(post: Post) -> None:
        api.patch(Post, _path(api, post), {"state": "closed", "state_reason": "completed"})

    mine = find()
    if failing and mine:
        issue = api.patch(Post, _path(api, mine[0]), {"title": title, "body": content})
        return IssueResult(IssueStep.UPDATED, issue.html_url)
    if failing and may_open:
        issue = create_once(api, f"{api.base}/issues", {"title": title, "body": content}, find=find, remove=close)
        return IssueResult(IssueStep.OPENED, issue.html_url)
    if failing or not mine:
        return IssueResult(IssueStep.NOTHING)
    # Close it first: otherwise, if closing failed, the recovery would be announced again every night.
    for issue in mine:
        close(issue)
    api.post(Post, f"{_path(api, mine[0])}/comments", {"body": recovery})
    return IssueResult(IssueStep.CLOSED, mine[0].html_url)


def _path(api: GitHubApi, post: Post) -> str:
    return f"{api.base}/issues/{post.number}"


ACTIONS_BOT = "github-actions[bot]"
MAX_BODY = 65_000
"""GitHub allows 65,536 characters; the rest is reserved for the marker."""

_LOOKS = 3
"""Number of checks for a write with unknown outcome before it is sent again."""


class Author(ApiReply):
    login: str
    type: str = "User"


class Post(ApiReply):
    """A comment or an issue. `number` and `pull_request` are an issue's."""

    id: int
    body: str | None = None
    html_url: str = ""
    user: Author | None = None
    number: int | None = None
    state: str | None = None
    pull_request: dict[str, object] | None = None


class _Me(ApiReply):
    login: str


@dataclass(frozen=True, slots=True)
class Identity:
    """The author of posts with our token. `login` None: an installation, which can't query its own name."""

    login: str | None

    def wrote(self, author: Author | None) -> bool:
        """A user's token owns that user's posts; an installation's token owns posts of bots (users can't be bots)."""
        if author is None:
            return False
        if self.login is not None:
            return author.login == self.login
        return author.type == "Bot" and author.login.endswith("[bot]")


def find_identity(api: GitHubApi) -> Identity:
    """Query our identity. A workflow's token belongs to an installation and gets 403: then we are some bot."""
    try:
        return Identity(api.get(_Me, "/user").login)
    except GitHubApiError as api_error:
        if api_error.kind in (ApiErrorKind.REFUSED, ApiErrorKind.NOT_FOUND):
            return Identity(None)
        raise


def marker(kind: str, identifier: str) -> str:
    """The hidden first line of a post. `identifier` was validated, so it can't close the HTML comment."""
    digest = hashlib.sha256(f"{kind}\0{identifier}".encode()).hexdigest()[:16]
    return f"<!-- ragstone:{kind}:{identifier}:{digest} -->"


def is_marked(text: str, mark: str) -> bool:
    """Whether `mark` is the whole first line: text further down may come from anyone."""
    return text.replace("\r\n", "\n").partition("\n")[0] == mark


def own_posts(
    api: GitHubApi, path: str, mark: str, identity: Identity, parameters: Mapping[str, str | int] | None = None
) -> list[Post]:
    """Our posts in a listing, by mark and author, from all pages; the one to keep first. Raises GitHubApiError."""
    listed = api.pages(Post, path, parameters)
    found = [post for post in listed if is_marked(post.body or "", mark) and identity.wrote(post.user)]
    # The workflow's own bot first, then by age.
    return sorted(found, key=lambda post: (post.user is None or post.user.login != ACTIONS_BOT, post.id))


def create_once(
    api: GitHubApi,
    path: str,
    body: Mapping[str, object],
    *,
    find: Callable[[], list[Post]],
    remove: Callable[[Post], None],
) -> Post:
    """Create a post and make sure that it is unique: the first that `find` returns stays, others are removed.

    A POST with unknown outcome is searched for several times before it is sent again, once. Raises GitHubApiError.
    """
    try:
        created = api.post(Post, path, body)
    except GitHubApiError as api_error:
        if not api_error.may_have_happened:
            raise
        for look in range(_LOOKS):
            api.sleep(api.patience.settle_s * (look + 1))
            if found := find():
                return found[0]
        created = api.post(Post, path, body)
    # Two concurrent jobs, or a first attempt that appears late: the next run cleans up what is not visible yet.
    with suppress(GitHubApiError):
        if found := find():
            for double in found[1:]:
                remove(double)
            return found[0]
    return created


COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Posted:
    """The result of posting: the address, and whether the comment existed before."""

    url: str
    updated: bool


def post_comment(api: GitHubApi, number: int, mark: str, body_for: Callable[[str], str | None]) -> Posted | None:
    """Update our comment on pull request `number`, or create it if there is none.

    `body_for` makes its text from the text that it has, "" if there is none; None changes nothing. Doubles of earlier
    races are deleted, and one that another job's comment won is added to that. Raises GitHubApiError.
    """
    path = f"{api.base}/issues/{number}/comments"
    identity = find_identity(api)

    def find() -> list[Post]:
        return own_posts(api, path, mark, identity)

    def text_after(post: Post) -> str | None:
        body = body_for((post.body or "").partition("\n")[2])
        return None if body is None else f"{mark}\n{body}"

    def path_of(post: Post) -> str:
        return f"{api.base}/issues/comments/{post.id}"

    def remove(post: Post) -> None:
        api.delete(path_of(post))

    own = find()
    if own:
        text = text_after(own[0])
        if text is None:
            return None
        updated = api.patch(Post, path_of(own[0]), {"body": text})
        with suppress(GitHubApiError):
            for double in own[1:]:
                remove(double)
        return Posted(updated.html_url, updated=True)
    body = body_for("")
    if body is None:
        return None
    text = f"{mark}\n{body}"
    created = create_once(api, path, {"body": text}, find=find, remove=remove)
    # A comment that another job created at the same time stays in place of ours.
    merged = text if created.body in (None, text) else text_after(created)
    if merged not in (None, text):
        created = api.patch(Post, path_of(created), {"body": merged})
    return Posted(created.html_url, updated=False)
