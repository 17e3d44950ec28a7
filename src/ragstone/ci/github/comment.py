"""One comment per pull request and gate: found by marker and author, updated in place, never duplicated."""

from __future__ import annotations

from contextlib import suppress

from ragstone.ci.github.client import GitHubApi, GitHubApiError
from ragstone.ci.github.posts import Identity, Post, Posted, create_once, find_identity, is_ours, marker, oldest_first

KIND = "comment"


def find_comments(api: GitHubApi, number: int, mark: str, identity: Identity) -> list[Post]:
    """Our comments on pull request `number`, from all pages, with the one to keep first. Raises GitHubApiError."""
    path = f"{api.base}/issues/{number}/comments"
    return oldest_first([post for post in api.pages(Post, path) if is_ours(post, mark, identity)])


def post_comment(
    api: GitHubApi, number: int, comment_id: str, body: str, *, only_update: bool = False
) -> Posted | None:
    """Update our comment on pull request `number`, or create it if there is none.

    `body` has no marker. `only_update`: update an existing comment, but don't create one (then None). Duplicates from
    earlier races are deleted. Raises GitHubApiError.
    """
    mark = marker(KIND, comment_id)
    content = {"body": f"{mark}\n{body}"}
    identity = find_identity(api)

    def find() -> list[Post]:
        return find_comments(api, number, mark, identity)

    def remove(post: Post) -> None:
        api.delete(f"{api.base}/issues/comments/{post.id}")

    mine = find()
    if mine:
        posted = api.patch(Post, f"{api.base}/issues/comments/{mine[0].id}", content)
        with suppress(GitHubApiError):
            for double in mine[1:]:
                remove(double)
        return Posted(posted.html_url, updated=True)
    if only_update:
        return None
    created = create_once(api, f"{api.base}/issues/{number}/comments", content, find=find, remove=remove)
    return Posted(created.html_url, updated=False)
