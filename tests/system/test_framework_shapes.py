"""Objects in the shapes of the usual frameworks, made again in a few lines, are asked as they are."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Message, Sample
from ragstone.system.payload import read
from ragstone.system.response import Context
from tests.system.service import failure

SHAPES = """
import dataclasses
from types import SimpleNamespace as Some


class Pipeline:
    '''Components, what each takes and sends, and how they are connected.'''

    def __init__(self, nodes, edges, result):
        self.graph = Some(
            nodes={name: {"output_sockets": dict.fromkeys(sends)} for name, (_, sends) in nodes.items()},
            edges=lambda: edges,
        )
        self._inputs = {name: takes for name, (takes, _) in nodes.items() if takes}
        self._result = result

    def inputs(self):
        return self._inputs

    def run(self, data, include_outputs_from=()):
        assert set(data) == {"retriever", "prompt_builder"}, data
        assert set(include_outputs_from) == {"ranker"}, include_outputs_from
        return self._result(data["retriever"]["query"], data["prompt_builder"]["question"])


TEXT = {"type": str, "is_mandatory": True}
OPTION = {"type": int, "is_mandatory": False}
NODES = {
    "retriever": ({"query": TEXT, "top_k": OPTION}, ["documents"]),
    "ranker": ({"top_k": OPTION}, ["documents"]),
    "prompt_builder": ({"question": {"type": __import__("typing").Any, "is_mandatory": False}}, ["prompt"]),
    "llm": ({}, ["replies", "meta"]),
}
EDGES = [("retriever", "ranker"), ("ranker", "prompt_builder"), ("prompt_builder", "llm")]
DOCUMENT = Some(content="one", id="d1", meta={}, score=0.5)
pipeline = Pipeline(
    NODES, EDGES, lambda query, question: {"llm": {"replies": ["got " + question]}, "ranker": {"documents": [DOCUMENT]}}
)
extractive = Pipeline(
    NODES,
    EDGES,
    lambda query, question: {"reader": {"answers": [Some(data="got " + query, documents=[DOCUMENT])]}},
)
indexing = Pipeline({"writer": ({"policy": OPTION}, ["documents_written"])}, [], None)


def raw(question):
    return pipeline.run({"retriever": {"query": question}, "prompt_builder": {"question": question}}, ["ranker"])


class State(dict):
    question: str


class Graph:
    '''A compiled graph whose state has a question, or only messages.'''

    def __init__(self, fields):
        self.builder = Some(state_schema=type("State", (), {"__annotations__": fields}))

    def get_input_jsonschema(self):
        raise TypeError("a state that can't be described")

    def invoke(self, state):
        if "question" in state:
            return {**state, "context": [DOCUMENT], "answer": "got " + state["question"]}
        said = [turn["content"] for turn in state["messages"]]
        return {"messages": [
            Some(type="human", content=said[-1]),
            Some(type="ai", content=""),
            Some(type="tool", content="one", artifact=[DOCUMENT]),
            Some(type="ai", content="got " + said[-1]),
        ]}


graph, agent = Graph({"question": str, "context": list}), Graph({"messages": list})


class Predict:
    '''A module that takes its inputs by name only.'''

    signature = Some(input_fields={"context": None, "question": None})

    def __call__(self, *args, **inputs):
        assert not args, "by name only"
        return self.forward(**inputs)

    def forward(self, **inputs):
        return Some(answer="got " + inputs["question"], context=[DOCUMENT])


class ChainOfThought(Predict):
    signature = None
    predict = Predict()


predict, thought = Predict(), ChainOfThought()


class Chat:
    def chat(self, message):
        tool = Some(content="[NodeWithScore(…)]")
        return Some(response="got " + message, sources=[tool], source_nodes=[Some(node=Some(
            get_content=lambda: "one", node_id="d1"), score=0.5)])


class Shop:
    def __init__(self, name="got "): self.name = name
    def ask(self, question): return {"answer": self.name + question, "documents": [DOCUMENT]}


