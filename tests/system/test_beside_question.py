"""What each kind of entrypoint gets beside the question: earlier turns, the session, and contexts that it is given."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import ConversationTurn, Message, Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.entrypoint import wrap_for_part
from ragstone.system.given import has_other_contexts
from ragstone.system.in_process import CallableSystem
from ragstone.system.response import Context, Response
from tests.system.service import Server

PASSAGES = ["It opens at nine.", "It closes at six."]
TURNS = [{"role": "user", "content": "First?"}, {"role": "assistant", "content": "Open it."}]
LAST = {"role": "user", "content": "And then?"}
TALK = Sample(
    "t",
    "And then?",
    history=(Message("user", "First?"), Message("assistant", "Open it.")),
    reference_contexts=tuple(PASSAGES),
    turn=ConversationTurn("talk", 2, 3, session="id-talk"),
)
ALONE = Sample("a", "What now?")
GENERATION = {"part": "generation"}


def asked(source: str, sample: Sample, **settings: Any) -> Any:
    """What the function `answer` of a source in this process returns, as JSON."""
    names: dict[str, Any] = {"json": json}
    exec(source, names)
    given = SystemSettings(**settings)
    system = wrap_for_part(CallableSystem(names["answer"], given), given)

    async def ask() -> str:
        await system.start()
        return (await system.ask(sample)).answer

    return json.loads(asyncio.run(ask()))


@pytest.mark.parametrize(
    ("parameters", "returned", "talk", "alone"),
    [
        ("question, history=None", "history", TURNS, None),
        ("question, history", "history", TURNS, []),
        ("question, *, chat_history=()", "chat_history", TURNS, []),
        ("question, messages=None", "messages", [*TURNS, LAST], None),
        ("question, k=5", "k", 5, 5),
        ("messages", "messages", "And then?", "What now?"),
        ("question, session=None", "session", "id-talk", None),
        ("question, *, thread_id='none'", "thread_id", "id-talk", "none"),
        ("question, conversation_id", "len(conversation_id)", len("id-talk"), 32),
    ],
)
def test_a_function_gets_it_by_the_names_of_its_parameters(
    parameters: str, returned: str, talk: object, alone: object
) -> None:
    source = f"def answer({parameters}): return json.dumps({returned})"
    assert asked(source, TALK) == talk
    assert asked(f"async {source}", ALONE) == alone


@pytest.mark.parametrize(
    "parameters",
    ["question, contexts=None", "question, contexts", "question, *, contexts=()", "question, history, contexts"],
)
def test_contexts_are_given_for_generation_alone(parameters: str) -> None:
    source = f"def answer({parameters}): return json.dumps([question, contexts])"
    assert asked(source, TALK, **GENERATION) == ["And then?", PASSAGES]
    assert asked(source, ALONE, **GENERATION) == ["What now?", []]


@pytest.mark.parametrize("parameters", ["question", "question, **more", "contexts"])
def test_generation_alone_needs_a_function_that_takes_contexts(parameters: str) -> None:
    with pytest.raises(SystemUnderTestError, match="it takes none"):
        asked(f"def answer({parameters}): return '1'", TALK, **GENERATION)


def test_a_worker_gets_what_a_function_in_this_process_gets(room: Any) -> None:
    parameters = "question, history=None, session=None, contexts=None"
    room.app(f"import json\ndef answer({parameters}): return json.dumps([question, history, session, contexts])\n")
    (talk,) = room.ask_samples("app:answer", TALK, **GENERATION)
    (whole,) = room.ask_samples("app:answer", ALONE)
    assert json.loads(talk.answer) == ["And then?", TURNS, "id-talk", PASSAGES]
    assert json.loads(whole.answer) == ["What now?", None, None, None]
    for takes in ("history", "session", "contexts"):
        assert room.knows(takes, "app:answer") is True
    room.write("plain.py", "def answer(question): return question\n")
    assert room.knows("contexts", "plain:answer") is False


def test_a_function_that_needs_contexts_is_no_whole_system(room: Any) -> None:
    room.app("def answer(question, contexts): return question\n")
    with pytest.raises(SystemUnderTestError, match=r"needs 'contexts'.*part = \"generation\""):
        room.ask_samples("python:app:answer", TALK)


def test_a_runnable_gets_it_in_its_input(room: Any) -> None:
    room.app("""
        import json
        class Chain:
            def get_input_jsonschema(self):
                return {"type": "object", "properties": {"question": {}, "chat_history": {}, "contexts": {}}}
            def invoke(self, given, config=None):
                return json.dumps(given)
        chain = Chain()
    """)
    (talk,) = room.ask_samples("python:app:chain", TALK, **GENERATION)
    (alone,) = room.ask_samples("python:app:chain", ALONE)
    assert json.loads(talk.answer) == {"question": "And then?", "chat_history": TURNS, "contexts": PASSAGES}
    assert json.loads(alone.answer) == {"question": "What now?"}


def test_a_graph_that_remembers_gets_a_thread_and_no_turns_that_it_knows(room: Any) -> None:
    room.app("""
        import json
        class Graph:
            checkpointer = object()
            def get_input_jsonschema(self): return {"type": "object", "properties": {"messages": {}}}
            def invoke(self, given, config=None):
                return json.dumps([len(given["messages"]), config["configurable"]["thread_id"]])
        graph = Graph()
    """)
    earlier = Sample("x", "More?", history=(Message("user", "First?"),))
    talk, alone = (json.loads(one.answer) for one in room.ask_samples("app:graph", TALK, earlier))
    assert talk == [1, "id-talk"]
    assert (alone[0], len(alone[1])) == (2, 32)
    assert room.knows("session", "app:graph") is True


def test_a_command_gets_it_in_its_line(room: Any) -> None:
    source = 'import json, sys\nfor line in sys.stdin:\n    print(json.dumps({"answer": line}), flush=True)\n'
    room.write("rag.py", source)
    entrypoint = f"command:{sys.executable} rag.py"
    (talk,) = room.ask_samples(entrypoint, TALK, **GENERATION)
    (alone,) = room.ask_samples(entrypoint, ALONE)
    beside = {"history": TURNS, "session": "id-talk", "contexts": PASSAGES}
    assert json.loads(talk.answer) == {"id": "t", "question": "And then?", **beside}
    assert json.loads(alone.answer) == {"id": "a", "question": "What now?"}
    assert room.knows("contexts", entrypoint) is None


def test_a_service_gets_it_in_fields(room: Any, server: Server, no_proxy: None) -> None:
    named = {"history_field": "input.turns", "session_field": "meta.talk"}
    room.ask_samples(server.url, TALK, **GENERATION)
    room.ask_samples(server.url, TALK, **GENERATION, http=named)
    room.ask_samples(server.url, ALONE)
    usual, elsewhere, alone = (body for _, _, body in server.seen)
    asks = {"question": "And then?", "contexts": PASSAGES}
    assert usual == {**asks, "history": TURNS, "session_id": "id-talk"}
    assert elsewhere == {**asks, "input": {"turns": TURNS}, "meta": {"talk": "id-talk"}}
    assert alone == {"question": "What now?"}


# -- halves ------------------------------------------------------------------------------------------------------------

OPENS = Sample("opens", "When does it open?", reference_contexts=tuple(PASSAGES))


def test_recorded_answers_without_contexts_have_those_that_were_given(room: Any) -> None:
    room.write("outputs.jsonl", '{"id": "opens", "answer": "At nine."}\n')
    (found,) = room.ask_samples("file:outputs.jsonl", OPENS, part="generation")
    assert (found.answer, [one.text for one in found.contexts]) == ("At nine.", PASSAGES)


def test_contexts_that_a_system_returns_are_its_own(room: Any) -> None:
    room.app("def answer(question, contexts=None): return 'At nine.', contexts[:1]\n")
    (found,) = room.ask_samples("python:app:answer", OPENS, part="generation")
    assert [one.text for one in found.contexts] == [PASSAGES[0]]


@pytest.mark.parametrize(
    ("returned", "wanted"),
    [
        (["opens  at NINE."], False),
        (["Intro. It opens at nine. More."], False),
        ([], False),
        (["It opens at nine.", "It is blue."], True),
        ([" "], False),
    ],
)
def test_other_contexts_than_those_that_were_given_are_noticed(returned: list[str], wanted: bool) -> None:
    assert has_other_contexts(Response("opens", "x", tuple(map(Context, returned))), PASSAGES) is wanted


def test_commands_services_and_files_may_only_retrieve(room: Any, server: Server) -> None:
    lines = (
        "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({'contexts': ['one', 'two']}), flush=True)\n"
    )
    room.write("rag.py", lines)
    room.write("outputs.jsonl", '{"id": "opens", "contexts": ["one", "two"]}\n')

    def retrieved(entrypoint: str, **fields: str) -> list[str]:
        (found,) = room.ask_samples(entrypoint, OPENS, part="retrieval", **fields)
        assert found.failure is None
        return [one.text for one in found.contexts]

    for entrypoint in (f"command:{sys.executable} rag.py", "file:outputs.jsonl"):
        assert retrieved(entrypoint) == ["one", "two"], entrypoint
    server.reply = lambda _path, _body: (200, {}, json.dumps({"hits": [{"body": "one"}, {"body": "two"}]}).encode())
    assert retrieved(server.url, contexts_field="hits", context_text_field="body") == ["one", "two"]
    stream = [b'data: {"contexts": ["one", "two"]}\n\n', b"data: [DONE]\n\n"]
    server.reply = lambda _path, _body: (200, {"Content-Type": "text/event-stream"}, stream)
    assert retrieved(server.url) == ["one", "two"]
