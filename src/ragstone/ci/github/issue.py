"""The issue of a failing nightly run: opened once, updated while it fails, closed on recovery."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ragstone.ci.github.client import GitHubApi
from ragstone.ci.github.posts import Post, create_once, find_identity, marker, own_posts

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
