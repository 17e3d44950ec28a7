"""One comment of ours on a merge request: found by its mark and its author, updated in place, never doubled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ragstone.ci.http import ApiRefused


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, by where it is in the platform's API."""

    place: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Posted:
    """The result of posting: the address, and whether the comment existed before."""

    url: str
    updated: bool


class Comments(Protocol):
    """The comments of one merge request, as a platform has them. Each method raises ApiRefused.

    `limit` is the number of characters that a comment may have, without our mark.
    """

    limit: int

    def ours(self, mark: str) -> Sequence[Comment]:
        """Those that `is_marked`, and that we wrote: with the token of this job. The one to keep comes first."""
        ...

    def create(self, mark: str, text: str) -> Comment: ...

    def update(self, comment: Comment, text: str) -> Comment: ...

    def delete(self, comment: Comment) -> None: ...


def is_marked(text: str, mark: str) -> bool:
    """Whether `mark` is the whole first line: text further down may come from anyone."""
    return text.replace("\r\n", "\n").partition("\n")[0] == mark


def post_comment(comments: Comments, mark: str, body: str, *, only_update: bool = False) -> Posted | None:
    """Update our comment, or create it if there is none; doubles of earlier races are deleted. Raises ApiRefused.

    `only_update`: create none (then None).
    """
    text = f"{mark}\n{body}"
    mine = comments.ours(mark)
    if mine:
        updated = comments.update(mine[0], text)
        with suppress(ApiRefused):
            for double in mine[1:]:
                comments.delete(double)
        return Posted(updated.url, updated=True)
    if only_update:
        return None
    return Posted(comments.create(mark, text).url, updated=False)
