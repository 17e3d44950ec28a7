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
from ragstone.github.api.base_files import (
    LINK,
    SUBMODULE,
    is_filled,
    list_commit_files,
)
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.golden.sample import Texts

MAX_CHECKOUT_BYTES = 8 * 1024**3
"""A larger checkout is not compared."""

_CONVERTED_BYTES = 64 * 1024**2
"""The largest file whose line ends are looked at: a text."""

_CHUNK = 1024 * 1024
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


def changed_files(api: GitHubApi, sha: str, checkout: Path) -> Texts | None:
    """The files of commit `sha` that are not as in `checkout`; files that the commit
    doesn't have don't count.

    A file that Git LFS keeps elsewhere, or whose line ends were converted for Windows,
    is as in the commit. None if it can't be known: GitHub does not say, or a submodule
    is checked out.
    """
    total_bytes, changed = 0, []
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
    while chunk := stream.read(_CHUNK):
        content.update(chunk)
        lfs.update(chunk)
    yield content.hexdigest()
    yield _blob_of(_POINTER.format(lfs.hexdigest(), size).encode())
    if size <= _CONVERTED_BYTES:
        stream.seek(0)
        yield _blob_of(stream.read().replace(b"\r\n", b"\n"))


def _new_blob(size: int) -> hashlib._Hash:
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def _blob_of(body: bytes) -> str:
    blob = _new_blob(len(body))
    blob.update(body)
    return blob.hexdigest()
