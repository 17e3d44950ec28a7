"""One comment that many jobs write at the same time: nobody's part is lost, and nobody waits for a dead job forever."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence

import pytest
from pydantic import SecretStr

from ragstone.ci.github.client import ApiErrorKind, GitHubApi, GitHubApiError, RetryPolicy
from ragstone.ci.github.posts import Posted, marker
from ragstone.ci.github.shared_comment import LEASE_S, LOCK, CommentBusyError, update_shared_comment
from tests.ci.github.fake import ALL_RIGHTS, TOKEN, Actor, FakeGitHub

BOT = "github-actions[bot]"
MARK = marker("gates", "all")


def adding(word: str) -> Callable[[Sequence[str]], str]:
    """A change that keeps every word, and adds one."""

    def change(contents: Sequence[str]) -> str:
        return " ".join(sorted({*(found for content in contents for found in content.split()), word}))

    return change


def write(api: GitHubApi, word: str, clock: Callable[[], float] | None = None) -> Posted:
    more = {} if clock is None else {"clock": clock}
    return update_shared_comment(api, 7, MARK, adding(word), holds=lambda content: word in content.split(), **more)


def words(github: FakeGitHub) -> set[str]:
    (body,) = [body for body in github.bodies() if body.startswith(MARK)]
    return set(body.split("\n")[1].split())


@pytest.mark.parametrize("begun", [False, True], ids=["none yet", "one already"])
def test_twenty_jobs_at_once_lose_nothing(github: FakeGitHub, begun: bool) -> None:
    if begun:
        github.add_comment(7, f"{MARK}\nearlier", BOT, "Bot")
    names = [f"gate-{n}" for n in range(20)]
    patience = RetryPolicy(timeout_s=20, first_pause_s=0.02, settle_s=0.02)
    start = threading.Barrier(len(names))
    failed: list[BaseException] = []

    def job(name: str) -> None:
        api = GitHubApi(SecretStr(TOKEN), repository="acme/rag", api_url=github.api_url, patience=patience)
        try:
            start.wait()
            write(api, name)
        except BaseException as error:
            failed.append(error)
        finally:
            api.close()

    threads = [threading.Thread(target=job, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert words(github) == {*names, *(["earlier"] if begun else [])}
    assert github.reactions == []


def test_one_job_alone_takes_the_lock_and_gives_it_back(github: FakeGitHub, api: GitHubApi) -> None:
    first = write(api, "a")
    second = write(api, "b")
    assert (first.updated, second.updated) == (False, True)
    assert words(github) == {"a", "b"}
    assert github.reactions == []
    assert [seen.path.rpartition("/")[2] for seen in github.sent("POST")] == ["comments", "reactions"]


def test_a_reaction_of_a_person_is_no_lock(github: FakeGitHub, api: GitHubApi, pauses: list[float]) -> None:
    comment = github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    github.add_reaction(comment["id"], LOCK, "someone")
    write(api, "b")
    assert words(github) == {"a", "b"}
    assert pauses == []
    assert len(github.reactions) == 1


def test_the_lock_of_a_job_that_was_killed_is_broken_after_its_lease(
    github: FakeGitHub, connect: Callable[..., GitHubApi], pauses: list[float]
) -> None:
    comment = github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    github.add_reaction(comment["id"], LOCK, BOT, "Bot")
    api = connect(patience=RetryPolicy(timeout_s=5, first_pause_s=10.0))
    write(api, "b", clock=lambda: sum(pauses))
    assert words(github) == {"a", "b"}
    assert LEASE_S <= sum(pauses) <= LEASE_S + 30
    assert github.reactions == []


def test_a_lock_that_changes_hands_is_not_broken(
    github: FakeGitHub, connect: Callable[..., GitHubApi], pauses: list[float]
) -> None:
    comment = github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    github.add_reaction(comment["id"], LOCK, BOT, "Bot")
    api = connect(patience=RetryPolicy(timeout_s=5, first_pause_s=10.0))

    def sleep(pause: float) -> None:
        pauses.append(pause)
        github.reactions.clear()
        github.add_reaction(comment["id"], LOCK, BOT, "Bot")

    api.sleep = sleep
    with pytest.raises(CommentBusyError, match="another job holds its lock"):
        write(api, "b", clock=lambda: sum(pauses))
    assert github.sent("DELETE") == []
    assert words(github) == {"a"}


def test_who_held_the_lock_for_too_long_writes_nothing(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    late = itertools.count(0.0, LEASE_S / 2)
    with pytest.raises(CommentBusyError):
        write(api, "b", clock=lambda: next(late))
    assert github.sent("PATCH") == []
    assert github.reactions == []


@pytest.mark.parametrize("after", [True, False], ids=["written", "not written"])
def test_a_reply_that_is_lost_is_made_good(github: FakeGitHub, api: GitHubApi, after: bool) -> None:
    github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    github.fail("PATCH", "comments", 502, after_write=after)
    write(api, "b")
    assert words(github) == {"a", "b"}


def test_a_rate_limit_is_waited_for_without_the_lock(github: FakeGitHub, api: GitHubApi, pauses: list[float]) -> None:
    github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    github.fail("PATCH", "comments", 403, message="You have exceeded a secondary rate limit")
    write(api, "b")
    assert words(github) == {"a", "b"}
    assert max(pauses) >= 60


def test_doubles_are_merged_not_thrown_away(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    github.add_comment(7, f"{MARK}\nb", BOT, "Bot")
    write(api, "c")
    assert words(github) == {"a", "b", "c"}


def test_a_comment_of_somebody_else_is_neither_read_nor_written(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"{MARK}\nforged", "mallory")
    write(api, "a")
    assert github.bodies() == [f"{MARK}\nforged", f"{MARK}\na"]


def test_a_comment_of_another_bot_is_neither_read_nor_written(github: FakeGitHub, api: GitHubApi) -> None:
    # With an installation's token we are "some bot" until GitHub names us in the reply to the lock.
    github.add_comment(7, f"{MARK}\nforged", "echo[bot]", "Bot")
    write(api, "a")
    write(api, "b")
    assert github.bodies() == [f"{MARK}\nforged", f"{MARK}\na b"]
    assert github.reactions == []


def test_a_comment_that_is_deleted_meanwhile_is_made_again(github: FakeGitHub, api: GitHubApi) -> None:
    github.add_comment(7, f"{MARK}\na", BOT, "Bot")
    once = [True]

    def change(contents: Sequence[str]) -> str:
        if once.pop() if once else False:
            github.comments.clear()
        return adding("b")(contents)

    update_shared_comment(api, 7, MARK, change, holds=lambda content: "b" in content)
    assert "b" in words(github)
    assert len(github.bodies()) == 1


def test_a_token_that_may_not_write_is_refused(github: FakeGitHub, connect: Callable[..., GitHubApi]) -> None:
    github.actors["read-only"] = Actor(BOT, writes=ALL_RIGHTS - {"pull-requests"})
    for begun in (False, True):
        if begun:
            github.add_comment(7, f"{MARK}\na", BOT, "Bot")
        with pytest.raises(GitHubApiError) as caught:
            write(connect("read-only"), "b")
        assert caught.value.kind is ApiErrorKind.REFUSED
    assert github.bodies() == [f"{MARK}\na"]
