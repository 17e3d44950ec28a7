from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from github.IssueComment import IssueComment

from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError, RetryPolicy, listed, reading_replies
from tests.github.api.conftest import QUICK
from tests.github.api.fake import FakeGitHub


def read(api: GitHubApi) -> list[IssueComment]:
    return listed(api.repository.get_issue(7).get_comments())


def post(api: GitHubApi, body: str) -> IssueComment:
    return api.repository.get_issue(7).create_comment(body)


def test_all_pages_are_read(github: FakeGitHub, api: GitHubApi) -> None:
    for n in range(250):
        github.add_comment(7, f"comment {n}")
    assert len(read(api)) == 250
    assert [seen.query.get("page", "1") for seen in github.seen] == ["1", "2", "3"]


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 502}, {"how": "reset"}, {"how": "truncated"}])
def test_a_read_is_repeated_after_a_passing_fault(
    github: FakeGitHub, api: GitHubApi, pauses: list[float], fault: dict[str, Any]
) -> None:
    github.add_comment(7, "hello")
    github.fail("GET", "comments", times=2, **fault)
    assert [comment.body for comment in read(api)] == ["hello"]
    assert len(pauses) == 2
    assert pauses[1] > pauses[0]


@pytest.mark.parametrize("fault", [{"status": 503}, {"how": "reset"}, {"how": "garbage"}])
def test_a_lasting_fault_ends_in_trouble(github: FakeGitHub, api: GitHubApi, fault: dict[str, Any]) -> None:
    github.fail("GET", "comments", times=99, **fault)
    with pytest.raises(GitHubApiError) as caught:
        read(api)
    assert caught.value.kind in (ApiErrorKind.UNREACHABLE, ApiErrorKind.BROKEN)
    assert not caught.value.may_have_happened
    assert len(github.seen) == QUICK.attempts


def test_a_slow_reply_is_given_up(github: FakeGitHub, connect: Callable[..., GitHubApi]) -> None:
    github.fail("GET", "comments", how="slow", delay_s=2.5, times=1)
    api = connect(patience=RetryPolicy(timeout_s=1, attempts=1))
    with pytest.raises(GitHubApiError) as caught:
        read(api)
    assert caught.value.kind is ApiErrorKind.UNREACHABLE


@pytest.mark.parametrize(
    ("status", "kind"), [(401, ApiErrorKind.REFUSED), (403, ApiErrorKind.REFUSED), (404, ApiErrorKind.NOT_FOUND)]
)
def test_a_refusal_is_not_repeated(github: FakeGitHub, api: GitHubApi, status: int, kind: ApiErrorKind) -> None:
    github.fail("GET", "comments", status, times=99)
    with pytest.raises(GitHubApiError) as caught:
        read(api)
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert len(github.seen) == 1


@pytest.mark.parametrize(
    ("status", "headers", "message", "pause"),
    [
        (429, {"Retry-After": "7"}, "Too many requests", 7),
        (403, {"Retry-After": "30"}, "You have exceeded a secondary rate limit", 30),
        (403, {}, "You have exceeded a secondary rate limit. Please wait a few minutes", 60),
        (429, {}, "Too many requests", 60),
        (403, {"Retry-After": "9"}, "Forbidden", 9),
        (403, {"X-RateLimit-Remaining": "0"}, "Forbidden", 60),
        (429, {"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "20"}, "Too many requests", 60),
        (429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "20"}, "Too many requests", 1),
    ],
)
def test_a_rate_limit_is_waited_out(
    github: FakeGitHub,
    api: GitHubApi,
    pauses: list[float],
    status: int,
    headers: dict[str, str],
    message: str,
    pause: float,
) -> None:
    github.add_comment(7, "hello")
    github.fail("GET", "comments", status, headers=headers, message=message)
    assert len(read(api)) == 1
    assert pauses == [pause]


def test_a_spent_quota_is_waited_for_until_its_reset(github: FakeGitHub, api: GitHubApi, pauses: list[float]) -> None:
    reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 20)}
    github.fail("GET", "comments", 403, headers=reset, message="API rate limit exceeded")
    read(api)
    assert 15 < pauses[0] < 25


@pytest.mark.attack(by="network", tries="a rate limit that stalls the job", stopped_by="waits are limited")
def test_an_hour_is_not_waited(github: FakeGitHub, api: GitHubApi, pauses: list[float]) -> None:
    github.fail("GET", "comments", 429, headers={"Retry-After": "3600"}, times=99)
    with pytest.raises(GitHubApiError) as caught:
        read(api)
    assert caught.value.kind is ApiErrorKind.LIMITED
    assert pauses == []


def test_all_pauses_together_have_an_end(
    github: FakeGitHub, connect: Callable[..., GitHubApi], pauses: list[float]
) -> None:
    api = connect(patience=RetryPolicy(attempts=100, max_pause_s=60, total_pause_s=100))
    github.fail("GET", "comments", 429, headers={"Retry-After": "40"}, times=99)
    with pytest.raises(GitHubApiError):
        read(api)
    assert pauses == [40, 40]


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 502}, {"how": "reset"}, {"how": "truncated"}])
def test_a_post_is_never_repeated_after_a_fault(github: FakeGitHub, api: GitHubApi, fault: dict[str, Any]) -> None:
    github.fail("POST", "comments", times=99, **fault)
    with pytest.raises(GitHubApiError) as caught:
        post(api, "hello")
    assert caught.value.may_have_happened
    assert len(github.sent("POST")) == 1


def test_a_post_that_a_rate_limit_turned_away_is_sent_again(github: FakeGitHub, api: GitHubApi) -> None:
    github.fail("POST", "comments", 429, headers={"Retry-After": "1"})
    assert post(api, "hello").body == "hello"
    assert github.bodies() == ["hello"]


def test_an_unprocessable_post_is_trouble_that_did_not_happen(github: FakeGitHub, api: GitHubApi) -> None:
    with pytest.raises(GitHubApiError) as caught:
        post(api, "x" * 70_000)
    assert caught.value.kind is ApiErrorKind.INVALID
    assert not caught.value.may_have_happened


def test_the_token_is_in_no_message(github: FakeGitHub, connect: Callable[..., GitHubApi]) -> None:
    api = connect("ghs_wrong-token")
    with pytest.raises(GitHubApiError) as caught:
        read(api)
    assert "ghs_wrong" not in str(caught.value)
    assert "ghs_wrong" not in repr(vars(api)).replace("ghs_the", "")


@pytest.mark.parametrize("body", [None, 7])
def test_a_reply_that_is_not_as_described_is_trouble(github: FakeGitHub, api: GitHubApi, body: object) -> None:
    @reading_replies()
    def first_line() -> str:
        return read(api)[0].body.partition("\n")[0]

    comment = github.add_comment(7, "hello")
    assert first_line() == "hello"
    comment["body"] = body
    with pytest.raises(GitHubApiError) as caught:
        first_line()
    assert caught.value.kind is ApiErrorKind.BROKEN
    github.problems.clear()  # as the description says, too
