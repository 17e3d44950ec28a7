"""Plain callables as systems."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import CancelledError
from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import Response
from tests.system.service import by_kind, failure


def ask(target: object, *questions: str, **settings: Any) -> list[Response]:
    async def scenario() -> list[Response]:
        system = CallableSystem(target, SystemSettings(**settings))
        await system.start()
        try:
            return list(await asyncio.gather(*(system.ask(Sample(q, q)) for q in questions)))
        finally:
            await system.close()

    return asyncio.run(scenario())


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


def test_failures_cost_their_own_sample() -> None:
    class Passage:
        def __init__(self, question: str) -> None:
            self.question = question

        @property
        def text(self) -> str:
            misbehave(self.question.removeprefix("passage that "))
            return "fine"

    def misbehave(how: str) -> None:
        match how:
            case "raises":
                raise ValueError("wrong")
            case "exits":
                sys.exit(3)
            case "interrupts":
                raise KeyboardInterrupt
            case "stops":
                raise StopIteration
            case "cancels":
                raise asyncio.CancelledError
            case "cancels a future":
                raise CancelledError
            case "times out by itself":
                raise TimeoutError("the database's")
            case "hangs":
                time.sleep(0.8)

    def answer(question: str) -> object:
        misbehave(question)
        return None if question == "none" else {"answer": "fine", "contexts": [Passage(question)]}

    raising = ["raises", "exits", "interrupts", "stops", "cancels", "cancels a future", "times out by itself"]
    questions = ["a", *raising, "none", "hangs", *(f"passage that {how}" for how in ("hangs", "exits", "interrupts"))]
    responses = ask(answer, *questions, "b", timeout_s=0.4)
    assert by_kind([*questions, "b"], responses) == {
        "answered": ["a", "b"],
        "raised": [*raising, "passage that interrupts"],
        "bad_return": ["none", "passage that exits"],
        "timeout": ["hangs", "passage that hangs"],
    }
    detail = failure(responses[1]).detail or ""
    assert "in misbehave" in detail
    assert "ragstone/system" not in detail


def test_an_async_callable_that_cancels_itself_costs_its_own_sample() -> None:
    async def answer(question: str) -> str:
        if question == "cancels":
            raise asyncio.CancelledError
        await asyncio.sleep(60 if question == "hangs" else 0)
        return "fine"

    questions = ["a", "cancels", "hangs", "b"]
    assert by_kind(questions, ask(answer, *questions, timeout_s=0.4)) == {
        "answered": ["a", "b"],
        "raised": ["cancels"],
        "timeout": ["hangs"],
    }


def test_a_callable_that_can_not_be_asked_or_created_is_refused_at_the_start() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no index")

    with pytest.raises(SystemUnderTestError, match="OSError: no index"):
        ask(Broken, "a")
    with pytest.raises(SystemUnderTestError, match="can't be asked"):
        ask(42, "a")


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
