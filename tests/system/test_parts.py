"""Halves of a system: one that only retrieves, and one that generates from contexts that it is given."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.entrypoint import of_part
from ragstone.system.given import ignores
from ragstone.system.in_process import CallableSystem
from ragstone.system.payload import read
from ragstone.system.response import Context, Response, SystemFailureKind, takes_contexts
from ragstone.system.worker import fields
from tests.system.service import Server, failure

GIVEN = ("It opens at nine.", "It closes at six.")
OPENS = Sample("opens", "When does it open?", reference_contexts=GIVEN)
BARE = Sample("bare", "Who was Ann?", answerable=False)

TAKES: list[tuple[str, bool]] = [
    ("def answer(question, contexts=None): return json.dumps([question, contexts])", True),
    ("def answer(question, contexts): return json.dumps([question, contexts])", True),
    ("async def answer(question, *, contexts=()): return json.dumps([question, contexts])", True),
    ("def answer(question, history, contexts): return json.dumps([question, contexts])", True),
    ("def answer(question): return question", False),
    ("def answer(question, **more): return question", False),
    ("def answer(contexts): return contexts", False),
]


@pytest.mark.parametrize(("source", "takes"), TAKES)
def test_a_function_is_given_contexts_by_the_name_of_its_parameter(source: str, takes: bool) -> None:
    names: dict[str, Any] = {"json": json}
    exec(source, names)

    async def ask() -> list[Response]:
        settings = SystemSettings(part="generation")
        system = of_part(CallableSystem(names["answer"], settings), settings)
        await system.start()
        assert takes_contexts(system) is True
        return [await system.ask(sample) for sample in (OPENS, BARE)]

    if not takes:
        with pytest.raises(SystemUnderTestError, match="it takes none"):
            asyncio.run(ask())
        return
    opens, bare = asyncio.run(ask())
    assert json.loads(opens.answer) == ["When does it open?", list(GIVEN)]
    assert opens.contexts == tuple(Context(text) for text in GIVEN)
    assert (json.loads(bare.answer), bare.contexts) == (["Who was Ann?", []], ())


def test_the_whole_system_is_given_none_and_is_known_to_take_some(room: Any) -> None:
    room.app("import json\ndef answer(question, contexts=None): return json.dumps(contexts)\n")
    (found,) = room.ask_samples("python:app:answer", OPENS)
    assert (found.answer, found.contexts) == ("null", ())
    assert room.knows(takes_contexts, "python:app:answer") is True
    room.write("plain.py", "def answer(question): return question\n")
    assert room.knows(takes_contexts, "python:plain:answer") is False


def test_a_function_that_needs_contexts_is_no_whole_system(room: Any) -> None:
    room.app("def answer(question, contexts): return question\n")
    with pytest.raises(SystemUnderTestError, match=r"needs 'contexts'.*part = \"generation\""):
        room.ask_samples("python:app:answer", OPENS)


def test_a_function_can_be_declared_to_take_contexts(room: Any) -> None:
    room.app("import json\ndef answer(question, **more): return json.dumps(more)\n")
    (found,) = room.ask_samples("python:app:answer", OPENS, part="generation", takes_contexts=True)
    assert json.loads(found.answer) == {"contexts": list(GIVEN)}
    room.write("plain.py", "def answer(question): return question\n")
    with pytest.raises(SystemUnderTestError, match="has no parameter 'contexts'"):
        room.ask_samples("python:plain:answer", OPENS, part="generation", takes_contexts=True)
    with pytest.raises(SystemUnderTestError, match="it takes none"):
        room.ask_samples("python:app:answer", OPENS, part="generation", takes_contexts=False)


def test_a_runnable_is_given_contexts_in_its_input(room: Any) -> None:
    room.app("""
        import json
        class Chain:
            def get_input_jsonschema(self):
                return {"type": "object", "properties": {"question": {}, "contexts": {}}}
            def invoke(self, given, config=None):
                return json.dumps(given)
        chain = Chain()
    """)
    (found,) = room.ask_samples("python:app:chain", OPENS, part="generation")
    assert json.loads(found.answer) == {"question": OPENS.question, "contexts": list(GIVEN)}


def test_a_command_is_given_contexts_in_its_line(room: Any) -> None:
    source = 'import json, sys\nfor line in sys.stdin:\n    print(json.dumps({"answer": line}), flush=True)\n'
    room.write("rag.py", source)
    entrypoint = f"command:{sys.executable} rag.py"
    (found,) = room.ask_samples(entrypoint, OPENS, part="generation")
    assert json.loads(found.answer) == {"id": "opens", "question": OPENS.question, "contexts": list(GIVEN)}
    (whole,) = room.ask_samples(entrypoint, OPENS)
    assert "contexts" not in json.loads(whole.answer)
    assert room.knows(takes_contexts, entrypoint) is None


def test_a_command_for_each_question_is_given_contexts_where_it_names_them(room: Any) -> None:
    room.write("rag.py", "import sys; print(sys.argv[2])")
    entrypoint = f"command:{sys.executable} rag.py {{question}} {{contexts}}"
    (found,) = room.ask_samples(entrypoint, OPENS, part="generation")
    (whole,) = room.ask_samples(entrypoint, OPENS)
    assert (json.loads(found.answer), json.loads(whole.answer)) == (list(GIVEN), None)
    assert room.knows(takes_contexts, entrypoint) is True
    with pytest.raises(SystemUnderTestError, match="it takes none"):
        room.ask_samples(f"command:{sys.executable} rag.py {{question}}", OPENS, part="generation")


def test_a_service_is_given_contexts_in_a_field(room: Any, server: Server) -> None:
    url = f"{server.url}/ask"
    room.ask_samples(url, OPENS, part="generation")
    room.ask_samples(url, OPENS, part="generation", http={"given_contexts_field": "input.passages"})
    room.ask_samples(url, OPENS)
    bodies = [body for _, _, body in server.seen]
    assert bodies[0]["contexts"] == list(GIVEN)
    assert bodies[1]["input"] == {"passages": list(GIVEN)}
    assert "contexts" not in bodies[2]


def test_recorded_answers_without_contexts_have_those_that_were_given(room: Any) -> None:
    room.write("outputs.jsonl", '{"id": "opens", "answer": "At nine."}\n')
    (found,) = room.ask_samples("file:outputs.jsonl", OPENS, part="generation")
    assert (found.answer, [one.text for one in found.contexts]) == ("At nine.", list(GIVEN))


def test_contexts_that_a_system_returns_are_its_own(room: Any) -> None:
    room.app("def answer(question, contexts=None): return 'At nine.', contexts[:1]\n")
    (found,) = room.ask_samples("python:app:answer", OPENS, part="generation")
    assert [one.text for one in found.contexts] == [GIVEN[0]]


@pytest.mark.parametrize(
    ("returned", "wanted"),
    [
        (["It opens at nine."], False),
        (["opens  at NINE."], False),
        (["Intro. It opens at nine. More."], False),
        ([], False),
        (["It opens at ten."], True),
        (["It opens at nine.", "It is blue."], True),
        ([" "], False),
    ],
)
def test_other_contexts_than_those_that_were_given_are_noticed(returned: list[str], wanted: bool) -> None:
    assert ignores(GIVEN, Response("opens", "x", tuple(map(Context, returned)))) is wanted


# -- a system that only retrieves --------------------------------------------------------------------------------------

RETURNS = [
    ["one", "two"],
    ("one", "two"),
    {"contexts": ["one", "two"]},
    {"answer": None, "documents": [{"page_content": "one"}, {"content": "two"}]},
    {"answer": "ignored", "contexts": ["one", "two"]},
    ("ignored", ["one", "two"]),
    iter(("one", "two")),
    [({"text": "one"}, 0.5), ({"text": "two"}, 0.25)],
]
ONLY_RETRIEVES = fields.Fields(contexts_only=True)


@pytest.mark.parametrize("returned", RETURNS)
def test_a_retriever_returns_contexts_without_an_answer(returned: object) -> None:
    found = read("opens", returned, None, fields=ONLY_RETRIEVES)
    assert (found.failure, found.answer, [one.text for one in found.contexts]) == (None, "", ["one", "two"])


def test_an_empty_list_is_a_retriever_that_found_nothing() -> None:
    found = read("opens", [], None, fields=ONLY_RETRIEVES)
    assert (found.failure, found.contexts) == (None, ())


@pytest.mark.parametrize("returned", ["an answer", None, {"answer": "It is so."}, 7, [7], map(str, itertools.count())])
def test_what_holds_no_contexts_or_endless_ones_is_a_bad_return_of_a_retriever(returned: object) -> None:
    assert failure(read("opens", returned, None, fields=ONLY_RETRIEVES)).kind is SystemFailureKind.BAD_RETURN


def test_a_reply_without_an_answer_stays_a_failure_of_a_whole_system() -> None:
    found = failure(read("opens", {"contexts": ["one"]}, None))
    assert found.kind is SystemFailureKind.BAD_RETURN
    assert 'set part = "retrieval"' in found.message


def test_retrievers_of_frameworks_are_asked_by_their_methods(room: Any) -> None:
    room.app("""
        class Node:
            def __init__(self, text): self.text, self.node_id = text, "n1"
        class Scored:
            def __init__(self, text): self.node, self.score = Node(text), 0.5
        class LikeLlamaIndex:
            def retrieve(self, question): return [Scored("one")]
            async def aretrieve(self, question): return [Scored("one")]
        class Document:
            def __init__(self, text): self.page_content, self.metadata = text, {"source": "n1"}
        class LikeLangChain:
            def invoke(self, question, config=None, **more): return [Document("one")]
        index, chain = LikeLlamaIndex(), LikeLangChain()
    """)
    for attribute in ("index", "chain"):
        (found,) = room.ask_samples(f"python:app:{attribute}", OPENS, part="retrieval")
        assert (found.failure, [(one.text, one.id) for one in found.contexts]) == (None, [("one", "n1")])


def test_commands_services_and_files_may_only_retrieve(room: Any, server: Server) -> None:
    room.write(
        "rag.py",
        "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({'contexts': ['one', 'two']}), flush=True)\n",
    )
    room.write("once.py", 'print(\'["one", "two"]\')\n')
    room.write("outputs.jsonl", '{"id": "opens", "contexts": ["one", "two"]}\n')
    entrypoints = (
        f"command:{sys.executable} rag.py",
        f"command:{sys.executable} once.py {{question}}",
        "file:outputs.jsonl",
    )
    for entrypoint in entrypoints:
        (found,) = room.ask_samples(entrypoint, OPENS, part="retrieval")
        assert (found.failure, [one.text for one in found.contexts]) == (None, ["one", "two"]), entrypoint
    server.reply = lambda _path, _body: (200, {}, json.dumps({"hits": [{"body": "one"}, {"body": "two"}]}).encode())
    fields = {"contexts_field": "hits", "context_text_field": "body"}
    (found,) = room.ask_samples(f"{server.url}/ask", OPENS, part="retrieval", **fields)
    assert (found.failure, [one.text for one in found.contexts]) == (None, ["one", "two"])
    stream = [b'data: {"contexts": ["one", "two"]}\n\n', b"data: [DONE]\n\n"]
    server.reply = lambda _path, _body: (200, {"Content-Type": "text/event-stream"}, stream)
    (found,) = room.ask_samples(f"{server.url}/ask", OPENS, part="retrieval")
    assert (found.failure, [one.text for one in found.contexts]) == (None, ["one", "two"])
