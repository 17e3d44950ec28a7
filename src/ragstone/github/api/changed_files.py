"""Finds the files of a checkout that differ from its commit, which is read from GitHub.

Git is not called: the configuration of a checkout can name programs to run, and can
hide changes. The files are only read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from github.GitTreeElement import GitTreeElement

from ragstone.files import open_regular
from ragstone.github.api.base_files import (
    LINK,
    SUBMODULE,
    is_filled,
    list_commit_files,
)
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.golden.sample import Texts

MAX_CHECKOUT_BYTES = 8 * 1024**3
"""Larger checkouts are not compared."""

# Larger files are not taken for texts whose line ends were converted.
_MAX_TEXT_BYTES = 64 * 1024**2

_CHUNK_BYTES = 1024 * 1024
_LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


def changed_files(api: GitHubApi, sha: str, checkout: Path) -> Texts | None:
    """The paths of files that commit `sha` has, and that `checkout` lacks or has with
    another content.

    Files that only the checkout has don't count, nor does the executable bit, nor that
    Git LFS replaced a pointer by its file, nor line ends of Windows. Returns None if
    the files can't be compared: GitHub doesn't list them, a submodule is checked out,
    or the checkout is larger than MAX_CHECKOUT_BYTES.
    """
    total_bytes = 0
    changed = []
    try:
        for file in list_commit_files(api, sha):
            path = checkout / file.path
            if file.mode == SUBMODULE:
                if is_filled(path):
                    return None
                continue
            total_bytes += path.lstat().st_size if os.path.lexists(path) else 0
            if total_bytes > MAX_CHECKOUT_BYTES:
                return None
            if not _is_same(file, path, checkout):
                changed.append(file.path)
    except (GitHubApiError, OSError):
        return None
    return tuple(changed)


def _is_same(file: GitTreeElement, path: Path, checkout: Path) -> bool:
    """Whether `path` has the content of `file`; false if it can't be read."""
    try:
        if file.mode == LINK:
            return file.sha == _blob_sha(os.fsencode(path.readlink()))
        with open_regular(path, within=checkout) as stream:
            return file.sha in _possible_shas(stream)
    except OSError:
        return False


def _possible_shas(stream: BinaryIO) -> Iterator[str]:
    """The SHAs that the content of `stream` can have in Git: as it is, as a pointer of
    Git LFS, or with the line ends of Unix."""
    size_bytes = os.fstat(stream.fileno()).st_size
    blob = _new_blob(size_bytes)
    lfs_object = hashlib.sha256()
    while chunk := stream.read(_CHUNK_BYTES):
        blob.update(chunk)
        lfs_object.update(chunk)
    yield blob.hexdigest()
    pointer = _LFS_POINTER.format(lfs_object.hexdigest(), size_bytes)
    yield _blob_sha(pointer.encode())
    if size_bytes <= _MAX_TEXT_BYTES:
        stream.seek(0)
        yield _blob_sha(stream.read().replace(b"\r\n", b"\n"))


def _new_blob(size_bytes: int) -> hashlib._Hash:
    """The hash of a Git blob, before its content."""
    return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)


def _blob_sha(content: bytes) -> str:
    blob = _new_blob(len(content))
    blob.update(content)
    return blob.hexdigest()
