"""Reads files of another commit of this repository through GitHub's API, usually of the
base of a pull request.

The files of the base were reviewed. Those in the checkout belong to the pull request,
and are not read here.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path

from github.GitTreeElement import GitTreeElement

from ragstone.github.api.client import (
    ApiErrorKind,
    GitHubApi,
    GitHubApiError,
    if_present,
    reply_errors,
)
from ragstone.golden.sample import Texts

MAX_FILES = 200
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_TOTAL_BYTES = 64 * 1024 * 1024


def read_base_files(
    api: GitHubApi, sha: str, paths: Iterable[str], folder: Path
) -> Mapping[str, Path]:
    """Write the files of commit `sha` at `paths` to `folder`, which must not exist yet.

    Paths are relative to the repository's root, with forward slashes, and keep their
    structure in `folder`. Returns the written file of each path. Paths that are
    missing, lead out of the repository, or are not files (folders, submodules, links
    that lead out) are left out. Raises GitHubApiError, also for more files than
    MAX_FILES, a file larger than MAX_FILE_BYTES, or more than MAX_TOTAL_BYTES in total.
    """
    folder.mkdir(mode=0o700, parents=True)
    normal_paths = {path: posixpath.normpath(path) for path in paths}
    inside = {
        path: normal for path, normal in normal_paths.items() if _is_inside(normal)
    }
    if len(inside) > MAX_FILES:
        raise _invalid(f"{len(inside)} files of {sha} are more than {MAX_FILES}")
    written = {}
    total_bytes = 0
    for path, normal_path in inside.items():
        body = _read(api, sha, normal_path)
        if body is None:
            continue
        total_bytes += len(body)
        if total_bytes > MAX_TOTAL_BYTES:
            raise _invalid(
                f"the files of {sha} are larger than {MAX_TOTAL_BYTES:,} bytes"
            )
        target = folder / normal_path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as stream:
            stream.write(body)
        written[path] = target
    return written


# Modes of entries in Git's trees.
SUBMODULE = "160000"
LINK = "120000"
LINKS = frozenset({LINK, SUBMODULE})
"""The modes of entries that are no files themselves."""


def is_filled(submodule: Path) -> bool:
    """Whether the submodule in this folder is checked out."""
    return submodule.is_dir() and any(submodule.iterdir())


@reply_errors()
def list_commit_files(api: GitHubApi, sha: str) -> list[GitTreeElement]:
    """All files, links and submodules of commit `sha`, each with `path`, `mode` and
    `sha`. Raises GitHubApiError."""
    tree = api.repository.get_git_tree(sha, recursive=True)
    if tree.truncated is not False:
        raise _invalid(f"{sha} has more files than GitHub lists")
    return [entry for entry in tree.tree if entry.type != "tree"]


@reply_errors()
def list_base_files(api: GitHubApi, sha: str) -> Texts:
    """The paths of all regular files at commit `sha`. Raises GitHubApiError."""
    return tuple(
        file.path for file in list_commit_files(api, sha) if file.mode not in LINKS
    )


def _is_inside(path: str) -> bool:
    leads_out = path in (".", "..") or path.startswith(("../", "/"))
    return not leads_out and "\0" not in path


@reply_errors()
def _read(api: GitHubApi, sha: str, path: str) -> bytes | None:
    """The content of a file; None if `path` is no file of the commit."""
    content = if_present(lambda: api.repository.get_contents(path, sha))
    if content is None or isinstance(content, list) or content.type != "file":
        return None
    if content.size > MAX_FILE_BYTES:
        raise _invalid(f"{path} is larger than {MAX_FILE_BYTES:,} bytes at {sha}")
    # A file of 1 MB or more comes without its content.
    has_content = content.encoding == "base64"
    blob = content if has_content else api.repository.get_git_blob(content.sha)
    if blob.encoding != "base64":
        raise _broken(f"{path}: unexpected encoding '{blob.encoding[:20]}'")
    try:
        return base64.b64decode("".join(blob.content.split()), validate=True)
    except (binascii.Error, ValueError):
        raise _broken(f"{path}: its content is not base64") from None


def _invalid(message: str) -> GitHubApiError:
    return GitHubApiError(ApiErrorKind.INVALID, message)


def _broken(message: str) -> GitHubApiError:
    return GitHubApiError(ApiErrorKind.BROKEN, message)
