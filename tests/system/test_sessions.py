"""The turns of a conversation share an object, a process or an id, and other questions don't."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.golden.sample import ConversationTurn, Sample
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import Response, System, SystemFailureKind, session_of, takes_session
from tests.system.service import failure


def turn(conversation: str, number: int, question: str = "More?") -> Sample:
    place = ConversationTurn(conversation, number, 3, session=f"id-{conversation}")
    return Sample(f"{conversation}/turn-{number}", question, turn=place)


async def talk(system: System, conversation: str, questions: Sequence[str] = ("More?",) * 3) -> list[Response]:
    async with session_of(system) as session:
        return [await session.ask(turn(conversation, number, text)) for number, text in enumerate(questions, 1)]


async def talks(system: System, *names: str) -> list[list[str]]:
    responses = await asyncio.gather(*(talk(system, name) for name in names))
    return [[response.answer for response in conversation] for conversation in responses]


COUNTER = """
import itertools, os, time
with open("imports", "a") as file: file.write("x")
class Counter:
    def __init__(self):
        self.count = 0
    def answer(self, question):
        self.count += 1
        if question == "die" and self.count == 2:
            os._exit(3)
        if question == "raise":
            raise ValueError("no")
        return str(self.count)
def build():
    return Counter()
async def build_later():
    return Counter()
shared = Counter()
"""


@pytest.mark.parametrize("attribute", ["Counter", "build", "Counter.answer"])
def test_each_conversation_has_an_object_of_its_own(room: Any, attribute: str) -> None:
    room.app(COUNTER)

    async def ask() -> tuple[list[list[str]], list[str]]:
        async with room.started(f"app:{attribute}", concurrency=2) as system:
            assert takes_session(system) is True
            alone = asyncio.gather(*(system.ask(Sample(name, "More?")) for name in "wxyz"))
            found = await talks(system, *"abcdef")
            return found, [response.answer for response in await alone]

    found, alone = asyncio.run(ask())
    assert found == [["1", "2", "3"]] * 6
    assert set(alone) <= {"1", "2", "3", "4"}
    assert len((room.folder / "imports").read_text()) <= 2, "once in each process"


def test_an_object_that_the_module_holds_is_shared(room: Any) -> None:
    room.app(COUNTER)

    async def ask() -> list[list[str]]:
        async with room.started("app:shared", concurrency=1) as system:
            assert takes_session(system) is False
            return await talks(system, "a", "b")

    assert asyncio.run(ask()) == [["1", "2", "3"], ["4", "5", "6"]]


@pytest.mark.parametrize("attribute", ["Counter", "build_later", "shared"])
def test_conversations_in_this_process_have_objects_too(room: Any, monkeypatch: Any, attribute: str) -> None:
    monkeypatch.chdir(room.folder)
    names: dict[str, Any] = {}
    exec(COUNTER, names)

    async def ask() -> list[list[str]]:
        system = CallableSystem(names[attribute])
        await system.start()
        return await talks(system, "a", "b")

    first, second = asyncio.run(ask())
    if attribute == "shared":
        assert sorted([*first, *second]) == ["1", "2", "3", "4", "5", "6"]
    else:
        assert first == second == ["1", "2", "3"]


def test_an_object_that_cannot_be_built_fails_its_questions_alone(room: Any) -> None:
    source = """
import time
built = []
def build():
    built.append(1)
    if len(built) == 2:
        raise ValueError("the second one")
    time.sleep(0.7)
    return lambda question: question
"""
    room.app(source)
    names: dict[str, Any] = {}
    exec(source, names)

    async def ask(system: System) -> list[SystemFailureKind | str]:
        (failed,), (slow,) = await talk(system, "a", ["More?"]), await talk(system, "b", ["More?"])
        return [failure(failed).kind, slow.answer, (await system.ask(Sample("x", "More?"))).answer]

    async def in_both() -> list[list[SystemFailureKind | str]]:
        async with room.started("app:build", retries=0, timeout_s=0.5, concurrency=1) as system:
            own = CallableSystem(names["build"])
            await own.start()
            return [await ask(system), await ask(own)]

    assert asyncio.run(in_both()) == [[SystemFailureKind.RAISED, "More?", "More?"]] * 2


def test_a_process_that_dies_is_replaced_and_the_conversation_goes_on(room: Any) -> None:
    room.app(COUNTER)

    async def ask() -> list[Response]:
        async with room.started("app:Counter", concurrency=1, retries=0) as system:
            return await talk(system, "a", ["More?", "die", "More?", "raise", "More?"])

    first, second, third, fourth, fifth = asyncio.run(ask())
    assert failure(second).kind is SystemFailureKind.CRASHED
    assert failure(fourth).kind is SystemFailureKind.RAISED
    assert [first.answer, third.answer, fifth.answer] == ["1", "1", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_process_that_is_to_be_replaced_for_its_memory_ends_after_the_conversation(room: Any) -> None:
    room.app("""
        import os
        class Hungry:
            def __init__(self): self.kept = []
            def answer(self, question):
                if not self.kept: self.kept.append(b"x" * 170_000_000)
                self.kept.append(question)
                return f"{os.getpid()} {len(self.kept)}"
    """)

    async def ask() -> list[str]:
        async with room.started("app:Hungry", concurrency=1, memory_limit_mb=210) as system:
            return [response.answer for name in "ab" for response in await talk(system, name, ["More?"] * 2)]

    answers = [answer.split() for answer in asyncio.run(ask())]
    assert [count for _, count in answers] == ["2", "3", "2", "3"]
    assert len({process for process, _ in answers[:2]}) == 1
    assert answers[0][0] != answers[2][0]


def test_a_command_has_one_process_for_a_conversation_and_gets_its_id(room: Any) -> None:
    room.write(
        "rag.py",
        "import json, os, sys\nfor line in sys.stdin:\n"
        "    print(json.dumps({'answer': json.dumps([os.getpid(), json.loads(line).get('session')])}), flush=True)\n",
    )

    async def ask() -> tuple[list[list[str]], Response]:
        async with room.started(f"command:{sys.executable} rag.py", concurrency=3) as system:
            return await talks(system, "a", "b", "c"), await system.ask(Sample("x", "More?"))

    found, alone = asyncio.run(ask())
    processes = [{json.loads(answer)[0] for answer in conversation} for conversation in found]
    assert [len(group) for group in processes] == [1, 1, 1]
    assert [json.loads(answer)[1] for answer in found[1]] == ["id-b"] * 3
    assert json.loads(alone.answer)[1] is None
