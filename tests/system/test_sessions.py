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
from ragstone.system.response import Response, System, SystemFailureKind, session_of
from tests.system.service import failure

COUNTER = """
import os
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


async def talk(system: System, conversation: str, questions: Sequence[str] = ("More?",) * 3) -> list[Response]:
    responses = []
    async with session_of(system) as session:
        for number, question in enumerate(questions, 1):
            place = ConversationTurn(conversation, number, 3, session=f"id-{conversation}")
            responses.append(await session.ask(Sample(f"{conversation}/turn-{number}", question, turn=place)))
    return responses


async def talks(system: System, *names: str) -> list[list[str]]:
    responses = await asyncio.gather(*(talk(system, name) for name in names))
    return [[response.answer for response in conversation] for conversation in responses]


async def in_this_process(source: str, name: str) -> System:
    names: dict[str, Any] = {}
    exec(source, names)
    system = CallableSystem(names[name])
    await system.start()
    return system


@pytest.mark.parametrize("attribute", ["Counter", "build", "Counter.answer"])
def test_each_conversation_has_an_object_of_its_own(room: Any, attribute: str) -> None:
    room.app(COUNTER)

    async def ask(system: System) -> tuple[list[list[str]], list[Response]]:
        alone = asyncio.gather(*(system.ask(Sample(name, "More?")) for name in "wxyz"))
        return await talks(system, *"abcdef"), await alone

    found, alone = room.use(ask, f"app:{attribute}", concurrency=2)
    assert found == [["1", "2", "3"]] * 6
    assert {response.answer for response in alone} <= {"1", "2", "3", "4"}
    assert len((room.folder / "imports").read_text()) <= 2, "once in each process"
    assert room.knows("session", f"app:{attribute}") is True


def test_an_object_that_the_module_holds_is_shared(room: Any) -> None:
    room.app(COUNTER)
    found = room.use(lambda system: talks(system, "a", "b"), "app:shared", concurrency=1)
    assert found == [["1", "2", "3"], ["4", "5", "6"]]
    assert room.knows("session", "app:shared") is False


@pytest.mark.parametrize("attribute", ["Counter", "build_later", "shared"])
def test_conversations_in_this_process_have_objects_too(room: Any, monkeypatch: Any, attribute: str) -> None:
    monkeypatch.chdir(room.folder)

    async def ask() -> list[list[str]]:
        return await talks(await in_this_process(COUNTER, attribute), "a", "b")

    first, second = asyncio.run(ask())
    if attribute == "shared":
        assert sorted([*first, *second]) == ["1", "2", "3", "4", "5", "6"]
    else:
        assert first == second == ["1", "2", "3"]


BUILT = """
import time
built = []
def build():
    built.append(1)
    if len(built) == 2:
        raise ValueError("the second one")
    time.sleep(0.7)
    return lambda question: question
"""


def test_an_object_that_cannot_be_built_fails_its_questions_alone_and_a_slow_one_none(room: Any) -> None:
    room.app(BUILT)

    async def ask(system: System) -> list[SystemFailureKind | str]:
        (failed,), (slow,) = await talk(system, "a", ["More?"]), await talk(system, "b", ["More?"])
        return [failure(failed).kind, slow.answer, (await system.ask(Sample("x", "More?"))).answer]

    async def ask_here() -> list[SystemFailureKind | str]:
        return await ask(await in_this_process(BUILT, "build"))

    expected = [SystemFailureKind.RAISED, "More?", "More?"]
    assert room.use(ask, "app:build", retries=0, timeout_s=0.5, concurrency=1) == expected
    assert asyncio.run(ask_here()) == expected


def test_a_command_has_one_process_for_a_conversation_and_gets_its_id(room: Any) -> None:
    source = "print(json.dumps({'answer': json.dumps([os.getpid(), json.loads(line).get('session')])}), flush=True)"
    room.write("rag.py", f"import json, os, sys\nfor line in sys.stdin: {source}\n")
    found = room.use(lambda system: talks(system, "a", "b", "c"), f"command:{sys.executable} rag.py", concurrency=3)
    pairs = [[json.loads(answer) for answer in conversation] for conversation in found]
    assert [len({process for process, _ in pair}) for pair in pairs] == [1, 1, 1]
    assert [session for _, session in pairs[1]] == ["id-b"] * 3
