"""What may be asked: every shape of entrypoint, by the rules that workers and callables share."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from ragstone.system.worker import adapters, fields, returns, streams


def function(question: str) -> str:
    return "got " + question


async def coroutine(question: str, k: int = 3) -> str:
    return "got " + question


class Klass:
    def answer(self, question: str) -> str:
        return "got " + question

    @staticmethod
    def static(question: str) -> str:
        return "got " + question


def factory() -> Klass:
    return Klass()


async def async_factory() -> Klass:
    return Klass()


def function_factory() -> Any:
    return function


class Engine:
    def query(self, question: str) -> dict[str, object]:
        return {"response": "got " + question, "source_nodes": []}

    async def aquery(self, question: str) -> str:
        raise RuntimeError("the sync one comes first")


class Runnable:
    def invoke(self, question: str) -> str:
        return "got " + question


class AsyncRunnable:
    async def ainvoke(self, question: str) -> str:
        return "got " + question


class FallsBack(AsyncRunnable):
    def invoke(self, question: str) -> str:
        raise TypeError("Cannot invoke a coroutine function synchronously.")


class NotImplementedYet(AsyncRunnable):
    def invoke(self, question: str) -> str:
        raise NotImplementedError


class CallableObject:
    def __call__(self, question: str) -> str:
        return "got " + question


class Wants:
    """A Runnable that takes a mapping."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def get_input_jsonschema(self) -> dict[str, object]:
        return {"type": "object", "properties": {field: {"type": "string"} for field in self.fields}}

    def invoke(self, given: dict[str, str]) -> str:
        ((_, question),) = given.items()
        return "got " + question


class Legacy:
    input_keys: list[str]

    def __init__(self) -> None:
        self.input_keys = ["query"]

    def invoke(self, given: dict[str, str]) -> str:
        return "got " + given["query"]


def two(prefix: str, question: str) -> str:
    return prefix + question


@functools.lru_cache
def cached(question: str) -> str:
    return "got " + question


class Stream:
    def __init__(self, text: str) -> None:
        self.response_gen = iter(text)

    def get_response(self) -> str:
        return "".join(self.response_gen)


class AsyncStream(Stream):
    async def get_response(self) -> str:  # type: ignore[override]
        return "".join(self.response_gen)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize(
    "target",
    [
        function,
        coroutine,
        Klass,
        Klass.static,
        Klass().answer,
        Klass(),
        factory,
        async_factory,
        function_factory,
        Engine(),
        Runnable(),
        AsyncRunnable(),
        FallsBack(),
        NotImplementedYet(),
        CallableObject(),
        functools.partial(two, "got "),
        cached,
        lambda *questions: function(*questions),
        lambda question: coroutine(question),
        lambda question: Stream("got " + question),
        lambda question: AsyncStream("got " + question),
        Wants("question", "chat_history"),
        Wants("input", "chat_history"),
        Wants("frage"),
        Legacy(),
    ],
)
def test_every_shape_gives_its_answer_each_time(target: object, loop: asyncio.AbstractEventLoop) -> None:
    def resolve(value: Any) -> Any:
        return loop.run_until_complete(value) if inspect.isawaitable(value) else value

    asker = adapters.adapt(target, resolve)
    for question in ("a", "b"):
        value = resolve(streams.finish(resolve(asker.begin(question)), lambda: None, fields.Fields()))
        assert returns.normalise(value)["answer"] == "got " + question


def test_a_type_error_of_the_users_own_is_not_taken_for_a_missing_method() -> None:
    class Faulty(AsyncRunnable):
        def invoke(self, question: str) -> str:
            return question + 1  # type: ignore[operator]

    with pytest.raises(TypeError, match="concatenate"):
        adapters.adapt(Faulty(), lambda made: made).begin("a")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (3, "can't be asked"),
        (two, "two(prefix, question) can't be called with one question"),
        (lambda *, question: question, "can't be called with one question"),
        (type("Rag", (), {"__init__": lambda self, index: None}), "can't be created without arguments (index)"),
        (lambda: 3, "3 (int) can't be asked"),
    ],
)
def test_what_can_not_be_asked_is_refused_in_words(target: object, says: str) -> None:
    with pytest.raises(adapters.EntrypointError) as caught:
        adapters.adapt(target, lambda made: made)
    assert says in str(caught.value)
