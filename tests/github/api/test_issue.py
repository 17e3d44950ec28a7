from __future__ import annotations

from typing import Any

import pytest

from ragstone.github.api.client import GitHubApi
from ragstone.github.api.posts import follow_up, marker
from tests.github.api.fake import FakeGitHub

BOT = "github-actions[bot]"
MARK = marker("issue", "default")


def nightly(api: GitHubApi, *, failing: bool, body: str = "worse") -> str:
    return follow_up(api, "default", failing=failing, title="Gate fails", body=body, recovery="It passes again.")


def test_an_issue_lives_from_the_first_failure_to_recovery(github: FakeGitHub, api: GitHubApi) -> None:
    assert nightly(api, failing=False) == ""
    assert github.issues == []
    assert "was opened" in nightly(api, failing=True)
    assert "was updated" in nightly(api, failing=True, body="still worse")
    assert [issue["body"] for issue in github.issues] == [f"{MARK}\nstill worse"]
    closed = nightly(api, failing=False)
    assert closed == f"The issue {github.issues[0]['html_url']} was closed."
    assert github.bodies(100) == ["It passes again."]
    nightly(api, failing=True)
    assert [issue["state"] for issue in github.issues] == ["closed", "open"]


def test_other_peoples_issues_and_pull_requests_are_left_alone(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_issue("forged", f"{MARK}\nx", "mallory")
    github.add_issue("pull", f"{MARK}\nx", BOT, "Bot", pull=True)
    assert nightly(api, failing=False) == ""
    assert "was opened" in nightly(api, failing=True)
    assert [issue["state"] for issue in github.issues] == ["open"] * 3
    assert [issue["body"] for issue in github.issues[:2]] == [f"{MARK}\nx"] * 2


@pytest.mark.parametrize("how", [{"status": 502}, {"how": "reset"}])
def test_a_reply_lost_after_the_write_opens_one_issue(github: FakeGitHub, api: GitHubApi, how: dict[str, Any]) -> None:
    github.fail("POST", "/issues$", after_write=True, **how)
    assert "was opened" in nightly(api, failing=True)
    assert len(github.issues) == 1
