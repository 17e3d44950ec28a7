"""What the kinds of entrypoints get of a conversation's earlier turns."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from ragstone.golden.sample import Message, Sample
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import takes_history
from tests.system.service import Server

TALK = Sample("t", "And then?", history=(Message("user", "First?"), Message("assistant", "Open it.")))
ALONE = Sample("a", "What now?")
TURNS = [{"role": "user", "content": "First?"}, {"role": "assistant", "content": "Open it."}]
LAST = {"role": "user", "content": "And then?"}

FUNCTIONS: list[tuple[str, list[Any], bool]] = [
    ("def answer(question, history=None): return json.dumps(history)", [TURNS, None], True),
    ("def answer(question, history): return json.dumps(history)", [TURNS, []], True),
    ("def answer(question, *, chat_history=()): return json.dumps(chat_history)", [TURNS, []], True),
    ("async def answer(question, messages=None): return json.dumps(messages)", [[*TURNS, LAST], None], True),
    ("def answer(question, k=5): return json.dumps(k)", [5, 5], False),
    ("def answer(messages): return json.dumps(messages)", ["And then?", "What now?"], False),
]


@pytest.mark.parametrize(("source", "given", "takes"), FUNCTIONS)
def test_a_function_gets_them_by_the_name_of_its_parameter(source: str, given: list[Any], takes: bool) -> None:
    names: dict[str, Any] = {"json": json}
    exec(source, names)

    async def ask() -> tuple[bool | None, list[Any]]:
        system = CallableSystem(names["answer"])
        await system.start()
        return takes_history(system), [json.loads((await system.ask(sample)).answer) for sample in (TALK, ALONE)]

    assert asyncio.run(ask()) == (takes, given)


def test_a_function_in_a_worker_gets_them_too(room: Any) -> None:
    room.app("import json\ndef answer(question, history=None): return json.dumps([question, history])\n")
    answers = [json.loads(found.answer) for found in room.ask_samples("app:answer", TALK, ALONE)]
    assert answers == [["And then?", TURNS], ["What now?", None]]
    assert room.knows(takes_history, "app:answer") is True


def test_a_runnable_gets_them_in_its_input(room: Any) -> None:
    room.app("""
        import json
        class Chain:
            def get_input_jsonschema(self):
                return {"type": "object", "properties": {"question": {}, "chat_history": {}}}
            def invoke(self, given, config=None):
                return json.dumps(given)
        chain = Chain()
    """)
    talk, alone = (json.loads(found.answer) for found in room.ask_samples("python:app:chain", TALK, ALONE))
    assert talk == {"question": "And then?", "chat_history": TURNS}
    assert alone == {"question": "What now?"}


def test_a_command_gets_them_in_its_line(room: Any) -> None:
    room.write(
        "rag.py",
        """
        import json, sys
        for line in sys.stdin:
            print(json.dumps({"answer": line}), flush=True)
        """,
    )
    talk, alone = (
        json.loads(found.answer) for found in room.ask_samples(f"command:{sys.executable} rag.py", TALK, ALONE)
    )
    assert talk == {"id": "t", "question": "And then?", "history": TURNS}
    assert "history" not in alone


def test_a_command_for_each_question_gets_them_where_it_names_them(room: Any) -> None:
    room.write("rag.py", "import sys; print(sys.argv[2])")
    (found,) = room.ask_samples(f"command:{sys.executable} rag.py {{question}} {{history}}", TALK)
    assert json.loads(found.answer) == TURNS


def test_a_service_gets_them_in_a_field(room: Any, server: Server) -> None:
    url = f"{server.url}/ask"
    room.ask_samples(url, TALK, ALONE)
    room.ask_samples(url, TALK, http={"history_field": "input.turns"})
    bodies = {body["id"] + str("input" in body): body for _, _, body in server.seen}
    assert bodies["tFalse"]["history"] == TURNS
    assert "history" not in bodies["aFalse"]
    assert bodies["tTrue"]["input"] == {"turns": TURNS}
