"""GitHub's REST API over PyGithub's transport: retries safe requests within limits, but never a failed POST.

Every error is raised as `GitHubApiError`, so that callers can continue: a verdict never depends on GitHub being up.

PyGithub's own retry (`GithubRetry`) is disabled. Its methods can be set, but for 5xx replies and rate limits together:
a POST is then repeated after a 5xx reply, although it may have succeeded, or not even after a rate limit, which turns
it away unread. A Retry-After longer than the limit is cut short instead of given up, the waits of a job have no common
limit, and the sleep can't be passed in. Its pagination, comments, issues and artifacts send requests under that retry
alone. They also follow the `next` link of a reply without a limit on pages, load missing attributes with further
requests, and find a value of the wrong type only when it is read; here each reply is validated once, and pages are
counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import quote

import requests
from github import Auth, Github, GithubException
from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError

from ragstone._version import __version__
from ragstone.errors import first_problem

HOSTS = (
    *("github.com", "api.github.com", "codeload.github.com", "*.actions.githubusercontent.com"),
    *("*.blob.core.windows.net", "ghcr.io", "pkg-containers.githubusercontent.com"),
)
"""What a job on github.com needs for its checkout, image, artifacts and comment."""

PER_PAGE = 100
MAX_PAGES = 50
_LIMIT_WORDS = ("rate limit", "abuse detection")


class ApiErrorKind(StrEnum):
    """What went wrong, as far as it matters to a caller."""

    REFUSED = "refused"
    NOT_FOUND = "not found"
    INVALID = "invalid"
    LIMITED = "rate limited"
    UNREACHABLE = "unreachable"
    BROKEN = "broken reply"


class GitHubApiError(Exception):
    """A request to GitHub failed. `may_have_happened`: a write with a bad reply, or none."""

    def __init__(self, kind: ApiErrorKind, message: str, *, status: int | None = None, wrote: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.may_have_happened = wrote and kind in (ApiErrorKind.UNREACHABLE, ApiErrorKind.BROKEN)

    @property
    def lacks_permission(self) -> bool:
        return self.kind is ApiErrorKind.REFUSED

    def __str__(self) -> str:
        return f"{self.kind}{f' ({self.status})' if self.status else ''}: {self.message}"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait for GitHub, in seconds: per reply, per pause, and for all pauses of a job."""

    timeout_s: int = 20
    attempts: int = 4
    first_pause_s: float = 1.0
    max_pause_s: float = 60.0
    total_pause_s: float = 180.0
    settle_s: float = 2.0
    """After a write with unknown outcome, before checking whether it succeeded."""


class ApiReply(BaseModel):
    """Base of reply models: only the fields that are used, each of them validated."""

    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)


class Commit(ApiReply):
    """A commit, as branches and tags name it."""

    sha: str


class Branch(ApiReply):
    """A branch and its head. `protected`: by a rule for branches or a ruleset."""

    commit: Commit
    name: str | None = None
    protected: bool = False


class Repository(ApiReply):
    id: int
    default_branch: str


Model = TypeVar("Model")


