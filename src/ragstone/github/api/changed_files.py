"""Which files of a checkout are not those of its commit, as GitHub has it.

Git is not asked: the configuration of a checkout can name programs to run, and can hide
changes. Files are read, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from github.GitTreeElement import GitTreeElement

from ragstone.files import open_regular
from ragstone.github.api.base_files import LINK, SUBMODULE, list_commit_files
from ragstone.github.api.client import GitHubApi, GitHubApiError

MAX_CHECKOUT_BYTES = 8 * 1024**3
"""A larger checkout is not compared."""

_CONVERTED_BYTES = 64 * 1024**2
"""The largest file whose line ends are looked at: a text."""

_CHUNK = 1024 * 1024
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


def changed_files(api: GitHubApi, sha: str, checkout: Path) -> tuple[str, ...] | None:
    """The files of commit `sha` that are not as in `checkout`; files that the commit
    doesn't have don't count.

    A file that Git LFS keeps elsewhere, or whose line ends were converted for Windows,
    is as in the commit. None if it can't be known: GitHub does not say, or a submodule
    is checked out.
    """
    try:
        files = list_commit_files(api, sha)
    except GitHubApiError:
        return None
    if any(
        file.mode == SUBMODULE and _has_entries(checkout / file.path) for file in files
    ):
        return None
    total = sum(_size(checkout / file.path) for file in files)
    if total > MAX_CHECKOUT_BYTES:
        return None
    return tuple(
        file.path
        for file in files
        if file.mode != SUBMODULE and not _is_same(file, checkout)
    )


def _is_same(file: GitTreeElement, checkout: Path) -> bool:
    path = checkout / file.path
    try:
        if file.mode == LINK:
            return file.sha == _blob_of(os.fsencode(path.readlink()))
        with open_regular(path, within=checkout) as stream:
            return file.sha in _shas(stream)
    except OSError:
        return False


def _shas(stream: BinaryIO) -> Iterator[str]:
    """The names that Git gives to the content of `stream`: as it is, as a pointer of
    Git LFS, with Unix line ends."""
    size = os.fstat(stream.fileno()).st_size
    content, lfs = _new_blob(size), hashlib.sha256()
    has_windows_line_ends = False
    while chunk := stream.read(_CHUNK):
        content.update(chunk)
        lfs.update(chunk)
        has_windows_line_ends = has_windows_line_ends or b"\r\n" in chunk
    yield content.hexdigest()
    yield _blob_of(_POINTER.format(lfs.hexdigest(), size).encode())
    if has_windows_line_ends and size <= _CONVERTED_BYTES:
        stream.seek(0)
        yield _blob_of(stream.read().replace(b"\r\n", b"\n"))


def _new_blob(size: int) -> hashlib._Hash:
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def _blob_of(body: bytes) -> str:
    blob = _new_blob(len(body))
    blob.update(body)
    return blob.hexdigest()


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _has_entries(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False
