"""A pool of children: how many there are, who is asked again, and when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system import pool
from ragstone.system.line_peer import Attempt
from ragstone.system.payload import failed
from ragstone.system.pool import Pool
from ragstone.system.response import Response, SystemFailureKind, session_of

ANSWERED, ELSEWHERE = "answered", "elsewhere"


class Children:
    """Children that do as `script` says, one word a question, and then answer; some starts fail."""

    def __init__(self, *script: str, bad_starts: Sequence[int] = (), turns: int = 0) -> None:
        self.script = list(script)
        self.bad_starts = bad_starts
        self.turns = turns
        self.started = self.starting = self.most_starting = self.ended = self.asked = 0

    async def start(self) -> None:
        self.started += 1
        number = self.started
        self.starting += 1
        self.most_starting = max(self.most_starting, self.starting)
        await self.wait()
        self.starting -= 1
        if number in self.bad_starts:
            raise SystemUnderTestError("no index", where="app:answer")

    async def wait(self) -> None:
        for _ in range(self.turns):
            await asyncio.sleep(0)

    async def ask(self, sample: Sample) -> Attempt:
        self.asked += 1
        await self.wait()
        word = self.script.pop(0) if self.script else ANSWERED
        if word == ELSEWHERE:
            return Attempt(None, is_peer_reusable=False)
        if word == ANSWERED:
            return Attempt(Response(sample.id, word), is_peer_reusable=True)
        kind, _, kept = word.partition(" ")
        return Attempt(failed(sample.id, SystemFailureKind(kind), kind), is_peer_reusable=kept == "kept")

    async def end(self, *, kill: bool) -> None:
        self.ended += 1


class Child:
    accepts = None

    def __init__(self, children: Children) -> None:
        self.start, self.ask, self.end = children.start, children.ask, children.end


def asked(children: Children, questions: int, **settings: Any) -> list[Response]:
    async def ask(system: Pool) -> list[Response]:
        return list(await asyncio.gather(*(system.ask(Sample(str(number), "?")) for number in range(questions))))

    responses: list[Response] = used(children, ask, **settings)
    return responses


def used(children: Children, use: Callable[[Pool], Any], **settings: Any) -> Any:
    nothing = SimpleNamespace(close=lambda: None)
    context: Any = SimpleNamespace(missing_variable_hint=lambda text: None, log=nothing)

    async def started() -> Any:
        given = SystemSettings(**{"concurrency": 1, "retries": 0, **settings})
        system = Pool("app:answer", given, lambda: cast(Any, Child(children)), context)
        await system.start()
        try:
            return await use(system)
        finally:
            await system.close()

    return asyncio.run(started())


@pytest.mark.parametrize(
    ("questions", "concurrency", "started", "at_once"),
    [(1, 20, 1, 1), (5, 20, 5, 4), (9, 3, 3, 3), (40, 20, 20, pool.MAX_PARALLEL_STARTS)],
)
def test_it_grows_while_questions_wait(questions: int, concurrency: int, started: int, at_once: int) -> None:
    children = Children(turns=5)
    responses = asked(children, questions, concurrency=concurrency)
    assert [response.answer for response in responses] == [ANSWERED] * questions
    assert children.started == children.ended == started
    assert children.most_starting <= at_once


@pytest.mark.parametrize(
    ("script", "retries", "asks", "ends"),
    [
        (["raised kept"], 1, 2, "answered"),
        (["timeout"], 1, 2, "answered"),
        (["crashed"] * 2, 2, 3, "answered"),
        (["crashed"] * 2, 1, 2, "crashed"),
        (["bad_return kept"], 3, 1, "bad_return"),
        ([ELSEWHERE, ELSEWHERE], 0, 3, "answered"),
    ],
)
def test_what_may_pass_is_asked_again_and_what_is_nobodys_fault_of_another_child(
    script: list[str], retries: int, asks: int, ends: str
) -> None:
    children = Children(*script)
    (response,) = asked(children, 1, retries=retries)
    assert children.asked == asks
    assert (response.failure.kind.value if response.failure else response.answer) == ends
    assert children.started == 1 + sum(not word.endswith("kept") for word in script[:asks]) - (ends == "crashed")


@pytest.mark.parametrize(
    ("bad_starts", "concurrency", "answered"),
    [((2, 3), 1, 3), ((2, 3, 4), 1, 0), ((2, 3, 4), 2, 4)],
    ids=["fewer than it takes", "too many", "another child lives"],
)
def test_it_gives_up_if_children_can_not_be_started_again(
    bad_starts: tuple[int, ...], concurrency: int, answered: int
) -> None:
    children = Children(*(["crashed"] if concurrency == 1 else []), bad_starts=bad_starts, turns=3)
    responses = asked(children, 4, concurrency=concurrency)
    assert sum(response.failure is None for response in responses) == answered
    given_up = [response for response in responses if response.failure and "no index" in response.failure.message]
    assert len(given_up) == (3 if answered == 0 else 0)


def test_a_session_keeps_a_child_until_it_dies_and_gives_it_back_at_the_end() -> None:
    children = Children(ANSWERED, "raised kept", ANSWERED, "crashed")

    async def ask(system: Pool) -> list[int]:
        started = []
        async with session_of(system) as session:
            for number in range(6):
                await session.ask(Sample(str(number), "?"))
                started.append(children.started)
        await system.ask(Sample("after", "?"))
        return [*started, children.started]

    assert used(children, ask) == [1, 1, 1, 1, 2, 2, 2]
