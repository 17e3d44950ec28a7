"""Files of another commit of this repository, usually the base of a pull request, read
through GitHub's API, and the names of those that differ between two commits.

The files in a pull request can't be trusted, but those of its base were reviewed.
Nothing in the checkout is read here, because it belongs to the pull request.
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
    """Write those of `paths` that are files at commit `sha` to `folder`, which must not
    exist yet.

    Paths are relative to the repository's root, with forward slashes, and keep their
    structure in `folder`. The result maps each existing path to its file; paths that
    are missing, lead out of the repository, or are not files (folders, submodules,
    links that lead out) are left out. Raises GitHubApiError, also for files larger than
    MAX_FILE_BYTES, or MAX_TOTAL_BYTES in total.
    """
    folder.mkdir(mode=0o700, parents=True)
    inside = {path: posixpath.normpath(path) for path in paths}
    inside = {path: name for path, name in inside.items() if _is_inside(name)}
    if len(inside) > MAX_FILES:
        raise _invalid(f"{len(inside)} files of {sha} are more than {MAX_FILES}")
    written = {}
    total = 0
    for path, name in inside.items():
        body = _read(api, sha, name)
        if body is None:
            continue
        total += len(body)
        if total > MAX_TOTAL_BYTES:
            raise _invalid(
                f"the files of {sha} are larger than {MAX_TOTAL_BYTES:,} bytes"
            )
        target = folder / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as stream:
            stream.write(body)
        written[path] = target
    return written


SUBMODULE = "160000"
LINK = "120000"
LINKS = frozenset({LINK, SUBMODULE})
"""The modes of entries that lead elsewhere."""


def is_filled(submodule: Path) -> bool:
    """Whether a submodule is checked out in its folder."""
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
    """The paths of all regular files at commit `sha`, for patterns. Raises
    GitHubApiError."""
    return tuple(
        file.path for file in list_commit_files(api, sha) if file.mode not in LINKS
    )


def _is_inside(name: str) -> bool:
    leads_out = name in (".", "..") or name.startswith(("../", "/"))
    return not leads_out and "\0" not in name


@reply_errors()
def _read(api: GitHubApi, sha: str, path: str) -> bytes | None:
    content = if_present(lambda: api.repository.get_contents(path, sha))
    if content is None or isinstance(content, list) or content.type != "file":
        return None
    if content.size > MAX_FILE_BYTES:
        raise _invalid(f"{path} is larger than {MAX_FILE_BYTES:,} bytes at {sha}")
    # From 1 MB on, GitHub returns no content here.
    is_whole = content.encoding == "base64"
    blob = content if is_whole else api.repository.get_git_blob(content.sha)
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
