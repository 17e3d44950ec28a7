"""Downloads all files of another commit of this repository through GitHub's API.

The clone in the checkout is not used: it belongs to the pull request, and may lack the
commit.
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
    """The SHA of the tree of commit `sha`, which is the same for the same files; None
    if GitHub can't be asked."""
    with suppress(GitHubApiError), reply_errors():
        return api.repository.get_git_commit(sha).tree.sha
    return None


@reply_errors()
def compared_commit(api: GitHubApi, reviewed: ReviewedBase) -> str | None:
    """The base commit that the job's checkout is compared with; None on the default
    branch itself. Raises GitHubApiError."""
    base = base_commit(api, reviewed)
    pull = reviewed.event.pull_request
    if pull is None or base is None:
        return base
    # The checkout of a pull request is a merge. Its first parent is the commit of the
    # base that was merged, which may be newer than the one that the event names.
    merge = if_present(lambda: api.repository.get_git_commit(reviewed.event.sha))
    parents = [] if merge is None else [parent.sha for parent in merge.parents]
    return parents[0] if parents[1:] == [pull.head_sha] else base


def download_tree(api: GitHubApi, sha: str, folder: Path, workspace: Path) -> None:
    """Write the files of commit `sha` to `folder`, which must not exist yet, and whose
    parent folder nobody else may write to.

    Files in Git LFS are written as their pointers. Raises GitHubApiError, also if
    GitHub doesn't list all files of the commit. Raises ArchiveRefused for more than
    MAX_FILES files or MAX_TREE_BYTES, and if GitHub's archive lacks a file of the
    commit, or a submodule that is checked out in `workspace`.
    """
    archive = download(api, f"tarball/{quote(sha, safe='')}")
    folder.mkdir(mode=0o700)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as tar:
            _unpack(tar, folder)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError) as error:
        raise ArchiveRefused(
            f"the files of commit {sha[:12]} can't be unpacked ({error})"
        ) from None
    with reply_errors():
        for file in list_commit_files(api, sha):
            if file.mode == SUBMODULE:
                # Archives never have the files of submodules.
                is_missing = is_filled(workspace / file.path)
            else:
                # .gitattributes can leave files out of archives by `export-ignore`.
                is_missing = not os.path.lexists(folder / file.path)
            if is_missing:
                raise ArchiveRefused(
                    f"GitHub's archive of commit {sha[:12]} lacks {file.path!r}"
                )


def _unpack(tar: tarfile.TarFile, folder: Path) -> None:
    """Write the files and links of an archive to `folder`. Raises ArchiveRefused."""
    # Links are written last, so that nothing is written through them.
    links = []
    remaining_bytes = MAX_TREE_BYTES
    for index, member in enumerate(tar):
        # The first part is named after the repository and the commit.
        parts = PurePosixPath(member.name).parts[1:]
        remaining_bytes -= max(0, member.size)
        if index >= MAX_FILES or remaining_bytes < 0:
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
            source = tar.extractfile(member)
            assert source is not None  # noqa: S101 - a regular file
            with source, target.open("xb") as out:
                shutil.copyfileobj(source, out)
            target.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)
    # In reverse order, a path comes before its parents. So if an archive has a link
    # and a path below that link, a folder is there already, and the link is refused.
    for target, destination in sorted(links, reverse=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(destination)
