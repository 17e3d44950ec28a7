"""The comments of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.ci.comments import Comment
from ragstone.ci.github.client import GitHubApi
from ragstone.ci.github.posts import MAX_BODY, Post, create_once, find_identity, own_posts

KIND = "comment"


class GitHubComments:
    """The comments of pull request `number`."""

    limit = MAX_BODY

    def __init__(self, api: GitHubApi, number: int) -> None:
        self._api = api
        self._path = f"{api.base}/issues/{number}/comments"
        self._identity = find_identity(api)

    def ours(self, mark: str) -> Sequence[Comment]:
        return [self._comment(post) for post in self._find(mark)]

    def create(self, mark: str, text: str) -> Comment:
        created = create_once(
            self._api,
            self._path,
            {"body": text},
            find=lambda: self._find(mark),
            remove=lambda post: self.delete(self._comment(post)),
        )
        return self._comment(created)

    def update(self, comment: Comment, text: str) -> Comment:
        return self._comment(self._api.patch(Post, comment.place, {"body": text}))

    def delete(self, comment: Comment) -> None:
        self._api.delete(comment.place)

    def _find(self, mark: str) -> list[Post]:
        return own_posts(self._api, self._path, mark, self._identity)

    def _comment(self, post: Post) -> Comment:
        return Comment(f"{self._api.base}/issues/comments/{post.id}", post.html_url)
