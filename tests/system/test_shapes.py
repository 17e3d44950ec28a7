"""What may be asked: every shape of entrypoint, by the rules that workers and callables share."""

from __future__ import annotations

import asyncio
import functools
import inspect
from types import SimpleNamespace as Some
from typing import Any

import pytest

from ragstone.errors import SystemUnderTestError
from ragstone.system.payload import read
from ragstone.system.response import Context
from ragstone.system.worker import adapters, fields, streams


def made(**members: Any) -> Any:
    """An object of a class with these members."""
    return type("Made", (), members)()


def got(question: str) -> str:
    return "got " + question


async def got_later(question: str, k: int = 3) -> str:
    return "got " + question


class Klass:
    def answer(self, question: str) -> str:
        return got(question)

    @staticmethod
    def static(question: str) -> str:
        return got(question)


async def async_factory() -> Klass:
    return Klass()


def by_method(self: object, question: str) -> str:
    return got(question)


async def by_async_method(self: object, question: str) -> str:
    return got(question)


def raising(error: Exception) -> Any:
    def method(self: object, question: str) -> str:
        raise error

    return method


def wants(schema: Any, key: str | None, **members: Any) -> Any:
    """A Runnable whose input is described by `schema`, and which gets the question in the field `key`."""

    def invoke(self: object, given: Any) -> str:
        return got(given if key is None else given[key])

    return made(get_input_jsonschema=lambda self: schema, invoke=invoke, **members)


def object_of(*names: str) -> dict[str, object]:
    return {"type": "object", "properties": dict.fromkeys(names)}


def streaming(text: str, *, later: bool = False) -> Any:
    async def whole(self: Any) -> str:
        return "".join(self.response_gen)

    return made(response_gen=iter(text), get_response=whole if later else lambda self: "".join(self.response_gen))


DOCUMENT = Some(content="one", id="d1", meta={}, score=0.5)


class Graph:
    """A compiled graph, whose state can't be described."""

    def __init__(self, *names: str) -> None:
        self.builder = Some(state_schema=type("State", (), {"__annotations__": dict.fromkeys(names, str)}))

    def get_input_jsonschema(self) -> Any:
        raise TypeError

    def invoke(self, state: dict[str, Any]) -> Any:
        if "question" in state:
            return {**state, "answer": got(state["question"])}
        said = state["messages"][-1]["content"]
        return {"messages": [Some(type="human", content=said), Some(type="ai", content=got(said))]}


class Predict:
    """A module of DSPy, which takes its inputs by name only."""

    signature: Any = Some(input_fields={"context": None, "question": None})

    def __call__(self, *args: Any, **inputs: str) -> Any:
        assert args == (), "by name only"
        return Some(answer=got(inputs["question"]))

    def forward(self, **inputs: str) -> None: ...


@pytest.mark.parametrize(
    "target",
    [
        got,
        got_later,
        Klass,
        Klass.static,
        Klass().answer,
        Klass(),
        lambda: Klass(),
        async_factory,
        lambda: got,
        made(query=lambda self, question: {"response": got(question)}, aquery=raising(RuntimeError("not this"))),
        made(answer=Klass, ask=by_method),
        made(aask=by_async_method),
        made(chat=lambda self, message: Some(response=got(message), sources=[])),
        made(__call__=by_method),
        made(invoke=by_method),
        made(ainvoke=by_async_method),
        made(invoke=raising(TypeError("Cannot invoke a coroutine function synchronously.")), ainvoke=by_async_method),
        made(invoke=raising(NotImplementedError()), ainvoke=by_async_method),
        made(input_keys=["query"], invoke=lambda self, given: got(given["query"])),
        made(input_keys=["query", "more"], invoke=by_method),
        wants(object_of("question", "chat_history"), "question"),
        wants(object_of("input", "chat_history"), "input"),
        wants(object_of("frage"), "frage"),
        wants(object_of("root"), None),
        wants({"type": "string"}, None),
        wants(["no schema"], None),
        Graph("question", "context"),
        Graph("messages"),
        Predict(),
        made(signature=None, predict=Predict(), forward=lambda self, **given: None, __call__=Predict.__call__),
        functools.partial(lambda prefix, question: prefix + question, "got "),
        functools.lru_cache(got),
        lambda *questions: got(*questions),
        lambda question: got_later(question),
        lambda question: streaming(got(question)),
        lambda question: streaming(got(question), later=True),
        lambda question: Some(answer=iter(["got ", question])),
    ],
)
def test_every_shape_gives_its_answer_each_time(target: object) -> None:
    with asyncio.Runner() as runner:

        def resolve(value: Any) -> Any:
            return runner.get_loop().run_until_complete(value) if inspect.isawaitable(value) else value

        asker = adapters.adapt(target, resolve)
        for question in ("a", "b"):
            value = resolve(streams.finish(resolve(asker.begin(question)), lambda: None, fields.Fields()))
            assert read("s", value, None).answer == "got " + question


