"""Lists the artifacts of a run, and downloads them without sending the token to the
storage host."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import requests
from github.Artifact import Artifact
from github.PaginatedList import PaginatedList
from urllib3.exceptions import HTTPError

from ragstone.archive import ArchiveRefused, read_members
from ragstone.github.api.client import (
    ApiErrorKind,
    GitHubApi,
    GitHubApiError,
    listed,
    reply_errors,
)

MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
MAX_DOWNLOAD_S = 120.0
MAX_PAGES = 5
"""Of the artifacts of one run, which has at most 500."""

_CHUNK_BYTES = 256 * 1024


def newest_artifact(api: GitHubApi, run_id: int, name: str) -> Artifact | None:
    """The newest artifact called `name` of run `run_id`; None if there is none. Raises
    GitHubApiError."""
    return next(iter(artifacts_of(api, run_id, name)), None)


@reply_errors()
def artifacts_of(api: GitHubApi, run_id: int, name: str) -> list[Artifact]:
    """The artifacts called `name` of run `run_id`, the newest first. Each attempt of
    the run adds one. Raises GitHubApiError."""
    # Not by `WorkflowRun.get_artifacts`, which can't filter by name.
    path = f"{api.path}/actions/runs/{run_id}/artifacts"
    artifacts = PaginatedList(
        Artifact, api, path, {"name": name}, list_item="artifacts"
    )
    # GitHub's filters are checked.
    matching = [
        artifact
        for artifact in listed(artifacts, max_pages=MAX_PAGES)
        if artifact.name == name
        and getattr(artifact.workflow_run, "id", None) == run_id
    ]
    return sorted(matching, key=lambda artifact: artifact.id, reverse=True)


@reply_errors()
def read_artifact(
    api: GitHubApi,
    artifact: Artifact,
    limits: Mapping[str, int],
    *,
    max_bytes: int | None = None,
) -> dict[str, bytes]:
    """Download `artifact`, check its digest, and return the members that `limits`
    names, each with its largest size in bytes.

    Raises GitHubApiError if the artifact can't be downloaded, and ArchiveRefused if it
    is not valid, or larger than `max_bytes` (by default MAX_ARCHIVE_BYTES).
    """
    algorithm, _, digest = (artifact.digest or "").partition(":")
    max_bytes = max_bytes or MAX_ARCHIVE_BYTES
    if artifact.expired:
        raise ArchiveRefused("the artifact has expired")
    if algorithm != "sha256":
        raise ArchiveRefused("GitHub gives no SHA-256 digest for it")
    if artifact.size_in_bytes > max_bytes:
        raise ArchiveRefused(f"it is larger than {max_bytes:,} bytes")
    archive = download(api, f"actions/artifacts/{artifact.id}/zip")
    if hashlib.sha256(archive).hexdigest() != digest:
        raise ArchiveRefused("its content does not match the digest that GitHub gives")
    return read_members(archive, limits)


def download(api: GitHubApi, path: str) -> bytes:
    """Download at most MAX_ARCHIVE_BYTES from the storage host, to which GitHub
    redirects `path` of the repository.

    A transfer that fails is begun again, from a new address. Raises GitHubApiError and
    ArchiveRefused.
    """
    deadline_s = time.monotonic() + MAX_DOWNLOAD_S
    attempt = 1
    while True:
        with reply_errors():
            # PyGithub doesn't follow the redirect here.
            headers, _ = api.requestJsonAndCheck("GET", f"{api.path}/{path}")
            location = str(headers["location"])
        try:
            return fetch_without_token(api, location, deadline_s)
        except GitHubApiError:
            is_late = time.monotonic() > deadline_s
            if is_late or attempt == api.retry_policy.attempts:
                raise
        api.sleep(api.retry_policy.first_pause_s * 2 ** (attempt - 1))
        attempt += 1


def fetch_without_token(api: GitHubApi, location: str, deadline_s: float) -> bytes:
    """Download `location` on the storage host, without credentials, and without
    following redirects. `deadline_s` is a time of the monotonic clock.

    Raises GitHubApiError and ArchiveRefused.
    """
    target = urlsplit(location)
    is_allowed_http = target.scheme == "http" and api.allows_http
    if target.scheme != "https" and not is_allowed_http:
        raise GitHubApiError(ApiErrorKind.BROKEN, "the download's address is not https")
    host = f"the storage host {target.hostname or '?'}"
    unreachable = ApiErrorKind.UNREACHABLE
    body = bytearray()
    try:
        with (
            requests.Session() as session,
            session.get(
                location,
                headers={"Accept-Encoding": "identity"},
                # Keeps requests from reading ~/.netrc, which the user's code may have
                # written.
                auth=lambda request: request,
                allow_redirects=False,
                stream=True,
                timeout=api.retry_policy.timeout_s,
            ) as response,
        ):
            status = response.status_code
            if status != 200:
                raise GitHubApiError(unreachable, f"{host} refused", status=status)
            for chunk in response.raw.stream(_CHUNK_BYTES, decode_content=False):
                body += chunk
                if len(body) > MAX_ARCHIVE_BYTES:
                    raise ArchiveRefused(
                        f"it is larger than {MAX_ARCHIVE_BYTES:,} bytes"
                    )
                if time.monotonic() > deadline_s:
                    raise GitHubApiError(unreachable, f"{host} is too slow")
    except (HTTPError, OSError, ValueError) as error:
        raise GitHubApiError(unreachable, f"{host}: {type(error).__name__}") from None
    return bytes(body)
