"""What comments and issues have in common: the hidden marker, whose a post is, and creating one exactly once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ragstone.github.client import ApiErrorKind, ApiReply, GitHubApi, GitHubApiError

ACTIONS_BOT = "github-actions[bot]"
MAX_BODY = 65_000
"""GitHub allows 65,536 characters; the rest is left for the marker."""

_LOOKS = 3
"""How often a write of unknown outcome is looked for before it is sent again."""


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
class Posted:
    """What became of a post: where it is, and whether it was there before."""

    url: str
    updated: bool


@dataclass(frozen=True, slots=True)
class Identity:
    """Who our token posts as. `login` None: an installation, whose name the API does not tell it."""

    login: str | None

    def wrote(self, author: Author | None) -> bool:
        """A person's token owns what that person wrote; an installation's, what bots wrote (people can't be one)."""
        if author is None:
            return False
        if self.login is not None:
            return author.login == self.login
        return author.type == "Bot" and author.login.endswith("[bot]")


def find_identity(api: GitHubApi) -> Identity:
    """Ask who we are. The token of a workflow is an installation's and gets 403: then we are some bot."""
    try:
        return Identity(api.get(_Me, "/user").login)
    except GitHubApiError as api_error:
        if api_error.kind in (ApiErrorKind.REFUSED, ApiErrorKind.NOT_FOUND):
            return Identity(None)
        raise


def marker(kind: str, identifier: str) -> str:
    """The hidden first line of a post. `identifier` was checked by the inputs, so it can't close the HTML comment."""
    digest = hashlib.sha256(f"{kind}\0{identifier}".encode()).hexdigest()[:16]
    return f"<!-- ragstone:{kind}:{identifier}:{digest} -->"


def is_ours(post: Post, mark: str, identity: Identity) -> bool:
    """By marker and author. The marker is the whole first line: text further down may be anybody's."""
    first_line = (post.body or "").replace("\r\n", "\n").partition("\n")[0]
    return first_line == mark and identity.wrote(post.user)


def oldest_first(posts: Sequence[Post]) -> list[Post]:
    """In the order in which one is kept: the workflow's own bot before any other, then by age."""
    return sorted(posts, key=lambda post: (post.user is None or post.user.login != ACTIONS_BOT, post.id))


def create_once(
    api: GitHubApi,
    path: str,
    body: Mapping[str, object],
    *,
    find: Callable[[], list[Post]],
    remove: Callable[[Post], None],
) -> Post:
    """Create a post and make sure that there is one of it: the oldest that `find` gives stays, others are removed.

    A POST of unknown outcome is looked for several times before it is sent again, once. Raises GitHubApiError.
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
    # Two jobs at once, or a first attempt that shows up late: the next run tidies up what is not seen yet.
    with suppress(GitHubApiError):
        if found := find():
            for double in found[1:]:
                remove(double)
            return found[0]
    return created