class GitHubApi:
    """The API of one repository, under one token. Not for use from several threads."""

    def __init__(
        self,
        token: SecretStr,
        *,
        repository: str,
        api_url: str = "https://api.github.com",
        patience: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.repository = repository
        self.plain_http = api_url.startswith("http://")
        self.patience = patience or RetryPolicy()
        self.sleep = sleep
        self._now = now
        self._paused_s = 0.0
        secret = token.get_secret_value()
        self._github = Github(
            auth=Auth.Token(secret) if secret else None,
            base_url=api_url,
            timeout=self.patience.timeout_s,
            user_agent=f"ragstone/{__version__}",
            retry=0,
            seconds_between_requests=None,
            seconds_between_writes=None,
        )

    @property
    def base(self) -> str:
        return f"/repos/{self.repository}"

    def get(self, model: type[Model], path: str, parameters: Mapping[str, str | int] | None = None) -> Model:
        """One object. Raises GitHubApiError."""
        return self._parse(model, self._json("GET", path, parameters), wrote=False)

    def find(self, model: type[Model], path: str, parameters: Mapping[str, str | int] | None = None) -> Model | None:
        """One object; None if GitHub has no such thing. Raises GitHubApiError."""
        try:
            return self.get(model, path, parameters)
        except GitHubApiError as api_error:
            if api_error.kind is ApiErrorKind.NOT_FOUND:
                return None
            raise

    def head_of(self, branch: str) -> str:
        """The newest commit of `branch`. Raises GitHubApiError."""
        # By its branch name: a tag may have the same name.
        return self.get(Branch, f"{self.base}/branches/{quote(branch, safe='')}").commit.sha

    def pages(
        self,
        model: type[Model],
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        *,
        key: str | None = None,
        max_pages: int = MAX_PAGES,
    ) -> Iterator[Model]:
        """All objects of a listing, page by page; `key` names the list in a wrapped reply. Raises GitHubApiError."""
        for page in range(1, max_pages + 1):
            found = self._json("GET", path, {**(parameters or {}), "per_page": PER_PAGE, "page": page})
            items = found.get(key) if key is not None and isinstance(found, dict) else found
            if not isinstance(items, list):
                raise GitHubApiError(ApiErrorKind.BROKEN, f"{path}: expected a list")
            yield from (self._parse(model, item, wrote=False) for item in items)
            if len(items) < PER_PAGE:
                return

    def post(self, model: type[Model], path: str, body: Mapping[str, object]) -> Model:
        """Create something; retried only if a rate limit rejected it unread. Raises GitHubApiError."""
        return self._parse(model, self._json("POST", path, body=body), wrote=True)

    def patch(self, model: type[Model], path: str, body: Mapping[str, object]) -> Model:
        """Change something; retried, because the same change can be sent again. Raises GitHubApiError."""
        return self._parse(model, self._json("PATCH", path, body=body), wrote=True)

    def delete(self, path: str) -> None:
        """Delete something. Raises GitHubApiError."""
        self._json("DELETE", path)

    def redirect(self, path: str) -> str:
        """The address of a download: the location of a 302, which is not followed here. Raises GitHubApiError."""

        def ask() -> str:
            status, headers, body = self._github.requester.requestJson("GET", path)
            location = headers.get("location")
            if status == 302 and isinstance(location, str):
                return location
            if status >= 400:
                raise self._github.requester.createException(status, headers, {"message": body[:200]})
            raise GitHubApiError(ApiErrorKind.BROKEN, f"{path}: expected a redirect", status=status)

        return self._attempts("GET", path, ask)

    def close(self) -> None:
        self._github.close()

    def _json(
        self,
        verb: str,
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Any:
        def ask() -> Any:
            _, found = self._github.requester.requestJsonAndCheck(
                verb, path, parameters=dict(parameters or {}) or None, input=dict(body) if body is not None else None
            )
            return found

        return self._attempts(verb, path, ask)

    def _attempts(self, verb: str, path: str, ask: Callable[[], Model]) -> Model:
        attempts = self.patience.attempts
        for attempt in range(1, attempts + 1):
            try:
                return ask()
            except GitHubApiError as found:
                api_error, pause = found, None
            except GithubException as error:
                api_error, pause = self._api_error(verb, path, error)
            except (requests.RequestException, OSError) as error:
                api_error = GitHubApiError(
                    ApiErrorKind.UNREACHABLE, f"{path}: {type(error).__name__}", wrote=verb != "GET"
                )
                pause = 0.0
            except (ValueError, RuntimeError, AssertionError, RecursionError) as error:
                api_error = GitHubApiError(ApiErrorKind.BROKEN, f"{path}: {type(error).__name__}", wrote=verb != "GET")
                pause = 0.0
            # A rate-limited POST was rejected unread; after any other error it may have succeeded.
            final = (
                pause is None or attempt == attempts or (verb == "POST" and api_error.kind is not ApiErrorKind.LIMITED)
            )
            if final or not self._pause(pause or 0.0, attempt):
                raise api_error from None
        raise AssertionError("unreachable")

    def _api_error(self, verb: str, path: str, error: GithubException) -> tuple[GitHubApiError, float | None]:
        """The error for a bad status, and how long to wait before a retry (None: don't retry)."""
        status = error.status
        data = error.data
        said = str(data.get("message", "")) if isinstance(data, dict) else str(data or "")
        message = f"{path}: {' '.join(said.split())[:200] or 'no reason given'}"
        headers = {str(name).lower(): str(value) for name, value in (error.headers or {}).items()}
        wrote = verb != "GET"
        limited = status == 429 or (
            status == 403
            and (
                "retry-after" in headers
                or headers.get("x-ratelimit-remaining") == "0"
                or any(word in said.lower() for word in _LIMIT_WORDS)
            )
        )
        if limited:
            return GitHubApiError(ApiErrorKind.LIMITED, message, status=status), self._limit_pause(headers)
        if status in (401, 403):
            return GitHubApiError(ApiErrorKind.REFUSED, message, status=status), None
        if status in (404, 410):
            return GitHubApiError(ApiErrorKind.NOT_FOUND, message, status=status), None
        if status >= 500:
            return GitHubApiError(ApiErrorKind.UNREACHABLE, message, status=status, wrote=wrote), 0.0
        return GitHubApiError(ApiErrorKind.INVALID, message, status=status), None

    def _limit_pause(self, headers: Mapping[str, str]) -> float:
        after = headers.get("retry-after", "")
        if after.isdigit():
            return float(after)
        reset = headers.get("x-ratelimit-reset", "")
        if headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
            return max(0.0, float(reset) - self._now()) + 1.0
        return self.patience.max_pause_s

    def _pause(self, at_least_s: float, attempt: int) -> bool:
        """Wait before the next attempt; False if that would take too long."""
        pause = max(at_least_s, self.patience.first_pause_s * 2 ** (attempt - 1))
        if pause > self.patience.max_pause_s or self._paused_s + pause > self.patience.total_pause_s:
            return False
        self._paused_s += pause
        self.sleep(pause)
        return True

    @staticmethod
    def _parse(model: type[Model], found: object, *, wrote: bool) -> Model:
        try:
            return TypeAdapter(model).validate_python(found)
        except ValidationError as error:
            raise GitHubApiError(ApiErrorKind.BROKEN, first_problem(error), wrote=wrote) from None