def test_a_retriever_is_asked_by_its_method() -> None:
    index = made(invoke=by_method, retrieve=lambda self, question: ["for " + question])
    assert adapters.adapt(index, lambda one: one, adapters.Part("retrieval")).begin("a") == ["for a"]
    assert adapters.adapt(index, lambda one: one).begin("a") == "got a"


@pytest.mark.parametrize("twin", [None, by_async_method])
def test_an_error_of_the_users_own_is_not_taken_for_a_missing_method(twin: Any) -> None:
    faulty = made(invoke=raising(TypeError("can only concatenate str")), **({} if twin is None else {"ainvoke": twin}))
    with pytest.raises(TypeError, match="concatenate"):
        adapters.adapt(faulty, lambda one: one).begin("a")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (3, "can't be asked"),
        (lambda prefix, question: "", "(prefix, question) can't be called with one question"),
        (lambda *, question: question, "can't be called with one question"),
        (type("Rag", (), {"__init__": lambda self, index: None}), "can't be created without arguments (index)"),
        (lambda: 3, "3 (int) can't be asked"),
        (made(answer=Klass), "can't be asked"),
    ],
)
def test_what_can_not_be_asked_is_refused_in_words(target: object, says: str) -> None:
    with pytest.raises(adapters.EntrypointError) as caught:
        adapters.adapt(target, lambda made: made)
    assert says in str(caught.value)


# -- pipelines of Haystack ---------------------------------------------------------------------------------------------

TEXT = {"type": str, "is_mandatory": True}
ANY = {"type": Any, "is_mandatory": False}
OPTION = {"type": str, "is_mandatory": False}
COUNT = {"type": int, "is_mandatory": True}


class Pipeline:
    """Components, what each takes and sends, and how they are connected."""

    def __init__(self, result: Any, **nodes: tuple[dict[str, Any], list[str]]) -> None:
        self.graph = Some(
            nodes={name: {"output_sockets": dict.fromkeys(sends)} for name, (_, sends) in nodes.items()},
            edges=lambda: list(zip(nodes, list(nodes)[1:], strict=False)),
        )
        self._inputs = {name: takes for name, (takes, _) in nodes.items() if takes}
        self._result = result
        self.asked: list[Any] = []

    def inputs(self) -> Any:
        return self._inputs

    def run(self, data: Any, **options: Any) -> Any:
        self.asked.append((data, options))
        return self._result


RANKED = {"documents": [DOCUMENT]}


@pytest.mark.parametrize(
    "result",
    [
        {"llm": {"replies": ["got what?"]}, "ranker": RANKED},
        {"reader": {"answers": [Some(data="got what?", documents=[DOCUMENT])]}, "ranker": {"documents": []}},
        {"reader": {"answers": [Some(data="got what?", documents=[])]}, "ranker": RANKED},
    ],
)
def test_a_pipeline_gets_the_question_wherever_it_takes_one_and_sends_its_last_documents(result: Any) -> None:
    pipeline = Pipeline(
        result,
        retriever=({"utterance": TEXT, "top_k": COUNT, "language": OPTION}, ["documents"]),
        ranker=({"top_k": COUNT}, ["documents"]),
        prompt_builder=({"question": ANY}, ["prompt"]),
        llm=({}, ["replies"]),
    )
    response = read("s", adapters.adapt(pipeline, lambda one: one).begin("what?"), None)
    assert (response.answer, response.contexts) == ("got what?", (Context("one", "d1", 0.5),))
    data = {"retriever": {"utterance": "what?"}, "prompt_builder": {"question": "what?"}}
    assert pipeline.asked == [(data, {"include_outputs_from": {"ranker"}})]


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ({"writer": ({"policy": OPTION}, ["replies"])}, "nothing in this pipeline of writer takes a question"),
        ({"writer": ({"query": TEXT}, ["written"])}, "nothing in this pipeline of writer replies to a question"),
        ({}, "nothing in this pipeline of no components takes a question"),
    ],
)
def test_a_pipeline_that_answers_nothing_is_refused(nodes: Any, says: str) -> None:
    with pytest.raises(adapters.EntrypointError, match=says):
        adapters.adapt(Pipeline(None, **nodes), lambda one: one)


@pytest.mark.parametrize(
    ("files", "entrypoint", "says"),
    [
        ({"app.py": "def answer(q): ...\nwhile True: input()"}, "app:answer", "'app' asks for input when it is imp"),
        (
            {"sub/llm.py": "", "sub/agent.py": "import llm\ndef answer(q): ..."},
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
    (room.folder / "sub").mkdir()
    for name, source in files.items():
        room.write(name, source)
    with pytest.raises(SystemUnderTestError) as caught:
        room.ask(entrypoint, "what?")
    assert says in caught.value.message
