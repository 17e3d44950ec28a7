"""Run directories as artifacts: lists those of a run, and downloads them without leaking the token."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from ragstone.archive import ArchiveRefused, read_members
from ragstone.github.api.client import ApiErrorKind, ApiReply, GitHubApi, GitHubApiError

MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
MAX_DOWNLOAD_S = 120.0
MAX_PAGES = 5
"""Of the artifacts of one run, which has at most 500."""

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_CHUNK = 256 * 1024


class ArtifactRun(ApiReply):
    """The run that left an artifact, as far as the list of artifacts tells."""

    id: int | None = None
    repository_id: int | None = None
    head_repository_id: int | None = None
    head_branch: str | None = None
    head_sha: str | None = None


class Artifact(ApiReply):
    """An artifact as GitHub lists it."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool
    digest: str | None = None
    workflow_run: ArtifactRun | None = None


def newest_artifact(api: GitHubApi, run_id: int, name: str) -> Artifact | None:
    """The newest artifact called `name` of run `run_id`. Raises GitHubApiError."""
    return next(iter(artifacts_of(api, run_id, name)), None)


def artifacts_of(api: GitHubApi, run_id: int, name: str) -> list[Artifact]:
    """The artifacts called `name` of run `run_id`, of which every attempt adds one; the newest first.

    Raises GitHubApiError.
    """
    path = f"{api.base}/actions/runs/{run_id}/artifacts"
    listed = api.pages(Artifact, path, {"name": name}, key="artifacts", max_pages=MAX_PAGES)
    # The server filters by name and run, and so do we.
    found = [
        artifact
        for artifact in listed
        if artifact.name == name and artifact.workflow_run is not None and artifact.workflow_run.id == run_id
    ]
    return sorted(found, key=lambda artifact: artifact.id, reverse=True)


def artifacts_called(api: GitHubApi, name: str, *, max_pages: int) -> list[Artifact]:
    """The unexpired artifacts called `name` of all runs, newest first; their owner is not checked.

    Raises GitHubApiError.
    """
    listing = api.pages(Artifact, f"{api.base}/actions/artifacts", {"name": name}, key="artifacts", max_pages=max_pages)
    found = [artifact for artifact in listing if artifact.name == name and not artifact.expired]
    return sorted(found, key=lambda artifact: artifact.id, reverse=True)


def read_artifact(
    api: GitHubApi,
    artifact: Artifact,
    limits: Mapping[str, int],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, bytes]:
    """The members of `artifact` that `limits` names, each of at most that many bytes, checked against its digest.

    Raises GitHubApiError if it can't be downloaded, ArchiveRefused if it is not valid.
    """
    digest = _DIGEST.fullmatch(artifact.digest or "")
    if artifact.expired:
        raise ArchiveRefused("the artifact has expired")
    if digest is None:
        raise ArchiveRefused("GitHub gives no digest for it")
    if artifact.size_in_bytes > MAX_ARCHIVE_BYTES:
        raise ArchiveRefused(f"it is larger than {MAX_ARCHIVE_BYTES:,} bytes")
    archive = _download(api, artifact, clock)
    if hashlib.sha256(archive).hexdigest() != digest.group(1):
        raise ArchiveRefused("its content does not match the digest that GitHub gives")
    return read_members(archive, limits)


def _download(api: GitHubApi, artifact: Artifact, clock: Callable[[], float]) -> bytes:
    """Request a short-lived address and download it, with up to two retries if the transfer fails."""
    deadline = clock() + MAX_DOWNLOAD_S
    for attempt in range(1, api.patience.attempts + 1):
        location = api.redirect(f"{api.base}/actions/artifacts/{artifact.id}/zip")
        try:
            return fetch_without_token(api, location, clock=clock, deadline=deadline)
        except GitHubApiError:
            if attempt == api.patience.attempts or clock() > deadline:
                raise
            api.sleep(api.patience.first_pause_s * 2 ** (attempt - 1))
    raise AssertionError("unreachable")


def fetch_without_token(api: GitHubApi, location: str, *, clock: Callable[[], float], deadline: float) -> bytes:
    """GET `location` on the storage host, without credentials or redirects. Raises GitHubApiError."""
    target = urlsplit(location)
    if target.scheme != "https" and not (target.scheme == "http" and api.plain_http):
        raise GitHubApiError(ApiErrorKind.BROKEN, "the download's address is not https")
    host = target.hostname or "?"
    try:
        with (
            requests.Session() as session,
            session.get(
                location,
                headers={"Accept-Encoding": "identity"},
                # Keeps requests from reading ~/.netrc, which the user's code may have written.
                auth=lambda request: request,
                allow_redirects=False,
                stream=True,
                timeout=api.patience.timeout_s,
            ) as response,
        ):
            if response.status_code != 200:
                raise GitHubApiError(
                    ApiErrorKind.UNREACHABLE, f"the storage host {host} refused", status=response.status_code
                )
            parts: list[bytes] = []
            size = 0
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                size += len(chunk)
                if size > MAX_ARCHIVE_BYTES:
                    raise ArchiveRefused(f"it is larger than {MAX_ARCHIVE_BYTES:,} bytes")
                if clock() > deadline:
                    raise GitHubApiError(ApiErrorKind.UNREACHABLE, f"the storage host {host} is too slow")
                parts.append(chunk)
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        raise GitHubApiError(ApiErrorKind.UNREACHABLE, f"the storage host {host}: {type(error).__name__}") from None
    return b"".join(parts)
