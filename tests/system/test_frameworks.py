"""The real objects of LangChain and LlamaIndex, asked through `worker.py` (dependency group `integrations`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
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


@pytest.fixture
def model() -> Any:
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    return FakeListChatModel(responses=["the answer"])


class TestLangChain:
    def test_a_runnable_that_returns_answer_and_documents(self, documents: list[Any]) -> None:
        from langchain_core.runnables import RunnableLambda

        response = asked(RunnableLambda(lambda question: {"answer": question, "context": documents}))
        assert response.answer == "What?"
        assert [(c.text, c.id) for c in response.contexts] == [("one", "a.md"), ("two", "d2")]

    def test_a_prompt_and_a_model_give_a_message_and_take_the_question_by_name(self, model: Any) -> None:
        from langchain_core.prompts import ChatPromptTemplate

        chain = ChatPromptTemplate.from_template("Q: {question}") | model
        assert asked(chain).answer == "the answer"

    def test_a_retrieval_chain_that_wants_input(self, documents: list[Any], model: Any) -> None:
        from langchain_core.output_parsers import StrOutputParser
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.runnables import RunnablePassthrough

        generate = ChatPromptTemplate.from_template("{context} {input}") | model | StrOutputParser()
        chain = RunnablePassthrough.assign(context=lambda _: documents).assign(answer=generate)
        response = asked(chain)
        assert response.answer == "the answer"
        assert [c.text for c in response.contexts] == ["one", "two"]

    def test_a_parallel_chain_that_takes_the_bare_question(self, documents: list[Any], model: Any) -> None:
        from langchain_core.output_parsers import StrOutputParser
        from langchain_core.prompts import ChatPromptTemplate
        from langchain_core.runnables import RunnableParallel, RunnablePassthrough

        generate = ChatPromptTemplate.from_template("{context} {question}") | model | StrOutputParser()
        first = RunnableParallel(context=lambda _: documents, question=RunnablePassthrough())
        response = asked(first | RunnablePassthrough.assign(answer=generate))
        assert response.answer == "the answer"
        assert len(response.contexts) == 2

    def test_a_chain_with_async_steps_only(self) -> None:
        from langchain_core.runnables import RunnableLambda

        async def step(question: str) -> str:
            return "async " + question

        assert asked(RunnableLambda(step) | RunnableLambda(lambda text: {"answer": text})).answer == "async What?"

    def test_usage_and_content_blocks_of_a_message(self) -> None:
        from langchain_core.messages import AIMessage

        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        message = AIMessage(content=[{"type": "text", "text": "hello"}], usage_metadata=usage)
        found = returns.normalise(message)
        assert found["answer"] == "hello"
        assert found["usage"] == {"input_tokens": 3, "output_tokens": 4}

    def test_the_messages_of_an_agent_are_steps(self, documents: list[Any]) -> None:
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

    def test_documents_with_scores(self, documents: list[Any]) -> None:
        found = returns.normalise({"answer": "a", "documents": [(documents[0], 0.25)]})
        assert found["contexts"] == [{"text": "one", "id": "a.md", "score": 0.25}]


def query_engines() -> Iterator[tuple[str, dict[str, bool]]]:
    yield "plain", {}
    yield "streaming", {"streaming": True}
    yield "async", {"use_async": True}


class TestLlamaIndex:
    @pytest.fixture
    def engine(self) -> Callable[..., Any]:
        from llama_index.core.llms import MockLLM
        from llama_index.core.query_engine import RetrieverQueryEngine
        from llama_index.core.retrievers import BaseRetriever
        from llama_index.core.schema import NodeWithScore, TextNode

        class Retriever(BaseRetriever):  # type: ignore[misc]
            def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
                return [NodeWithScore(node=TextNode(text="node text", id_="n1"), score=0.75)]

        return lambda **options: RetrieverQueryEngine.from_args(Retriever(), llm=MockLLM(max_tokens=3), **options)

    @pytest.mark.parametrize("options", [o for _, o in query_engines()], ids=[n for n, _ in query_engines()])
    def test_a_query_engine(self, engine: Callable[..., Any], options: dict[str, bool]) -> None:
        response = asked(engine(**options))
        assert response.failure is None
        assert response.answer == "text text text"
        assert [(c.text, c.id, c.score) for c in response.contexts] == [("node text", "n1", 0.75)]

    def test_a_query_engine_with_an_async_query_only(self) -> None:
        from llama_index.core.query_engine import CustomQueryEngine

        class Engine(CustomQueryEngine):  # type: ignore[misc]
            def custom_query(self, query_str: str) -> str:
                raise NotImplementedError

            async def acustom_query(self, query_str: str) -> str:
                return "async " + query_str

        assert asked(Engine()).answer == "async What?"

    def test_a_response_object_and_its_serialised_nodes(self) -> None:
        from llama_index.core.base.response.schema import Response as LlamaResponse
        from llama_index.core.schema import NodeWithScore, TextNode

        node = NodeWithScore(node=TextNode(text="node text", id_="n1"), score=0.5)
        expected = [{"text": "node text", "id": "n1", "score": 0.5}]
        assert returns.normalise(LlamaResponse(response="a", source_nodes=[node]))["contexts"] == expected
        assert returns.normalise({"response": "a", "source_nodes": [node.to_dict()]})["contexts"] == expected
