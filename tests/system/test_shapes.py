"""What may be asked: every shape of entrypoint, by the rules that workers and callables share."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace as Some
from typing import Any

import pytest

from ragstone.system.payload import read
from ragstone.system.worker import adapters


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
        made(chat=lambda self, message: Some(response=got(message), sources=[])),
        made(__call__=by_method),
        made(invoke=by_method),
        made(invoke=raising(TypeError("Cannot invoke a coroutine function synchronously.")), ainvoke=by_async_method),
        made(invoke=raising(NotImplementedError()), ainvoke=by_async_method),
        made(invoke=raising(TypeError('No synchronous function provided to "node".')), ainvoke=by_async_method),
        wants(object_of("question", "chat_history"), "question"),
        wants(object_of("input", "chat_history"), "input"),
        wants(object_of("frage"), "frage"),
        wants(object_of("root"), None),
        wants({"type": "string"}, None),
        wants(["no schema"], None),
        Graph("question", "context"),
        Graph("messages"),
        functools.partial(lambda prefix, question: prefix + question, "got "),
        functools.lru_cache(got),
        lambda *questions: got(*questions),
        lambda question: got_later(question),
    ],
)
def test_every_shape_gives_its_answer_each_time(target: object) -> None:
    with asyncio.Runner() as runner:

        def resolve(value: Any) -> Any:
            return runner.get_loop().run_until_complete(value) if inspect.isawaitable(value) else value

        asker = adapted(target, resolve)
        for question in ("a", "b"):
            value = resolve(asker.begin(question))
            assert read("s", value, None).answer == "got " + question


def adapted(target: Any, resolve: Callable[[Any], Any]) -> adapters.Asker:
    made = resolve(adapters.create(target)) if adapters.is_class_or_factory(target) else target
    return adapters.adapt(made)


def test_a_retriever_is_asked_by_its_method() -> None:
    index = made(invoke=by_method, retrieve=lambda self, question: ["for " + question])
    assert adapters.adapt(index, "retrieval").begin("a") == ["for a"]
    assert adapters.adapt(index).begin("a") == "got a"


@pytest.mark.parametrize("twin", [None, by_async_method])
def test_an_error_of_the_users_own_is_not_taken_for_a_missing_method(twin: Any) -> None:
    faulty = made(invoke=raising(TypeError("can only concatenate str")), **({} if twin is None else {"ainvoke": twin}))
    with pytest.raises(TypeError, match="concatenate"):
        adapters.adapt(faulty).begin("a")


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
        adapted(target, lambda made: made)
    assert says in str(caught.value)
