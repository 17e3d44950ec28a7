"""The whole tree of another commit of this repository, downloaded through GitHub's API.

Nothing in the checkout is used, which belongs to the pull request, and no depth of a
clone is needed.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from ragstone.archive import ArchiveRefused
from ragstone.github.api.artifacts import download
from ragstone.github.api.base_files import SUBMODULE, is_filled, list_commit_files
from ragstone.github.api.client import (
    GitHubApi,
    GitHubApiError,
    if_present,
    reply_errors,
)
from ragstone.github.api.reviewed import ReviewedBase, base_commit

MAX_FILES = 200_000
MAX_TREE_BYTES = 2 * 1024**3


def tree_of(api: GitHubApi, sha: str) -> str | None:
    """Git's name for all files of commit `sha`; None if GitHub doesn't tell."""
    with suppress(GitHubApiError), reply_errors():
        return api.repository.get_git_commit(sha).tree.sha
    return None


@reply_errors()
def compared_commit(api: GitHubApi, reviewed: ReviewedBase) -> str | None:
    """The commit that what this job checked out is to be compared with; None on the
    default branch itself.

    What is checked out for a pull request is a merge, whose first parent is the base as
    it was merged with: the base that the event names may be older. Raises
    GitHubApiError.
    """
    base, pull = base_commit(api, reviewed), reviewed.event.pull_request
    if pull is None or base is None:
        return base
    merge = if_present(lambda: api.repository.get_git_commit(reviewed.event.sha))
    parents = [] if merge is None else [parent.sha for parent in merge.parents]
    return parents[0] if parents[1:] == [pull.head_sha] else base


def download_tree(api: GitHubApi, sha: str, folder: Path, workspace: Path) -> None:
    """Write the files of commit `sha` to `folder`, which must not exist yet and whose
    parent nobody else writes to.

    Of files that Git LFS keeps elsewhere, only the pointers are included. Raises
    GitHubApiError, also if GitHub doesn't list all files of the commit; ArchiveRefused
    for more than MAX_FILES files, or MAX_TREE_BYTES in total, and if GitHub's archive
    lacks a file of the commit, or a submodule that is checked out in `workspace`.
    """
    archive = download(api, f"tarball/{quote(sha, safe='')}")
    folder.mkdir(mode=0o700)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as opened:
            _unpack(opened, folder)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise ArchiveRefused(
            f"the files of commit {sha[:12]} can't be unpacked ({error})"
        ) from None
    with reply_errors():
        for file in list_commit_files(api, sha):
            if file.mode == SUBMODULE:
                is_missing = is_filled(workspace / file.path)
            else:  # `export-ignore` in .gitattributes leaves it out
                is_missing = not os.path.lexists(folder / file.path)
            if is_missing:
                raise ArchiveRefused(
                    f"GitHub's archive of commit {sha[:12]} lacks {file.path!r}"
                )


def _unpack(opened: tarfile.TarFile, folder: Path) -> None:
    """Regular files first, links last, so that nothing is written through a link."""
    links = []
    remaining_bytes = MAX_TREE_BYTES
    for count, member in enumerate(opened):
        # The first part is named after the repository and the commit.
        parts = PurePosixPath(member.name).parts[1:]
        remaining_bytes -= max(0, member.size)
        if count >= MAX_FILES or remaining_bytes < 0:
            raise ArchiveRefused(
                f"it has more than {MAX_FILES:,} files, or is larger than {MAX_TREE_BYTES:,} bytes"
            )
        if ".." in parts:
            raise ArchiveRefused(
                f"it contains a path that leads out of it: {member.name[:80]!r}"
            )
        if not parts:
            continue
        target = folder.joinpath(*parts)
        if member.issym():
            links.append((target, member.linkname))
        elif member.isreg():
            target.parent.mkdir(parents=True, exist_ok=True)
            source = opened.extractfile(member)
            assert source is not None  # noqa: S101 - a regular file
            with source, target.open("xb") as out:
                shutil.copyfileobj(source, out)
            target.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)
    # Of a link and one below it, that comes first, and then a folder is in the way.
    for target, where in sorted(links, reverse=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(where)
