"""GitHub's REST API, through the objects of PyGithub.

- Every error is raised as `GitHubApiError`, so that callers can continue: a verdict
  never depends on GitHub being up.
- Failed requests are repeated within the limits of a `RetryPolicy`. A POST may have
  succeeded, so it is repeated only if GitHub has rejected it for a rate limit.

All objects of PyGithub send their requests through its `Requester`, so these rules are
implemented in a subclass. PyGithub's own retry (`GithubRetry`) is disabled, because

- it doesn't see replies that break off or are not JSON;
- it repeats a POST after a 5xx reply, or else not even after a rate limit;
- it waits less than Retry-After says if that exceeds its limit;
- it has no limit for all pauses of a job together.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlsplit

from github import Auth, BadAttributeException, GithubException
from github.GithubObject import GithubObject
from github.PaginatedList import PaginatedList
from github.Repository import Repository
from github.Requester import Requester
from github.WorkflowRun import WorkflowRun
from msgspec import Struct
from pydantic import SecretStr

from ragstone._version import __version__

PER_PAGE = 100
MAX_PAGES = 50
_MAX_REASON_CHARACTERS = 200
_RATE_LIMIT = re.compile("rate limit|abuse detection", re.IGNORECASE)


class ApiErrorKind(StrEnum):
    """What went wrong, as far as it matters to a caller."""

    REFUSED = "refused"
    NOT_FOUND = "not found"
    INVALID = "invalid"
    LIMITED = "rate limited"
    UNREACHABLE = "unreachable"
    BROKEN = "broken reply"


_KINDS_BY_STATUS = {
    401: ApiErrorKind.REFUSED,
    403: ApiErrorKind.REFUSED,
    404: ApiErrorKind.NOT_FOUND,
    410: ApiErrorKind.NOT_FOUND,
}


class GitHubApiError(Exception):
    """A request to GitHub failed."""

    def __init__(
        self,
        kind: ApiErrorKind,
        message: str,
        status: int | None = None,
        is_write: bool = False,
    ) -> None:
        super().__init__(kind, message, status, is_write)
        self.kind = kind
        self.message = message
        self.status = status
        self.is_write = is_write

    @property
    def may_have_succeeded(self) -> bool:
        """Whether this was a write that GitHub may have carried out although its reply
        failed."""
        failed_replies = (ApiErrorKind.UNREACHABLE, ApiErrorKind.BROKEN)
        return self.is_write and self.kind in failed_replies

    @property
    def lacks_permission(self) -> bool:
        return self.kind is ApiErrorKind.REFUSED

    def __str__(self) -> str:
        status = ""
        if self.status:
            status = f" ({self.status})"
        return f"{self.kind}{status}: {self.message}"


class RetryPolicy(Struct, frozen=True):
    """How often requests to GitHub are repeated, and how long is waited for it."""

    timeout_s: int = 20
    """For each reply."""
    attempts: int = 4
    first_pause_s: float = 1.0
    """Before the second attempt. Each later pause is twice as long."""
    max_pause_s: float = 60.0
    """If GitHub demands a longer pause, the request is not repeated."""
    total_pause_s: float = 180.0
    """Of all requests of a job together."""
    settle_s: float = 2.0
    """After a write with unknown outcome, before checking whether it succeeded."""


DEFAULT_RETRY_POLICY = RetryPolicy()


class GitHubApi(Requester):
    """The API of one repository, under one token. Not for use from several threads.

    The attribute `repository` is PyGithub's object. It and all objects that it returns
    send their requests through this, and raise GitHubApiError. Many of them send a
    request only when an attribute is read that they don't have yet.
    """

    def __init__(
        self,
        token: SecretStr,
        *,
        repository: str,
        api_url: str = "https://api.github.com",
        retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.retry_policy = retry_policy
        secret = token.get_secret_value()
        super().__init__(
            auth=Auth.Token(secret) if secret else None,
            base_url=api_url,
            timeout=retry_policy.timeout_s,
            user_agent=f"ragstone/{__version__}",
            per_page=PER_PAGE,
            verify=True,
            retry=0,
            pool_size=None,
            lazy=True,
        )
        self.allows_http = api_url.startswith("http://")
        self.sleep = sleep
        self.path = f"/repos/{repository}"
        self.repository = Repository(self, url=self.path)
        self._paused_s = 0.0
        self._runs: dict[int, WorkflowRun] = {}

    def workflow_run(self, run_id: int) -> WorkflowRun:
        """The workflow run `run_id`. GitHub is asked for it once."""
        return self._runs.setdefault(run_id, self.repository.get_workflow_run(run_id))

    def close(self) -> None:
        """Close all connections. Never raises."""
        with suppress(Exception):
            super().close()

    def requestJsonAndCheck(  # noqa: N802 - PyGithub's name
        self,
        verb: str,
        url: str,
        parameters: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        input: Any | None = None,
        follow_302_redirect: bool = False,
    ) -> tuple[dict[str, Any], Any]:
        """Send a request, repeatedly if need be. Returns the headers and the body of
        the reply. Raises GitHubApiError."""
        path = urlsplit(url).path
        is_write = verb != "GET"
        attempt = 1
        while True:
            min_pause_s: float | None = 0.0
            try:
                return super().requestJsonAndCheck(
                    verb, url, parameters, headers, input, follow_302_redirect
                )
            except GithubException as error:
                api_error, min_pause_s = self._status_error(path, error, is_write)
            except (OSError, ValueError, RuntimeError, AssertionError) as error:
                # PyGithub raises a RuntimeError or an AssertionError for a redirect
                # that it doesn't follow, and a ValueError for JSON it can't decode.
                is_connection_error = isinstance(error, OSError)
                kind = ApiErrorKind.BROKEN
                if is_connection_error:
                    kind = ApiErrorKind.UNREACHABLE
                message = f"{path}: {type(error).__name__}"
                api_error = GitHubApiError(kind, message, is_write=is_write)
            # A rate-limited POST was rejected unread; after any other error it may have
            # succeeded.
            may_repeat = verb != "POST" or api_error.kind is ApiErrorKind.LIMITED
            if (
                min_pause_s is None
                or not may_repeat
                or not self._pause(min_pause_s, attempt)
            ):
                raise api_error from None
            attempt += 1

    def _status_error(
        self, path: str, error: GithubException, is_write: bool
    ) -> tuple[GitHubApiError, float | None]:
        """The error for a reply with a status other than 2xx, and the least pause
        before a retry, in seconds; None if a retry would fail too."""
        status = error.status
        data = error.data
        reason = data.get("message", "") if isinstance(data, dict) else data
        words = str(reason or "no reason given").split()
        reason = " ".join(words)[:_MAX_REASON_CHARACTERS]
        headers = error.headers or {}
        retry_after = headers.get("retry-after", "")
        is_used_up = headers.get("x-ratelimit-remaining") == "0"
        is_limit = retry_after or is_used_up or _RATE_LIMIT.search(reason)
        kind = _KINDS_BY_STATUS.get(status, ApiErrorKind.INVALID)
        min_pause_s = None
        if status == 429 or (status == 403 and is_limit):
            kind = ApiErrorKind.LIMITED
            min_pause_s = self.retry_policy.max_pause_s
            if retry_after.isdecimal():
                min_pause_s = float(retry_after)
        elif status >= 500:
            kind = ApiErrorKind.UNREACHABLE
            min_pause_s = 0.0
        message = f"{path}: {reason}"
        api_error = GitHubApiError(kind, message, status=status, is_write=is_write)
        return api_error, min_pause_s

    def _pause(self, min_pause_s: float, attempt: int) -> bool:
        """Wait before the next attempt. Returns False, without waiting, if this was the
        last one, or if the pause would be too long."""
        policy = self.retry_policy
        pause_s = max(min_pause_s, policy.first_pause_s * 2 ** (attempt - 1))
        total_s = self._paused_s + pause_s
        if (
            attempt == policy.attempts
            or pause_s > policy.max_pause_s
            or total_s > policy.total_pause_s
        ):
            return False
        self._paused_s = total_s
        self.sleep(pause_s)
        return True


@contextmanager
def reply_errors() -> Iterator[None]:
    """Raise GitHubApiError if a reply lacks an attribute that is read from PyGithub's
    objects, or has it with another type. A context manager and a decorator."""
    try:
        yield
    except (
        BadAttributeException,
        GithubException,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        message = f"a reply is not as GitHub describes it ({type(error).__name__})"
        raise GitHubApiError(ApiErrorKind.BROKEN, message) from None


Result = TypeVar("Result")
Item = TypeVar("Item", bound=GithubObject)


def listed(listing: PaginatedList[Item], *, max_pages: int = MAX_PAGES) -> list[Item]:
    """All objects of a listing, or those of its first `max_pages`. Raises
    GitHubApiError."""
    # Pages are requested by number: the `next` links of replies could go on for ever.
    items = []
    for number in range(max_pages):
        page = listing.get_page(number)
        items += page
        if len(page) < PER_PAGE:
            break
    return items


def if_present(ask: Callable[[], Result]) -> Result | None:
    """The value that `ask` returns; None if GitHub has no such object. Raises
    GitHubApiError."""
    try:
        return ask()
    except GitHubApiError as api_error:
        if api_error.kind is ApiErrorKind.NOT_FOUND:
            return None
        raise


@reply_errors()
def branch_head(api: GitHubApi, branch: str) -> str:
    """The newest commit of `branch`. Raises GitHubApiError."""
    # Not by a ref of that name, which could be a tag's.
    return api.repository.get_branch(branch).commit.sha
