"""The turns of a conversation share an object, a process or an id, and other questions don't."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.golden.sample import ConversationTurn, Message, Sample
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import Response, System, SystemFailureKind, session_of, takes_session
from tests.system.service import Server, failure


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
shared = Counter()
"""


@pytest.mark.parametrize("attribute", ["Counter", "build", "Counter.answer"])
def test_each_conversation_has_an_object_of_its_own(room: Any, attribute: str) -> None:
    room.app(COUNTER)

    async def ask() -> tuple[list[list[str]], list[str]]:
        async with room.started(f"app:{attribute}", concurrency=2) as system:
            assert takes_session(system) is True
            found = await talks(system, "a", "b", "c")
            alone = [await system.ask(Sample(name, "More?")) for name in "xy"]
            return found, [response.answer for response in alone]

    found, alone = asyncio.run(ask())
    assert found == [["1", "2", "3"]] * 3
    assert set(alone) <= {"1", "2"}


def test_a_file_is_imported_once_whatever_the_number_of_conversations(room: Any) -> None:
    room.write("rag.py", "open('imports', 'a').write('x')\nclass A:\n    def answer(self, question): return 'yes'\n")

    async def ask() -> None:
        async with room.started("rag.py:A", concurrency=1) as system:
            await talks(system, "a", "b")

    asyncio.run(ask())
    assert (room.folder / "imports").read_text() == "x"


def test_an_object_that_the_module_holds_is_shared(room: Any) -> None:
    room.app(COUNTER)

    async def ask() -> list[list[str]]:
        async with room.started("app:shared", concurrency=1) as system:
            assert takes_session(system) is False
            return await talks(system, "a", "b")

    assert asyncio.run(ask()) == [["1", "2", "3"], ["4", "5", "6"]]


FUNCTIONS = [
    ("def answer(question, session=None): return str(session)", "None"),
    ("def answer(question, *, thread_id='none'): return thread_id", "none"),
    ("def answer(question, conversation_id): return 'new' if len(conversation_id) == 32 else conversation_id", "new"),
]


@pytest.mark.parametrize(("source", "alone"), FUNCTIONS)
def test_a_function_gets_the_session_by_the_name_of_its_parameter(room: Any, source: str, alone: str) -> None:
    room.app(source)
    names: dict[str, Any] = {}
    exec(source, names)

    async def ask(system: System) -> list[str]:
        assert takes_session(system) is True
        standalone = await system.ask(Sample("x", "More?"))
        return [standalone.answer, *(await talks(system, "a"))[0]]

    async def in_both() -> list[list[str]]:
        async with room.started("app:answer") as system:
            own = CallableSystem(names["answer"])
            await own.start()
            return [await ask(system), await ask(own)]

    assert asyncio.run(in_both()) == [[alone, "id-a", "id-a", "id-a"]] * 2


def test_conversations_in_this_process_have_objects_too() -> None:
    names: dict[str, Any] = {}
    exec(COUNTER, names)

    async def ask(target: Any) -> list[list[str]]:
        system = CallableSystem(target)
        await system.start()
        return await talks(system, "a", "b")

    async def build() -> Any:
        return names["Counter"]()

    for target in (names["Counter"], build):
        assert asyncio.run(ask(target)) == [["1", "2", "3"]] * 2
    first, second = asyncio.run(ask(names["shared"]))
    assert sorted([*first, *second]) == ["1", "2", "3", "4", "5", "6"]


def test_a_graph_that_remembers_gets_a_thread_for_each_conversation(room: Any) -> None:
    room.app("""
        import json
        class Graph:
            checkpointer = object()
            def get_input_jsonschema(self): return {"type": "object", "properties": {"messages": {}}}
            def invoke(self, given, config=None):
                return json.dumps([len(given["messages"]), config["configurable"]["thread_id"]])
        graph = Graph()
    """)

    async def ask() -> tuple[list[list[str]], Response]:
        async with room.started("app:graph") as system:
            assert takes_session(system) is True
            earlier = Sample("x", "More?", history=(Message("user", "First?"),))
            return await talks(system, "a"), await system.ask(earlier)

    found, alone = asyncio.run(ask())
    assert [json.loads(answer) for answer in found[0]] == [[1, "id-a"]] * 3
    messages, thread = json.loads(alone.answer)
    assert (messages, len(thread)) == (2, 32)


def test_an_object_that_cannot_be_built_fails_its_questions_alone(room: Any) -> None:
    source = """
built = []
def build():
    built.append(1)
    if len(built) > 1:
        raise ValueError("too many")
    return lambda question: question
"""
    room.app(source)
    names: dict[str, Any] = {}
    exec(source, names)

    async def ask(system: System) -> list[SystemFailureKind | str]:
        responses = await talk(system, "a", ["More?"])
        return [failure(responses[0]).kind, (await system.ask(Sample("x", "More?"))).answer]

    async def in_both() -> list[list[SystemFailureKind | str]]:
        async with room.started("app:build", retries=0) as system:
            own = CallableSystem(names["build"])
            await own.start()
            return [await ask(system), await ask(own)]

    assert asyncio.run(in_both()) == [[SystemFailureKind.RAISED, "More?"]] * 2


def test_the_object_of_a_session_may_take_as_long_as_a_start(room: Any) -> None:
    room.app("import time\nclass Slow:\n    def __init__(self): time.sleep(1)\n    def answer(self, q): return q\n")

    async def ask() -> list[Response]:
        async with room.started("app:Slow", timeout_s=0.8, retries=0) as system:
            return await talk(system, "a", ["More?"])

    (response,) = asyncio.run(ask())
    assert response.answer == "More?"


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


def test_more_conversations_than_processes_wait_for_each_other(room: Any) -> None:
    room.app(COUNTER)

    async def ask() -> tuple[list[list[str]], list[Response]]:
        async with room.started("app:Counter", concurrency=2) as system:
            alone = asyncio.gather(*(system.ask(Sample(str(number), "More?")) for number in range(4)))
            return await talks(system, *"abcdef"), await alone

    found, alone = asyncio.run(ask())
    assert found == [["1", "2", "3"]] * 6
    assert all(response.failure is None for response in alone)


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


def test_a_command_for_each_question_gets_the_session_where_it_names_it(room: Any) -> None:
    room.write("rag.py", "import sys; print(sys.argv[2])")

    async def ask() -> list[list[str]]:
        command = f"command:{sys.executable} rag.py {{question}} {{session}}"
        async with room.started(command) as system:
            assert takes_session(system) is True
            return await talks(system, "a")

    assert asyncio.run(ask()) == [["id-a"] * 3]


def test_a_service_gets_the_session_in_a_field_or_a_header(room: Any, server: Server) -> None:
    async def ask(field: str | None) -> None:
        http = {} if field is None else {"session_field": field}
        async with room.started(f"{server.url}/ask", http=http) as system:
            await talks(system, "a")
            await system.ask(Sample("x", "More?"))

    for field in (None, "meta.talk", "header:X-Talk", ""):
        asyncio.run(ask(field))
    _, headers, bodies = zip(*server.seen, strict=True)
    assert [body.get("session_id") for body in bodies] == ["id-a"] * 3 + [None] * 13
    assert [body.get("meta") for body in bodies[4:8]] == [{"talk": "id-a"}] * 3 + [None]
    assert [header.get("x-talk") for header in headers] == [None] * 8 + ["id-a"] * 3 + [None] * 5


def test_a_header_that_is_none_is_refused(room: Any) -> None:
    with pytest.raises(ConfigError, match="names no header"):
        room.knows(takes_session, "http://127.0.0.1:1/ask", http={"session_field": "header:X Talk"})