chat, shop = Chat(), Shop()


@dataclasses.dataclass
class Reply:
    said: object
    hits: list


def words(question):
    yield "got "
    yield question


def stream_in_an_object(question):
    return Some(answer=words(question), documents=[DOCUMENT])


def stream_at_a_path(question):
    return {"data": Reply(words(question), [DOCUMENT])}


def stream_beside_named_contexts(question):
    return {"answer": words(question), "data": {"hits": [DOCUMENT]}}


def nodes(question):
    return {"data": Reply("got " + question, [Some(node=Some(text="one"))])}
"""


FRAMEWORKS = ["pipeline", "extractive", "raw", "graph", "agent", "predict", "thought", "chat"]


@pytest.mark.parametrize("name", [*FRAMEWORKS, "shop", "Shop.ask", "stream_in_an_object"])
def test_what_frameworks_make_is_asked_without_glue(room: Any, name: str) -> None:
    room.app(SHAPES)
    (response,) = room.ask(f"app:{name}", "what?")
    assert (response.failure, response.answer) == (None, "got what?")
    assert response.contexts == (Context("one", "d1", 0.5),)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("stream_at_a_path", {"answer_field": "data.said", "contexts_field": "data.hits"}),
        ("stream_beside_named_contexts", {"contexts_field": "data.hits"}),
        ("nodes", {"answer_field": "data.said", "contexts_field": "data.hits[].node.text"}),
        ("nodes", {"answer_field": "data.said", "contexts_field": "data.hits[0]"}),
    ],
)
def test_a_path_leads_to_a_stream_and_through_objects(room: Any, name: str, fields: dict[str, str]) -> None:
    room.app(SHAPES)
    (response,) = room.ask(f"app:{name}", "what?", **fields)
    assert (response.failure, response.answer) == (None, "got what?")
    assert [context.text for context in response.contexts] == ["one"]


@pytest.mark.parametrize(
    ("files", "entrypoint", "says"),
    [
        (
            {"app.py": "def answer(q): ...\nwhile True: input()"},
            "app:answer",
            "'app' asks for input when it is imported",
        ),
        (
            {"llm.py": "", "agent.py": "import llm\ndef answer(q): ..."},
            "sub.agent:answer",
            "'sub.agent' imports 'llm', which is beside it: name the file, sub",
        ),
        (
            {"app.py": "class Sms:\n    def __init__(self, k): ...\n    def ask(self, q): ..."},
            "app:Sms.ask",
            "arguments (k)",
        ),
        ({"app.py": SHAPES}, "app:indexing", "nothing in this pipeline of writer takes a question"),
    ],
)
def test_what_can_not_be_imported_says_how_it_could(room: Any, files: Any, entrypoint: str, says: str) -> None:
    (room.folder / "sub").mkdir()
    for name, source in files.items():
        room.write(f"sub/{name}" if "sub" in entrypoint else name, source)
    with pytest.raises(SystemUnderTestError) as caught:
        room.ask(entrypoint, "what?")
    assert says in caught.value.message


def test_a_graph_of_messages_gets_the_earlier_turns_too(room: Any) -> None:
    room.app(SHAPES.replace('"got " + said[-1]', '" / ".join(said)'))
    sample = Sample("s0", "and now?", history=(Message("user", "hi"), Message("assistant", "hello")))
    (response,) = room.ask_samples("app:agent", sample)
    assert response.answer == "hi / hello / and now?"


def test_a_reply_without_an_answer_names_the_setting_and_hides_what_looks_like_a_key() -> None:
    data = {"reply": "30 days.", "trace": "a much longer text than the reply", "api_key": "sk-0123456789"}
    found = failure(read("s0", {"data": data}, None))
    assert 'set answer_field = "data.reply" under [system]' in found.message
    assert "at 'data.trace' too" in found.message
    assert "'reply': '30 days.'" in found.message
    assert "0123456789" not in found.message
