"""Plain callables as systems."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import Response

Kinds = Callable[[list[Response]], list[str]]


def ask(target: object, *questions: str, **settings: Any) -> list[Response]:
    async def scenario() -> list[Response]:
        system = CallableSystem(target, SystemSettings(**settings))
        await system.start()
        try:
            return list(await asyncio.gather(*(system.ask(Sample(q, q)) for q in questions)))
        finally:
            await system.close()

    return asyncio.run(scenario())


def function(question: str) -> dict[str, object]:
    return {"answer": "got " + question, "contexts": ["c"]}


async def coroutine(question: str) -> str:
    await asyncio.sleep(0)
    return "got " + question


class Engine:
    def query(self, question: str) -> str:
        return "got " + question


async def async_factory() -> Engine:
    return Engine()


@pytest.mark.parametrize(
    "target",
    [function, coroutine, Engine, async_factory, lambda q: coroutine(q)],
)
def test_the_same_shapes_are_asked_as_through_a_worker(target: object) -> None:
    (response,) = ask(target, "a")
    assert response.answer == "got a"
    assert response.latency_s is not None
    assert response.failure is None


def test_sync_callables_run_side_by_side_in_threads_up_to_the_concurrency() -> None:
    barrier = threading.Barrier(3)
    running: set[int] = set()
    most = []

    def answer(question: str) -> str:
        running.add(threading.get_ident())
        most.append(len(running))
        barrier.wait(10)
        running.discard(threading.get_ident())
        return question

    assert [r.answer for r in ask(answer, *"abcdef", concurrency=3)] == list("abcdef")
    assert max(most) == 3


def test_failures_cost_their_own_sample(kinds: Kinds) -> None:
    def answer(question: str) -> object:
        if question == "raise":
            raise ValueError("wrong")
        if question == "exit":
            sys.exit(3)
        if question == "stop":
            raise StopIteration
        if question == "own time-out":
            raise TimeoutError("the database's")
        if question == "hang":
            time.sleep(0.8)
        return None if question == "none" else "fine"

    questions = ["a", "raise", "exit", "stop", "own time-out", "none", "hang", "b"]
    responses = ask(answer, *questions, timeout_s=0.4)
    assert kinds(responses) == [
        "answered",
        "raised",
        "raised",
        "raised",
        "raised",
        "bad_return",
        "timeout",
        "answered",
    ]
    detail = responses[1].failure.detail if responses[1].failure else None
    assert detail is not None
    assert "in answer" in detail
    assert "ragstone/system" not in detail


def test_a_slow_coroutine_is_cancelled(kinds: Kinds) -> None:
    cancelled = []

    async def answer(question: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(question)
            raise
        return question

    assert kinds(ask(answer, "a", timeout_s=0.1)) == ["timeout"]
    assert cancelled == ["a"]


def test_a_callable_that_can_not_be_asked_or_created_is_refused_at_the_start() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no index")

    with pytest.raises(SystemUnderTestError, match="OSError: no index"):
        ask(Broken, "a")
    with pytest.raises(SystemUnderTestError, match="can't be asked"):
        ask(42, "a")


def test_it_is_named_by_module_and_name() -> None:
    assert CallableSystem(function).entrypoint.endswith(".function")
    assert CallableSystem(Engine()).entrypoint.endswith(".Engine")


@pytest.mark.usefixtures("processes")
def test_a_call_that_hangs_does_not_keep_the_interpreter_from_ending() -> None:
    script = textwrap.dedent("""
        import asyncio, time
        from ragstone.settings.settings import SystemSettings
        from ragstone.golden.sample import Sample
        from ragstone.system.in_process import CallableSystem

        async def main():
            system = CallableSystem(lambda q: time.sleep(3600), SystemSettings(timeout_s=0.1))
            await system.start()
            print((await system.ask(Sample("a", "q"))).failure.kind.value)

        asyncio.run(main())
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "timeout"


def test_what_is_returned_may_neither_block_nor_end_the_run(kinds: Kinds) -> None:
    class Passage:
        def __init__(self, question: str) -> None:
            self.question = question

        @property
        def text(self) -> str:
            if self.question == "block":
                time.sleep(0.8)
            if self.question == "exit":
                sys.exit(3)
            if self.question == "interrupt":
                raise KeyboardInterrupt
            return self.question

    def answer(question: str) -> dict[str, object]:
        return {"answer": question, "contexts": [Passage(question)]}

    responses = ask(answer, "a", "block", "exit", "interrupt", "b", timeout_s=0.4)
    assert kinds(responses) == ["answered", "timeout", "bad_return", "raised", "answered"]
