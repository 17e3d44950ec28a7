"""The whole tree of another commit of this repository, downloaded through GitHub's API.

Nothing in the checkout is used, which belongs to the pull request, and no depth of a
clone is needed.
"""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from ragstone.archive import ArchiveRefused
from ragstone.github.api.artifacts import download
from ragstone.github.api.base_files import SUBMODULE, list_commit_files, read_base_files
from ragstone.github.api.client import (
    ApiErrorKind,
    GitHubApi,
    GitHubApiError,
    if_present,
    reading_replies,
)
from ragstone.github.api.reviewed import ReviewedBase, base_commit

MAX_FILES = 200_000
MAX_TREE_BYTES = 2 * 1024**3
_CHUNK = 1024 * 1024
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(\S.*?)\s*$", re.MULTILINE)


@reading_replies()
def tree_of(api: GitHubApi, sha: str) -> str | None:
    """Git's name for all files of commit `sha`; None if GitHub has no such commit.
    Raises GitHubApiError."""
    commit = if_present(lambda: api.repository.get_git_commit(sha))
    return None if commit is None else commit.tree.sha


@reading_replies()
def compared_commit(api: GitHubApi, reviewed: ReviewedBase) -> str | None:
    """The commit that what this job checked out is to be compared with; None on the
    default branch itself.

    What is checked out for a pull request is a merge, whose first parent is the base as
    it was merged with: the base that the event names may be older. In place of a base
    that doesn't count as reviewed it is the default branch. Raises GitHubApiError.
    """
    event, base = reviewed.event, base_commit(api, reviewed)
    if event.pull_request is None or base is None or reviewed.unreviewed is not None:
        return base
    merge = if_present(lambda: api.repository.get_git_commit(event.sha))
    if merge is None:
        return base
    parents = [parent.sha for parent in merge.parents]
    return (
        parents[0]
        if len(parents) == 2 and parents[1] == event.pull_request.head.sha
        else base
    )


def download_tree(api: GitHubApi, sha: str, folder: Path) -> None:
    """Write the files of commit `sha` to `folder`, which must not exist yet and whose
    parent nobody else writes to.

    Files that Git LFS keeps elsewhere, those of submodules, and those that the commit
    leaves out of archives are not included: see `submodules` and `add_left_out`.
    Raises GitHubApiError; ArchiveRefused for more than MAX_FILES files, or
    MAX_TREE_BYTES in total.
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


@reading_replies()
def add_left_out(api: GitHubApi, sha: str, folder: Path) -> tuple[str, ...]:
    """Add the files that the `.gitattributes` of commit `sha` leave out of its archive;
    returns notes on the result.

    Raises GitHubApiError, also for more files than `read_base_files` reads, and
    ArchiveRefused.
    """
    try:
        modes = {
            file.path: file.mode
            for file in list_commit_files(api, sha)
            if file.mode != SUBMODULE
        }
    except GitHubApiError as error:
        if error.kind is not ApiErrorKind.INVALID:
            raise
        return (
            f"{error}, so the base lacks those that `export-ignore` leaves out of its archive, if there are any.",
        )
    left_out = [path for path in modes if not os.path.lexists(folder / path)]
    for path, file in read_base_files(
        api, sha, left_out, folder.with_name("left-out")
    ).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        file.chmod(0o755 if modes[path] == "100755" else 0o644)
        file.rename(folder / path)
    for path in left_out:
        if not os.path.lexists(folder / path):
            raise ArchiveRefused(
                f"GitHub's archive of commit {sha[:12]} lacks {path!r}, which can't be read apart"
            )
    return ()


def submodules(folder: Path) -> tuple[str, ...]:
    try:
        text = (folder / ".gitmodules").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(_SUBMODULE.findall(text))


def _unpack(opened: tarfile.TarFile, folder: Path) -> None:
    """Regular files and folders first, links last, so that nothing is written through a
    link."""
    links: list[tuple[Path, str]] = []
    remaining_bytes = MAX_TREE_BYTES
    for count, member in enumerate(opened):
        parts = PurePosixPath(member.name).parts[
            1:
        ]  # the first is named after the repository and the commit
        remaining_bytes -= max(0, member.size)
        if count >= MAX_FILES or remaining_bytes < 0:
            raise ArchiveRefused(
                f"it has more than {MAX_FILES:,} files, or is larger than {MAX_TREE_BYTES:,} bytes"
            )
        if ".." in parts:
            raise ArchiveRefused(
                f"it contains a path that leads out of it: {member.name[:80]!r}"
            )
        target = folder.joinpath(*parts)
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
        elif member.issym() and parts:
            links.append((target, member.linkname))
        elif member.isreg() and parts:
            _write(opened, member, target)
    for target, where in links:
        if any(
            above.is_symlink()
            for above in target.parents
            if above.is_relative_to(folder)
        ):
            raise ArchiveRefused(
                f"it contains a path below a link: {target.relative_to(folder).as_posix()[:80]!r}"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(where)


def _write(opened: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = opened.extractfile(member)
    assert source is not None  # noqa: S101 - a regular file
    target.parent.mkdir(parents=True, exist_ok=True)
    with source, target.open("xb") as out:
        while chunk := source.read(_CHUNK):
            out.write(chunk)
    target.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)
