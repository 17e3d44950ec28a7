from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError
from ragstone.github.api.posts import marker
from ragstone.github.api.posts import post_comment as post_to
from tests.github.api.fake import ALL_RIGHTS, Actor, FakeGitHub

BOT = "github-actions[bot]"
MARK = marker("comment", "default")


def post_comment(api: GitHubApi, number: int, gate: str, body: str, *, only_update: bool = False) -> str:
    return post_to(api, number, marker("comment", gate), lambda old: None if only_update and not old else body)


def test_the_first_comment_is_created_and_the_next_updates_it(github: FakeGitHub, api: GitHubApi) -> None:
    first = post_comment(api, 7, "default", "**fail**")
    second = post_comment(api, 7, "default", "**pass**")
    assert len(github.sent("POST")) == len(github.sent("PATCH")) == 1
    assert "issuecomment" in first
    assert first == second
    assert github.bodies() == [f"{MARK}\n**pass**"]


def test_our_comment_is_found_behind_hundreds_of_others(github: FakeGitHub, api: GitHubApi) -> None:
    for n in range(230):
        github.add_comment(7, f"chat {n}")
    github.add_comment(7, f"{MARK}\nold", BOT, "Bot")
    post_comment(api, 7, "default", "new")
    assert github.bodies()[-1] == f"{MARK}\nnew"
    assert len(github.bodies()) == 231


def test_gates_with_different_ids_have_a_comment_each(github: FakeGitHub, api: GitHubApi) -> None:
    post_comment(api, 7, "default", "one")
    post_comment(api, 7, "search", "two")
    post_comment(api, 7, "search", "three")
    assert github.bodies() == [f"{MARK}\none", f"{marker('comment', 'search')}\nthree"]


@pytest.mark.attack(by="text", tries="pose as our comment", stopped_by="marker and author must match")
def test_a_person_who_writes_our_marker_is_not_us(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"{MARK}\nforged pass", "mallory")
    post_comment(api, 7, "default", "real")
    assert github.bodies() == [f"{MARK}\nforged pass", f"{MARK}\nreal"]


def test_a_marker_below_the_first_line_is_not_ours(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"> quoted\n{MARK}\nx", BOT, "Bot")
    github.add_comment(7, f" {MARK}", BOT, "Bot")
    post_comment(api, 7, "default", "real")
    assert len(github.bodies()) == 3


def test_line_ends_that_github_changed_do_not_hide_our_comment(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"{MARK}\r\nold", BOT, "Bot")
    post_comment(api, 7, "default", "new")
    assert github.bodies() == [f"{MARK}\nnew"]


def test_a_personal_token_owns_what_its_person_wrote_only(
    github: FakeGitHub, connect: Callable[..., GitHubApi]
) -> None:
    github.actors["pat"] = Actor("alice", "User")
    github.add_comment(7, f"{MARK}\nby the bot", BOT, "Bot")
    api = connect("pat")
    post_comment(api, 7, "default", "by alice")
    post_comment(api, 7, "default", "by alice again")
    assert github.bodies() == [f"{MARK}\nby the bot", f"{MARK}\nby alice again"]


@pytest.mark.attack(
    by="network", tries="a lost reply that duplicates a comment", stopped_by="we look before sending again"
)
@pytest.mark.parametrize("fault", [{"status": 502}, {"how": "reset"}, {"how": "truncated"}, {"how": "garbage"}])
def test_a_502_after_the_write_leaves_one_comment(github: FakeGitHub, api: GitHubApi, fault: dict[str, Any]) -> None:
    github.fail("POST", "comments", after_write=True, **fault)
    posted = post_comment(api, 7, "default", "body")
    assert github.bodies() == [f"{MARK}\nbody"]
    assert len(github.sent("POST")) == 1
    assert "issuecomment" in posted


def test_a_write_that_shows_up_late_is_waited_for(github: FakeGitHub, api: GitHubApi) -> None:
    github.fail("POST", "comments", 502, after_write=True)
    github.add_comment(7, "other")
    github.hide_new_comments = 3  # the listing before the POST, and two looks after it
    post_comment(api, 7, "default", "body")
    assert len(github.sent("POST")) == 1
    assert github.bodies() == ["other", f"{MARK}\nbody"]


def test_a_502_before_the_write_is_made_good(github: FakeGitHub, api: GitHubApi) -> None:
    github.fail("POST", "comments", 502)
    post_comment(api, 7, "default", "body")
    assert github.bodies() == [f"{MARK}\nbody"]
    assert len(github.sent("POST")) == 2


def test_a_write_that_shows_up_after_a_second_one_is_tidied(github: FakeGitHub, api: GitHubApi) -> None:
    github.fail("POST", "comments", 502, after_write=True)
    github.hide_new_comments = 4
    post_comment(api, 7, "default", "body")
    assert github.bodies() == [f"{MARK}\nbody"]


def test_doubles_of_an_earlier_race_are_deleted(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"{MARK}\none", BOT, "Bot")
    github.add_comment(7, f"{MARK}\ntwo", BOT, "Bot")
    post_comment(api, 7, "default", "new")
    assert github.bodies() == [f"{MARK}\nnew"]


def test_two_502s_leave_at_most_one_comment(github: FakeGitHub, api: GitHubApi) -> None:
    github.fail("POST", "comments", 502, times=2)
    with pytest.raises(GitHubApiError) as caught:
        post_comment(api, 7, "default", "body")
    assert caught.value.kind is ApiErrorKind.UNREACHABLE
    assert github.bodies() == []


@pytest.mark.parametrize("exists", [True, False])
def test_a_part_that_another_job_wrote_over_at_the_same_time_is_written_again(
    github: FakeGitHub, api: GitHubApi, exists: bool
) -> None:
    if exists:
        github.add_comment(7, f"{MARK}\n", BOT, "Bot")
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:  # the other job read the comment before we wrote
            github.comments[0]["comment"]["body"] = f"{MARK}\ntheirs"

    api.sleep = sleep
    post_to(api, 7, MARK, lambda old: f"{old} ours".strip(), lambda body: "ours" in body)
    assert github.bodies() == [f"{MARK}\ntheirs ours"]
    assert len(pauses) == 2


def test_only_update_begins_none(github: FakeGitHub, api: GitHubApi) -> None:
    assert post_comment(api, 7, "default", "pass", only_update=True) == ""
    assert github.bodies() == []
    post_comment(api, 7, "default", "fail")
    assert post_comment(api, 7, "default", "pass", only_update=True)
    assert github.bodies() == [f"{MARK}\npass"]


def test_without_the_right_to_write_nothing_is_written(github: FakeGitHub, connect: Callable[..., GitHubApi]) -> None:
    github.actors["read-only"] = Actor(BOT, writes=ALL_RIGHTS - {"pull-requests"})
    with pytest.raises(GitHubApiError) as caught:
        post_comment(connect("read-only"), 7, "default", "body")
    assert caught.value.kind is ApiErrorKind.REFUSED
    assert github.bodies() == []


def test_an_update_survives_a_502(github: FakeGitHub, api: GitHubApi) -> None:
    post_comment(api, 7, "default", "old")
    github.fail("PATCH", "comments", 502, times=2)
    post_comment(api, 7, "default", "new")
    assert github.bodies() == [f"{MARK}\nnew"]


def test_a_marker_can_not_be_closed_by_an_id() -> None:
    assert marker("comment", "a").count("-->") == 1
    assert marker("comment", "a") != marker("issue", "a")
