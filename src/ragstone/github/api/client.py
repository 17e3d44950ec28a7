"""GitHub's REST API by PyGithub's objects: safe requests are repeated within limits, a
failed POST never.

Every error is raised as `GitHubApiError`, so that callers can continue: a verdict never
depends on GitHub being up.

All objects of PyGithub send their requests through its `Requester`, so the rules stand
there. PyGithub's own retry (`GithubRetry`) is disabled: it stands below, where no reply
is seen that breaks off or is not JSON; it repeats a POST after a 5xx reply, although it
may have succeeded, or else not even after a rate limit, which turns it away unread; it
cuts a Retry-After short that is longer than its limit; and the waits of a job have no
common limit.
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
_LIMIT_WORDS = re.compile("rate limit|abuse detection", re.IGNORECASE)


class ApiErrorKind(StrEnum):
    """What went wrong, as far as it matters to a caller."""

    REFUSED = "refused"
    NOT_FOUND = "not found"
    INVALID = "invalid"
    LIMITED = "rate limited"
    UNREACHABLE = "unreachable"
    BROKEN = "broken reply"


_KINDS = {
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
        wrote: bool = False,
    ) -> None:
        super().__init__(kind, message, status, wrote)
        self.kind = kind
        self.message = message
        self.status = status
        self.wrote = wrote

    @property
    def may_have_happened(self) -> bool:
        """Whether it was a write with a bad reply, or none."""
        unknown = (ApiErrorKind.UNREACHABLE, ApiErrorKind.BROKEN)
        return self.wrote and self.kind in unknown

    @property
    def lacks_permission(self) -> bool:
        return self.kind is ApiErrorKind.REFUSED

    def __str__(self) -> str:
        status = ""
        if self.status:
            status = f" ({self.status})"
        return f"{self.kind}{status}: {self.message}"


class RetryPolicy(Struct, frozen=True):
    """How long to wait for GitHub, in seconds: per reply, per pause, and for all pauses
    of a job."""

    timeout_s: int = 20
    attempts: int = 4
    first_pause_s: float = 1.0
    max_pause_s: float = 60.0
    total_pause_s: float = 180.0
    settle_s: float = 2.0
    """After a write with unknown outcome, before checking whether it succeeded."""


PATIENCE = RetryPolicy()


class GitHubApi(Requester):
    """The API of one repository, under one token. Not for use from several threads.

    `repository` is PyGithub's. It and what is made of it send their requests through
    this, and raise GitHubApiError. Many objects send one only when an attribute is
    read that they lack.
    """

    def __init__(
        self,
        token: SecretStr,
        *,
        repository: str,
        api_url: str = "https://api.github.com",
        patience: RetryPolicy = PATIENCE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.patience = patience
        secret = token.get_secret_value()
        super().__init__(
            auth=Auth.Token(secret) if secret else None,
            base_url=api_url,
            timeout=self.patience.timeout_s,
            user_agent=f"ragstone/{__version__}",
            per_page=PER_PAGE,
            verify=True,
            retry=0,
            pool_size=None,
            lazy=True,
        )
        self.plain_http = api_url.startswith("http://")
        self.sleep = sleep
        self.path = f"/repos/{repository}"
        self.repository = Repository(self, url=self.path)
        self._paused_s = 0.0
        self._runs: dict[int, WorkflowRun] = {}

    def workflow_run(self, run_id: int) -> WorkflowRun:
        """Run `run_id`, of which GitHub is asked once."""
        return self._runs.setdefault(run_id, self.repository.get_workflow_run(run_id))

    def close(self) -> None:
        """Never raises."""
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
        """Headers and body of the reply. Raises GitHubApiError."""
        path, changes = urlsplit(url).path, verb != "GET"
        attempt = 1
        while True:
            pause: float | None = 0.0
            try:
                return super().requestJsonAndCheck(
                    verb, url, parameters, headers, input, follow_302_redirect
                )
            except GithubException as error:
                api_error, pause = self._refusal(path, error, changes)
            except (OSError, ValueError, RuntimeError, AssertionError) as error:
                is_reply = not isinstance(error, OSError)
                kind = ApiErrorKind.BROKEN if is_reply else ApiErrorKind.UNREACHABLE
                message = f"{path}: {type(error).__name__}"
                api_error = GitHubApiError(kind, message, wrote=changes)
            # A rate-limited POST was rejected unread; after any other error it may have
            # succeeded.
            once = verb == "POST" and api_error.kind is not ApiErrorKind.LIMITED
            if once or pause is None or not self._pause(pause, attempt):
                raise api_error from None
            attempt += 1

    def _refusal(
        self, path: str, error: GithubException, changes: bool
    ) -> tuple[GitHubApiError, float | None]:
        """The error for a bad status, and how long to wait before a retry (None: don't
        retry)."""
        status, data = error.status, error.data
        reason = data.get("message", "") if isinstance(data, dict) else data
        words = str(reason or "no reason given").split()
        reason = " ".join(words)[:200]
        headers = error.headers or {}
        after = headers.get("retry-after", "")
        is_used_up = headers.get("x-ratelimit-remaining") == "0"
        is_limit = after or is_used_up or _LIMIT_WORDS.search(reason)
        kind, pause = _KINDS.get(status, ApiErrorKind.INVALID), None
        if status == 429 or (status == 403 and is_limit):
            kind, pause = ApiErrorKind.LIMITED, self.patience.max_pause_s
            if after.isdecimal():
                pause = float(after)
        elif status >= 500:
            kind, pause = ApiErrorKind.UNREACHABLE, 0.0
        message = f"{path}: {reason}"
        return GitHubApiError(kind, message, status=status, wrote=changes), pause

    def _pause(self, at_least_s: float, attempt: int) -> bool:
        """Wait before the next attempt; False if there is none, or if that would take
        too long."""
        patience = self.patience
        pause = max(at_least_s, patience.first_pause_s * 2 ** (attempt - 1))
        total_s = self._paused_s + pause
        if (
            attempt == patience.attempts
            or pause > patience.max_pause_s
            or total_s > patience.total_pause_s
        ):
            return False
        self._paused_s = total_s
        self.sleep(pause)
        return True


@contextmanager
def reading_replies() -> Iterator[None]:
    """Decorates what reads PyGithub's objects: GitHubApiError if a reply lacks what is
    read, or has another type of it.

    Works as a block, too.
    """
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
    """All objects of a listing, or those of its first pages. Raises GitHubApiError.

    By numbers: the `next` links of replies could go on for ever.
    """
    items = []
    for number in range(max_pages):
        page = listing.get_page(number)
        items += page
        if len(page) < PER_PAGE:
            break
    return items


def if_present(ask: Callable[[], Result]) -> Result | None:
    """What `ask` returns; None if GitHub has no such thing. Raises GitHubApiError."""
    try:
        return ask()
    except GitHubApiError as api_error:
        if api_error.kind is ApiErrorKind.NOT_FOUND:
            return None
        raise


@reading_replies()
def head_of(api: GitHubApi, branch: str) -> str:
    """The newest commit of `branch`. Raises GitHubApiError."""
    # By its branch name: a tag may have the same name.
    return api.repository.get_branch(branch).commit.sha
