"""One comment that several jobs update at the same time, without losing what another job wrote.

GitHub's comments have no version to compare, so that two jobs that read, change and write the same comment could each
undo the other's change. But adding a reaction is atomic: the reply says whether this request added it (201) or it was
there before (200), and all jobs of a workflow are the same user. So a reaction of our own on the comment is a lock: who
adds it may write, and removes it afterwards. Only a reaction that nobody removed for a whole `LEASE_S` is removed by
somebody else, by its id, so that two jobs can't both take the lock from a job that was killed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ragstone.ci.github.client import ApiErrorKind, ApiReply, GitHubApi, GitHubApiError
from ragstone.ci.github.posts import Author, Identity, Post, Posted, create_once, find_identity, own_posts

LOCK = "eyes"
"""The reaction that is the lock: 👀."""

LEASE_S = 90.0
"""For how long a lock may be held: much longer than the few requests of one change take."""

MAX_WAIT_S = 600.0
_ROUNDS = 6

Change = Callable[[Sequence[str]], str]
"""From the bodies of our comments, the one to keep first, without markers, to the new body."""


class _Reaction(ApiReply):
    id: int
    content: str
    user: Author | None = None


class CommentBusyError(Exception):
    """The comment could not be locked or changed in time."""


def update_shared_comment(
    api: GitHubApi,
    number: int,
    mark: str,
    change: Change,
    *,
    holds: Callable[[str], bool],
    clock: Callable[[], float] = time.monotonic,
) -> Posted:
    """Replace the body of our comment with the first line `mark` on pull request `number`, or create it.

    `change` gets bodies that nobody else writes meanwhile. `holds` says whether a body has what this job has to say; it
    is checked at the end, on what GitHub then lists. Comments of others, also of other bots, never count. Raises
    GitHubApiError and CommentBusyError.
    """
    path = f"{api.base}/issues/{number}/comments"
    return _Writer(api, path, mark, change, holds, clock, clock() + MAX_WAIT_S, find_identity(api)).write()


@dataclass(slots=True)
class _Writer:
    """One job's change of the comment. `_identity` is exact as soon as GitHub has named us in a reply."""

    _api: GitHubApi
    _path: str
    _mark: str
    _change: Change
    _holds: Callable[[str], bool]
    _clock: Callable[[], float]
    _deadline: float
    _identity: Identity

    def write(self) -> Posted:
        updated, mine = True, self._find()
        for turn in range(_ROUNDS):
            if not mine:
                updated = False
                self._create()
            elif not self._change_first(mine[0]):
                self._api.sleep(self._api.patience.first_pause_s * 2**turn * (1.0 + _random()))
            mine = self._find()
            if len(mine) == 1 and self._holds(_content(mine[0])):
                return Posted(mine[0].html_url, updated=updated)
        raise CommentBusyError("other jobs kept changing it")

    def _find(self) -> list[Post]:
        return own_posts(self._api, self._path, self._mark, self._identity)

    def _create(self) -> None:
        body = {"body": f"{self._mark}\n{self._change(())}"}
        # Nothing is removed here: another job may have created one too, and a third one written to it already.
        self._know(create_once(self._api, self._path, body, find=self._find, remove=lambda _: None).user)
        self._api.sleep(self._api.patience.settle_s)

    def _know(self, author: Author | None) -> None:
        if author is not None:
            self._identity = Identity(author.login)

    def _change_first(self, first: Post) -> bool:
        """Change the first of our comments under its lock, and remove the others; whether that was done."""
        api = self._api
        try:
            with self._locked(first) as in_time:
                now = self._find()
                if not now or now[0].id != first.id:
                    return False
                body = f"{self._mark}\n{self._change([_content(post) for post in now])}"
                if not in_time():
                    return False
                api.patch(Post, f"{api.base}/issues/comments/{first.id}", {"body": body}, once=True)
                for double in now[1:]:
                    with suppress(GitHubApiError):
                        api.delete(f"{api.base}/issues/comments/{double.id}")
        except GitHubApiError as api_error:
            # Whether the change was written is seen by looking. The comment may also have been deleted.
            if api_error.kind is ApiErrorKind.LIMITED:
                api.sleep(api.patience.max_pause_s)
            elif api_error.kind is not ApiErrorKind.NOT_FOUND and not api_error.may_have_happened:
                raise
            return False
        return True

    @contextmanager
    def _locked(self, post: Post) -> Iterator[Callable[[], bool]]:
        """Hold the lock of a comment; the result says whether there is still time for one more request."""
        api, path = self._api, f"{self._api.base}/issues/comments/{post.id}/reactions"
        seen: tuple[int, float] | None = None
        while True:
            held = self._held(path) if seen is not None else None
            if held is None:
                started = self._clock()
                created, reaction = api.post_new(_Reaction, path, {"content": LOCK})
                self._know(reaction.user)
                if created:
                    break
                held = reaction.id
            if seen is None or seen[0] != held:
                seen = (held, self._clock())
            elif self._clock() - seen[1] > LEASE_S:
                self._remove(path, held)
                continue
            if self._clock() > self._deadline:
                raise CommentBusyError("another job holds its lock (👀)")
            api.sleep(api.patience.first_pause_s * (0.5 + _random()))
        try:
            yield lambda: self._clock() - started < LEASE_S / 3
        finally:
            self._remove(path, reaction.id)

    def _held(self, path: str) -> int | None:
        """The id of the lock, if a job has it. Reactions of others don't matter."""
        listed = self._api.pages(_Reaction, path, {"content": LOCK})
        return next((one.id for one in listed if one.content == LOCK and self._identity.wrote(one.user)), None)

    def _remove(self, path: str, reaction: int) -> None:
        # If that fails, it is gone already, or another job removes it after the lease.
        with suppress(GitHubApiError):
            self._api.delete(f"{path}/{reaction}")


def _content(post: Post) -> str:
    return (post.body or "").replace("\r\n", "\n").partition("\n")[2]


def _random() -> float:
    return secrets.randbelow(1000) / 1000
