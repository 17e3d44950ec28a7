from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from github.IssueComment import IssueComment

from ragstone.github.api import client
from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError, RetryPolicy, listed, reply_errors
from tests.github.api.conftest import QUICK
from tests.github.api.fake import FakeGitHub

PASSING = ({"status": 500}, {"status": 502}, {"how": "reset"}, {"how": "truncated"})


def read(api: GitHubApi, **pages: int) -> list[IssueComment]:
    return listed(api.repository.get_issue(7).get_comments(), **pages)


def post(api: GitHubApi, body: str) -> IssueComment:
    return api.repository.get_issue(7).create_comment(body)


def test_all_pages_are_read_or_the_first_ones(github: FakeGitHub, api: GitHubApi) -> None:
    for n in range(2 * client.PER_PAGE):
        github.add_comment(7, f"comment {n}")
    assert len(read(api)) == 200
    assert [seen.query.get("page", "1") for seen in github.seen] == ["1", "2", "3"]
    assert len(read(api, max_pages=1)) == 100


@pytest.mark.parametrize("fault", PASSING)
def test_a_read_is_repeated_after_a_passing_fault(
    github: FakeGitHub, api: GitHubApi, pauses: list[float], fault: dict[str, Any]
) -> None:
    github.add_comment(7, "hello")
    github.fail("GET", "comments", times=2, **fault)
    assert [comment.body for comment in read(api)] == ["hello"]
    assert pauses == [QUICK.first_pause_s, 2 * QUICK.first_pause_s]


@pytest.mark.parametrize(
    ("fault", "kind", "attempts"),
    [
        ({"status": 500}, ApiErrorKind.UNREACHABLE, QUICK.attempts),
        ({"how": "reset"}, ApiErrorKind.UNREACHABLE, QUICK.attempts),
        ({"how": "garbage"}, ApiErrorKind.BROKEN, QUICK.attempts),
        ({"status": 401}, ApiErrorKind.REFUSED, 1),
        ({"status": 403}, ApiErrorKind.REFUSED, 1),
        ({"status": 403, "headers": {"X-RateLimit-Remaining": "1"}}, ApiErrorKind.REFUSED, 1),
        ({"status": 404}, ApiErrorKind.NOT_FOUND, 1),
        ({"status": 422}, ApiErrorKind.INVALID, 1),
    ],
)
def test_a_lasting_fault_ends_in_an_error_and_a_refusal_at_once(
    github: FakeGitHub, api: GitHubApi, fault: dict[str, Any], kind: ApiErrorKind, attempts: int
) -> None:
    github.fail("GET", "comments", times=99, **fault)
    with pytest.raises(GitHubApiError) as caught:
        read(api)
    assert (caught.value.kind, caught.value.status) == (kind, fault.get("status"))
    assert caught.value.lacks_permission == (kind is ApiErrorKind.REFUSED)
    assert not caught.value.may_have_succeeded
    assert len(github.seen) == attempts


def test_a_slow_reply_is_given_up(github: FakeGitHub, connect: Callable[..., GitHubApi]) -> None:
    github.fail("GET", "comments", how="slow", delay_s=2.5, times=1)
    with pytest.raises(GitHubApiError) as caught:
        read(connect(retry_policy=RetryPolicy(timeout_s=1, attempts=1)))
    assert caught.value.kind is ApiErrorKind.UNREACHABLE


@pytest.mark.parametrize(
    ("status", "headers", "message", "pause"),
    [
        (429, {"Retry-After": "60"}, "Too many requests", 60),
        (403, {"Retry-After": "30"}, "You have exceeded a secondary rate limit", 30),
        (403, {}, "You have exceeded a secondary rate limit. Please wait a few minutes", 60),
        (429, {}, "Too many requests", 60),
        (403, {"Retry-After": "9"}, "Forbidden", 9),
        (403, {"X-RateLimit-Remaining": "0"}, "Forbidden", 60),
    ],
)
def test_a_rate_limit_is_waited_out(
    github: FakeGitHub,
    connect: Callable[..., GitHubApi],
    pauses: list[float],
    status: int,
    headers: dict[str, str],
    message: str,
    pause: float,
) -> None:
    github.add_comment(7, "hello")
    github.fail("GET", "comments", status, headers=headers, message=message)
    assert len(read(connect())) == 1
    assert pauses == [pause]


@pytest.mark.attack(by="network", tries="a rate limit that stalls the job", stopped_by="waits are limited")
@pytest.mark.parametrize(
    ("after", "limits", "paused"),
    [
        ("3600", {}, []),
        ("61", {}, []),
        ("40", {"total_pause_s": 100}, [40, 40]),
        ("40", {"total_pause_s": 120}, [40, 40, 40]),
        ("40", {"total_pause_s": 900, "attempts": 2}, [40]),
    ],
)
def test_the_pauses_have_an_end(
    github: FakeGitHub,
    connect: Callable[..., GitHubApi],
    pauses: list[float],
    after: str,
    limits: dict[str, Any],
    paused: list[float],
) -> None:
    github.fail("GET", "comments", 429, headers={"Retry-After": after}, times=99)
    with pytest.raises(GitHubApiError) as caught:
        read(connect(retry_policy=RetryPolicy(**{"attempts": 100, "max_pause_s": 60, **limits})))
    assert caught.value.kind is ApiErrorKind.LIMITED
    assert pauses == paused


@pytest.mark.parametrize("fault", PASSING)
def test_a_post_is_never_repeated_after_a_fault(github: FakeGitHub, api: GitHubApi, fault: dict[str, Any]) -> None:
    github.fail("POST", "comments", times=99, **fault)
    with pytest.raises(GitHubApiError) as caught:
        post(api, "hello")
    assert caught.value.may_have_succeeded
    assert len(github.sent("POST")) == 1


def test_a_post_that_was_turned_away_did_not_happen(github: FakeGitHub, api: GitHubApi) -> None:
    github.fail("POST", "comments", 429, headers={"Retry-After": "1"})
    assert post(api, "hello").body == "hello"
    assert github.bodies() == ["hello"]
    with pytest.raises(GitHubApiError) as caught:
        post(api, "x" * 70_000)
    assert caught.value.kind is ApiErrorKind.INVALID
    assert not caught.value.may_have_succeeded


def test_the_token_is_in_no_message(github: FakeGitHub, connect: Callable[..., GitHubApi]) -> None:
    api = connect("ghs_wrong-token")
    with pytest.raises(GitHubApiError) as caught:
        read(api)
    assert "ghs_wrong" not in f"{caught.value}{vars(api)!r}"


@pytest.mark.parametrize("body", [None, 7])
def test_a_reply_that_is_not_as_described_is_an_error(github: FakeGitHub, api: GitHubApi, body: object) -> None:
    @reply_errors()
    def first_line() -> str:
        return read(api)[0].body.partition("\n")[0]

    comment = github.add_comment(7, "hello")
    assert first_line() == "hello"
    comment["body"] = body
    with pytest.raises(GitHubApiError) as caught:
        first_line()
    assert caught.value.kind is ApiErrorKind.BROKEN
    github.problems.clear()  # as the description says, too
