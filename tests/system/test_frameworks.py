"""The real objects of LangChain and LlamaIndex, asked through `worker.py` (dependency group `integrations`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ragstone.golden.sample import Sample
from ragstone.system.in_process import CallableSystem
from ragstone.system.payload import read
from ragstone.system.response import Context, Response, Retrieval, ToolCall
from ragstone.system.worker import returns

pytestmark = [
    pytest.mark.integrations,
    # Neither library is clean of warnings of its own.
    pytest.mark.filterwarnings("ignore"),
]


def asked(target: object, question: str = "What?") -> Response:
    """The response of `target`, asked in this process by the worker's own rules."""

    async def scenario() -> Response:
        system = CallableSystem(target)
        await system.start()
        return await system.ask(Sample("a", question))

    return asyncio.run(scenario())


@pytest.fixture
def documents() -> list[Any]:
    from langchain_core.documents import Document

    return [Document(page_content="one", metadata={"source": "a.md"}), Document(page_content="two", id="d2")]


def test_runnables_that_return_answer_and_documents_also_with_scores(documents: list[Any]) -> None:
    from langchain_core.runnables import RunnableLambda

    response = asked(RunnableLambda(lambda question: {"answer": question, "context": documents}))
    assert response.answer == "What?"
    assert [(c.text, c.id) for c in response.contexts] == [("one", "a.md"), ("two", "d2")]

    found = returns.normalise({"answer": "a", "documents": [(documents[0], 0.25)]})
    assert found["contexts"] == [{"text": "one", "id": "a.md", "score": 0.25}]


@pytest.mark.parametrize("wants", ["question by name", "input by name", "bare question"])
def test_chains_take_the_question_as_they_want_it(documents: list[Any], wants: str) -> None:
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableParallel, RunnablePassthrough

    model = FakeListChatModel(responses=["the answer"])
    if wants == "question by name":
        chain: Any = ChatPromptTemplate.from_template("Q: {question}") | model
    elif wants == "input by name":
        generate = ChatPromptTemplate.from_template("{context} {input}") | model | StrOutputParser()
        chain = RunnablePassthrough.assign(context=lambda _: documents).assign(answer=generate)
    else:
        generate = ChatPromptTemplate.from_template("{context} {question}") | model | StrOutputParser()
        first = RunnableParallel(context=lambda _: documents, question=RunnablePassthrough())
        chain = first | RunnablePassthrough.assign(answer=generate)
    response = asked(chain)
    assert response.answer == "the answer"
    assert [c.text for c in response.contexts] == ([] if wants == "question by name" else ["one", "two"])


def test_the_messages_of_an_agent_are_steps_and_have_usage(documents: list[Any]) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    calls = [
        {"name": "search", "args": {"query": "lamps"}, "id": "1"},
        {"name": "order", "args": {"order_id": 7}, "id": "2"},
        {"name": "order", "args": {"order_id": 8}, "id": "3"},
    ]
    messages = [
        HumanMessage("May I return order 7?"),
        AIMessage("", tool_calls=calls),
        ToolMessage("one, two", tool_call_id="1", artifact=documents),
        ToolMessage('{"item": "lamp"}', tool_call_id="2"),
        ToolMessage("no such order", tool_call_id="3", status="error"),
        AIMessage("Yes."),
    ]
    response = read("a", {"messages": messages}, None)
    assert response.steps == (
        Retrieval("lamps", (Context("one", "a.md"), Context("two", "d2")), "search"),
        ToolCall("order", {"order_id": 7}, '{"item": "lamp"}'),
        ToolCall("order", {"order_id": 8}, None, "no such order"),
    )
    assert [context.id for context in response.contexts] == ["a.md", "d2", "tool:order"]
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    found = returns.normalise(AIMessage(content=[{"type": "text", "text": "hello"}], usage_metadata=usage))
    assert (found["answer"], found["usage"]) == ("hello", {"input_tokens": 3, "output_tokens": 4})


@pytest.fixture
def engine() -> Callable[..., Any]:
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Retriever(BaseRetriever):  # type: ignore[misc]
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(text="node text", id_="n1"), score=0.75)]

    return lambda **options: RetrieverQueryEngine.from_args(Retriever(), llm=MockLLM(max_tokens=3), **options)


@pytest.mark.parametrize("options", [{}, {"use_async": True}], ids=str)
def test_a_query_engine(engine: Callable[..., Any], options: dict[str, bool]) -> None:
    response = asked(engine(**options))
    assert (response.failure, response.answer) == (None, "text text text")
    assert [(c.text, c.id, c.score) for c in response.contexts] == [("node text", "n1", 0.75)]


def test_a_response_object_and_its_serialised_nodes() -> None:
    from llama_index.core.base.response.schema import Response as LlamaResponse
    from llama_index.core.schema import NodeWithScore, TextNode

    node = NodeWithScore(node=TextNode(text="node text", id_="n1"), score=0.5)
    expected = [{"text": "node text", "id": "n1", "score": 0.5}]
    assert returns.normalise(LlamaResponse(response="a", source_nodes=[node]))["contexts"] == expected
    assert returns.normalise({"response": "a", "source_nodes": [node.to_dict()]})["contexts"] == expected
