from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError
from ragstone.github.api.comment_writer import CommentWriter, writer_of
from ragstone.github.api.posts import marker
from ragstone.github.api.posts import post_comment as post_to
from tests.github.api.fake import Actor, FakeGitHub

BOT = "github-actions[bot]"
MARK = marker("default")


def post_comment(api: GitHubApi, body: str, gate: str = "default", *, only_update: bool = False) -> str:
    return post_to(api, 7, marker(gate), lambda old: None if only_update and not old else body)


def test_a_gate_has_one_comment_of_its_own(github: FakeGitHub, api: GitHubApi) -> None:
    first = post_comment(api, "**fail**")
    second = post_comment(api, "**pass**")
    assert len(github.sent("POST")) == len(github.sent("PATCH")) == 1
    assert "issuecomment" in first
    assert first == second
    assert post_comment(api, "two", "search", only_update=True) == ""
    post_comment(api, "three", "search")
    assert post_comment(api, "four", "search", only_update=True)
    assert github.bodies() == [f"{MARK}\n**pass**", f"{marker('search')}\nfour"]
    assert marker("a") != marker("b")


def test_our_comment_is_found_behind_hundreds_of_others(github: FakeGitHub, api: GitHubApi) -> None:
    for n in range(130):
        github.add_comment(7, f"chat {n}")
    github.add_comment(7, f"{MARK}\r\nold", BOT, "Bot")  # GitHub changes line ends
    post_comment(api, "new")
    assert github.bodies()[-1] == f"{MARK}\nnew"
    assert len(github.bodies()) == 131


@pytest.mark.attack(by="text", tries="pose as our comment", stopped_by="marker and author must match")
@pytest.mark.parametrize(
    ("body", "login", "kind"),
    [
        (f"{MARK}\nforged pass", "mallory", "User"),
        (f"{MARK}\nforged pass", "mallory[bot]", "User"),
        (f"{MARK}\nforged pass", "mallory", "Bot"),
        (f"> quoted\n{MARK}\nx", BOT, "Bot"),
        (f" {MARK}", BOT, "Bot"),
    ],
    ids=["a person", "a person named like a bot", "an account of another kind", "a quote", "not the whole line"],
)
def test_a_comment_is_ours_by_its_first_line_and_its_author(
    github: FakeGitHub, api: GitHubApi, body: str, login: str, kind: str
) -> None:
    github.add_comment(7, body, login, kind)
    post_comment(api, "real")
    assert github.bodies() == [body, f"{MARK}\nreal"]


def test_a_personal_token_owns_what_its_person_wrote_only(
    github: FakeGitHub, connect: Callable[..., GitHubApi]
) -> None:
    github.actors["pat"] = Actor("alice", "User")
    github.add_comment(7, f"{MARK}\nby the bot", BOT, "Bot")
    for words in ("by alice", "by alice again"):
        post_comment(connect("pat"), words)
    assert github.bodies() == [f"{MARK}\nby the bot", f"{MARK}\nby alice again"]


@pytest.mark.attack(
    by="network", tries="a lost reply that duplicates a comment", stopped_by="looked for before sending again"
)
@pytest.mark.parametrize("fault", [{"status": 502}, {"how": "reset"}, {"how": "truncated"}, {"how": "garbage"}])
def test_a_502_after_the_write_leaves_one_comment(github: FakeGitHub, api: GitHubApi, fault: dict[str, Any]) -> None:
    github.fail("POST", "comments", after_write=True, **fault)
    assert "issuecomment" in post_comment(api, "body")
    assert github.bodies() == [f"{MARK}\nbody"]
    assert len(github.sent("POST")) == 1


@pytest.mark.parametrize(
    ("is_written", "hidden", "posts"),
    [(True, 3, 1), (True, 4, 2), (False, 0, 2)],
    ids=["it shows up at the third look", "it shows up after a second one", "it never was written"],
)
def test_a_write_with_an_unknown_outcome_leaves_one_comment(
    github: FakeGitHub, api: GitHubApi, is_written: bool, hidden: int, posts: int
) -> None:
    github.fail("POST", "comments", 502, after_write=is_written)
    github.add_comment(7, "other")
    github.hide_new_comments = hidden  # in the listing before the POST, and in those after it
    post_comment(api, "body")
    assert github.bodies() == ["other", f"{MARK}\nbody"]
    assert len(github.sent("POST")) == posts


def test_doubles_of_an_earlier_race_are_deleted_and_that_of_the_workflows_bot_is_kept(
    github: FakeGitHub, api: GitHubApi
) -> None:
    for login in ("another[bot]", BOT, BOT):
        github.add_comment(7, f"{MARK}\nold", login, "Bot")
    kept = github.comments[1]["comment"]["id"]
    assert str(kept) in post_comment(api, "new")
    assert github.bodies() == [f"{MARK}\nnew"]


def test_two_502s_leave_at_most_one_comment(github: FakeGitHub, api: GitHubApi) -> None:
    github.fail("POST", "comments", 502, times=2)
    with pytest.raises(GitHubApiError) as caught:
        post_comment(api, "body")
    assert caught.value.kind is ApiErrorKind.UNREACHABLE
    assert github.bodies() == []


WRITER = CommentWriter("a" * 40, "0" * 16, 900, 1)


@pytest.mark.parametrize(
    ("later", "is_other"),
    [
        (WRITER, True),
        (replace(WRITER, job="1" * 16), True),
        (replace(WRITER, job="1" * 16, attempt=2), True),
        (replace(WRITER, attempt=2), False),
        (replace(WRITER, run_id=901), False),
        (replace(WRITER, commit="b" * 40), False),
        (replace(WRITER, commit="b" * 40, job="1" * 16), False),
    ],
    ids=[
        *("another cell of a matrix", "another job", "another job, run again", "run again", "another run"),
        *("a new commit", "another job of a new commit"),
    ],
)
def test_a_comment_of_another_job_on_the_same_commit_is_told_apart(later: CommentWriter, is_other: bool) -> None:
    assert WRITER.is_other_job(later) is is_other
    assert writer_of(f"{WRITER.marker}## Passed\n") == WRITER
    assert writer_of(f"{WRITER.marker}## Passed\n".replace("\n", "\r\n")) == WRITER
    assert writer_of(f"## Passed\n{WRITER.marker}") is None, "text further down may come from anyone"


def test_an_update_survives_a_502(github: FakeGitHub, api: GitHubApi) -> None:
    post_comment(api, "old")
    github.fail("PATCH", "comments", 502, times=2)
    post_comment(api, "new")
    assert github.bodies() == [f"{MARK}\nnew"]
