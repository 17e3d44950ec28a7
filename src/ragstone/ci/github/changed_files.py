"""The files that differ between two commits, as GitHub compares them: from where the second one branched off."""

from __future__ import annotations

from urllib.parse import quote

from ragstone.ci.github.client import ApiReply, GitHubApi

MAX_LISTED = 300
"""GitHub lists no more files of a comparison."""


class _File(ApiReply):
    filename: str
    previous_filename: str | None = None


class _Comparison(ApiReply):
    files: list[_File] | None = None


def changed_files(api: GitHubApi, base: str, head: str) -> frozenset[str] | None:
    """The paths that `head` adds, changes, removes or renames (both names); None if there may be more than are listed.

    Both commits are named by their SHA, so the result can't change after the event. Raises GitHubApiError.
    """
    path = f"{api.base}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
    # All files are on the first page, which is about the commits.
    files = api.get(_Comparison, path, {"per_page": 1, "page": 1}).files
    if files is None or len(files) >= MAX_LISTED:
        return None
    return frozenset(name for one in files for name in (one.filename, one.previous_filename) if name)
