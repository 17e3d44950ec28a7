"""Objects in the shapes of the usual frameworks, made again in a few lines, are asked as they are."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.system.response import Context

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
    def ask(self, question): return {"answer": "got " + question, "documents": [DOCUMENT]}


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


@pytest.mark.parametrize(
    "name",
    ["pipeline", "extractive", "raw", "graph", "agent", "predict", "thought", "chat", "shop", "stream_in_an_object"],
)
def test_what_frameworks_make_is_asked_without_glue(room: Any, name: str) -> None:
    room.write("app.py", SHAPES)
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
    room.write("app.py", SHAPES)
    (response,) = room.ask(f"app:{name}", "what?", **fields)
    assert (response.failure, response.answer) == (None, "got what?")
    assert [context.text for context in response.contexts] == ["one"]


def test_a_method_is_asked_of_an_object_that_is_created_for_it(room: Any) -> None:
    room.write(
        "app.py", "class Sms:\n    def __init__(self, k=3): self.k = k\n    def ask_it(self, q): return f'{q} {self.k}'"
    )
    assert room.ask("app:Sms.ask_it", "what?")[0].answer == "what? 3"


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
    ],
)
def test_what_can_not_be_imported_says_how_it_could(room: Any, files: Any, entrypoint: str, says: str) -> None:
    from ragstone.errors import SystemUnderTestError

    (room.folder / "sub").mkdir()
    for name, source in files.items():
        room.write(f"sub/{name}" if "sub" in entrypoint else name, source)
    with pytest.raises(SystemUnderTestError) as caught:
        room.ask(entrypoint, "what?")
    assert says in caught.value.message


def test_a_graph_of_messages_gets_the_earlier_turns_too(room: Any) -> None:
    from ragstone.golden.sample import Sample, Turn

    room.write("app.py", SHAPES.replace('"got " + said[-1]', '" / ".join(said)'))
    sample = Sample("s0", "and now?", history=(Turn("user", "hi"), Turn("assistant", "hello")))
    (response,) = room.ask_samples("app:agent", sample)
    assert response.answer == "hi / hello / and now?"


def test_a_pipeline_that_only_writes_can_not_be_asked(room: Any) -> None:
    from ragstone.errors import SystemUnderTestError

    room.write("app.py", SHAPES)
    with pytest.raises(SystemUnderTestError, match="nothing in this pipeline of writer takes a question"):
        room.ask("app:indexing", "what?")


def test_a_reply_without_an_answer_names_the_setting_and_hides_what_looks_like_a_key(room: Any) -> None:
    room.write(
        "app.py",
        """
        def answer(question):
            data = {"reply": "30 days.", "trace": "a much longer text than the reply", "api_key": "sk-0123456789"}
            return {"data": data}
        """,
    )
    (response,) = room.ask("app:answer", "how long?")
    assert response.failure is not None
    assert "set answer_field = \"data.reply\" under [system] (there is text at 'data.trace' too)" in (
        response.failure.message
    )
    assert "'reply': '30 days.'" in response.failure.message
    assert "0123456789" not in response.failure.message
