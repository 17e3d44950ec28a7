"""What an entrypoint may return: every shape of docs/entrypoints.md, and a clear refusal of the rest."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import math
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.payload import Payload, read
from ragstone.system.response import Context
from ragstone.system.worker import fields, returns, streams, wording
from ragstone.system.worker.fields import at_path
from tests.system.service import failure


def texts(value: object) -> list[str]:
    return [context["text"] for context in returns.normalise(value)["contexts"]]


def test_a_string_is_an_answer_without_contexts() -> None:
    assert returns.normalise("yes") == {"answer": "yes", "contexts": [], "usage": None, "contexts_returned": False}


@pytest.mark.parametrize(
    ("value", "returned"),
    [("yes", False), ({"answer": "yes"}, False), ({"answer": "yes", "contexts": []}, True), (("yes", []), True)],
)
def test_no_contexts_are_not_an_empty_list_of_them(value: object, returned: bool) -> None:
    response = read("a", value, None)
    assert (response.contexts, response.contexts_returned) == ((), returned)
    assert (response.lacking is None) is returned


@pytest.mark.parametrize("name", ["answer", "response", "output", "result", "text"])
def test_the_answer_stands_under_any_of_its_names(name: str) -> None:
    assert returns.normalise({name: "yes"})["answer"] == "yes"
    assert returns.normalise(SimpleNamespace(**{name: "yes"}))["answer"] == "yes"


@pytest.mark.parametrize(
    "name",
    [
        "contexts",
        "retrieved_contexts",
        "context",
        "source_documents",
        "documents",
        "sources",
        "source_nodes",
        "retrieved_context",
        "retrieval_context",
    ],
)
def test_contexts_stand_under_any_of_their_names(name: str) -> None:
    assert texts({"answer": "a", name: ["one", "two"]}) == ["one", "two"]
    assert texts(SimpleNamespace(answer="a", **{name: ("one", "two")})) == ["one", "two"]


@pytest.mark.parametrize("name", ["text", "page_content", "content"])
def test_a_context_is_a_mapping_or_an_object_with_its_text_under_any_name(name: str) -> None:
    assert texts({"answer": "a", "contexts": [{name: "one"}, SimpleNamespace(**{name: "two"})]}) == ["one", "two"]


BY_ID = {"30": {"id": 30, "text": "one"}, "80": {"text": "two"}}


@pytest.mark.parametrize("contexts", [BY_ID, json.dumps(BY_ID)], ids=["an object", "its text"])
def test_contexts_may_stand_by_their_ids(contexts: object) -> None:
    found = returns.normalise({"answer": "a [30]", "context": contexts})["contexts"]
    assert [(context["text"], context["id"]) for context in found] == [("one", "30"), ("two", "80")]


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": {"b": "one"}}', "{", "{}", '{"text": "one"}'])
def test_one_context_may_be_any_other_json(text: str) -> None:
    assert texts({"answer": "a", "context": text}) == [text]


def test_a_node_holds_its_text_inside() -> None:
    node = SimpleNamespace(get_content=lambda: "inside", node_id="n1", metadata={})
    found = returns.normalise({"answer": "a", "source_nodes": [SimpleNamespace(node=node, score=0.5)]})
    assert found["contexts"] == [{"text": "inside", "id": "n1", "score": 0.5}]


def test_a_node_id_beside_a_text_is_not_taken_for_the_text() -> None:
    assert texts({"answer": "a", "contexts": [{"text": "the text", "node": "n17"}]}) == ["the text"]


def test_a_property_that_raises_is_a_field_that_is_not_there() -> None:
    class ImageNode:
        node = SimpleNamespace(text="from the node")

        @property
        def text(self) -> str:
            raise ValueError("not a text node")

    assert texts({"answer": "a", "contexts": [ImageNode()]}) == ["from the node"]


def test_a_document_with_a_score_beside_it_is_a_context() -> None:
    found = returns.normalise({"answer": "a", "documents": [(SimpleNamespace(page_content="one"), 0.25), ("two", 1)]})
    assert [(c["text"], c["score"]) for c in found["contexts"]] == [("one", 0.25), ("two", 1.0)]


@pytest.mark.parametrize(
    ("context", "identity"),
    [
        ({"text": "t", "id": 7}, "7"),
        ({"text": "t", "doc_id": "d"}, "d"),
        ({"text": "t", "metadata": {"source": "a.md"}}, "a.md"),
        ({"text": "t", "id": "mine", "metadata": {"source": "a.md"}}, "mine"),
        ({"text": "t", "id": True}, None),
        ({"text": "t", "id": ""}, None),
        ({"text": "t", "metadata": "none"}, None),
    ],
)
def test_a_context_may_name_its_document(context: dict[str, object], identity: str | None) -> None:
    assert returns.normalise({"answer": "a", "contexts": [context]})["contexts"][0]["id"] == identity


@pytest.mark.parametrize("score", [math.nan, math.inf, "high", True, None, object()])
def test_a_score_that_is_no_number_is_left_out(score: object) -> None:
    assert (
        returns.normalise({"answer": "a", "contexts": [{"text": "t", "score": score}]})["contexts"][0]["score"] is None
    )


def test_one_string_of_contexts_is_one_context_and_a_blank_one_is_none() -> None:
    assert texts({"answer": "a", "context": "all in one"}) == ["all in one"]
    assert texts({"answer": "a", "context": "  "}) == []


def test_pydantic_objects_are_read_by_attribute() -> None:
    class Result(BaseModel):
        result: str
        documents: list[dict[str, str]]

    assert returns.normalise(Result(result="r", documents=[{"content": "d"}]))["contexts"][0]["text"] == "d"


def test_a_chat_message_is_an_answer() -> None:
    assert returns.normalise(SimpleNamespace(content="hello"))["answer"] == "hello"
    blocks = [{"type": "text", "text": "hel"}, {"type": "image"}, "lo"]
    assert returns.normalise({"answer": SimpleNamespace(content=blocks)})["answer"] == "hello"


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 3, "output_tokens": 4},
        {"prompt_tokens": 3, "completion_tokens": 4},
        SimpleNamespace(input_tokens=3, output_tokens=4),
    ],
)
def test_token_usage_is_read_under_either_pair_of_names(usage: object) -> None:
    found = returns.normalise({"answer": "a", "usage": usage})
    assert found["usage"] == {"input_tokens": 3, "output_tokens": 4}


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": -1, "output_tokens": 1},
        {"input_tokens": 10**400, "output_tokens": 1},
        {"input_tokens": 1},
        "many",
        5,
    ],
)
def test_a_usage_that_makes_no_sense_is_left_out(usage: object) -> None:
    assert returns.normalise({"answer": "a", "usage": usage})["usage"] is None


class Frame:
    """Iterates over its column names, as data frames do."""

    def keys(self) -> list[str]:
        return ["text", "score"]

    def __iter__(self) -> Any:
        return iter(self.keys())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "None (NoneType)"),
        (42, "42 (int)"),
        (b"bytes", "bytes"),
        (["a", "b"], "(list)"),
        ({"anser": "x"}, "anser"),
        ({"answer": None}, "None"),
        ({"answer": 3}, "3 (int), which is not text"),
        ({"answer": "a", "contexts": 5}, "5 (int): it is not a list"),
        ({"answer": "a", "contexts": {"x", "y"}}, "a set has no order"),
        ({"answer": "a", "contexts": Frame()}, "(Frame): it is not a list"),
        ({"answer": "a", "contexts": ["ok", {"id": 1}]}, "Context 2 is"),
        ({"answer": "a", "contexts": [None]}, "Context 1 is None"),
        (MagicMock(), "MagicMock"),
        (object(), "object"),
    ],
)
def test_anything_else_is_refused_with_what_was_found_and_what_is_expected(value: object, says: str) -> None:
    with pytest.raises(fields.BadReturn) as caught:
        returns.normalise(value)
    assert says in str(caught.value)
    assert "Expected a string" in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_endless_contexts_are_refused() -> None:
    with pytest.raises(fields.BadReturn, match="More than 10,000"):
        returns.normalise({"answer": "a", "contexts": itertools.repeat("again")})


def test_a_value_that_can_not_be_shown_is_still_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert wording.shown(Broken()).endswith("(Broken)")
    assert wording.shown(object()) == "<object object> (object)"  # without its address, so that equals read equal
    loop: list[object] = []
    loop.append(loop)
    assert wording.shown(loop).endswith("(list)")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*(name for names in SYSTEM_NAMES.values() for name in names), "node"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.heavy
@settings(max_examples=200, deadline=None)
@given(json_values)
def test_any_json_is_an_answer_that_utf8_can_hold_or_a_bad_return(value: object) -> None:
    try:
        found = returns.normalise(value)
    except fields.BadReturn:
        return
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8")
    Payload.model_validate(found)


def test_dotted_paths_lead_through_keys_indexes_and_every_element() -> None:
    value = {"choices": [{"message": {"content": "hi"}}], "hits": [{"s": {"t": "a"}}, {"s": {"t": "b"}}], "a.b": 1}
    assert at_path(value, "choices.0.message.content") == "hi"
    assert at_path(value, "hits.*.s.t") == ["a", "b"]
    assert at_path(value, "a.b") == 1
    assert at_path(value, "choices.7.message") is None
    assert at_path("text", "0") is None
    assert at_path({"a": None}, "a", "absent") is None
    assert at_path({"a": None}, "a.b", "absent") == "absent"
    assert at_path(value, "hits.*.s.missing") == [None, None]
    assert at_path(value, "hits.1.s.t") == "b"


NAMED = {"said": "30 days.", "answer": "no", "documents": [{"body": "one", "key": 7, "score": 0.5}]}


def test_one_path_is_enough_and_the_known_names_hold_for_the_rest() -> None:
    paths = fields.Fields(answer="said", context_text="body", context_id="key")
    streamed = streams.finish(iter([NAMED, {"said": " Or more."}]), lambda: None, paths)
    for value, answer in ((NAMED, "30 days."), (streamed, "30 days. Or more.")):
        found = read("s", value, None, fields=paths)
        assert (found.answer, found.contexts) == (answer, (Context("one", "7", 0.5),))
    nothing = read("s", NAMED, None, fields=fields.Fields(contexts="hits")).failure
    assert nothing is not None
    assert "Nothing at contexts_field 'hits' in {" in nothing.message


# -- streams -----------------------------------------------------------------------------------------------------------


async def tokens(*pieces: object) -> AsyncIterator[object]:
    for piece in pieces:
        yield piece


def chunk(text: str | None) -> SimpleNamespace:
    """A chunk of a chat completion, as OpenAI's SDK streams it."""
    return SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content=text))])


def whole(value: object, on_text: Callable[[], None] = lambda: None) -> dict[str, Any]:
    async def awaited(pending: Any) -> Any:
        return await pending

    found = streams.finish(value, on_text, fields.Fields())
    return returns.normalise(asyncio.run(awaited(found)) if inspect.isawaitable(found) else found)


@pytest.mark.parametrize(
    "pieces",
    [
        ("30 ", "days."),
        (chunk("30 "), chunk("days."), chunk(None), SimpleNamespace(choices=[])),
        (SimpleNamespace(content="30 "), SimpleNamespace(content=[{"type": "text", "text": "days."}])),
        ({"answer": "30 "}, {"answer": "days."}),
    ],
    ids=["text", "completion", "message", "mapping"],
)
def test_the_pieces_of_a_stream_are_one_answer(pieces: tuple[object, ...]) -> None:
    assert whole(iter(pieces))["answer"] == "30 days."
    assert whole(piece for piece in pieces)["answer"] == "30 days."
    assert whole(tokens(*pieces))["answer"] == "30 days."


def test_a_stream_may_bring_contexts_and_usage_or_have_them_beside_it() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4}
    streamed = whole(iter([{"context": ["c1"]}, {"answer": "a"}, {"answer": "b"}, {"usage": usage}]))
    assert (streamed["answer"], [c["text"] for c in streamed["contexts"]], streamed["usage"]) == ("ab", ["c1"], usage)
    for beside in ((iter("ab"), ["c1"]), {"response": tokens("a", "b"), "sources": ["c1"]}):
        found = whole(beside)
        assert (found["answer"], [c["text"] for c in found["contexts"]]) == ("ab", ["c1"])


def test_the_first_text_of_a_stream_is_noticed_once_and_when_it_comes() -> None:
    seen: list[str] = []

    def slow() -> Iterator[object]:
        yield {"contexts": ["c"]}
        yield ""
        seen.append("before")
        yield "a"
        seen.append("after")
        yield "b"

    assert whole(slow(), lambda: seen.append("heard"))["answer"] == "ab"
    assert seen == ["before", "heard", "after"]


def test_a_stream_of_nothing_of_something_else_or_without_end_is_refused() -> None:
    with pytest.raises(fields.BadReturn, match="ended without a piece"):
        whole(iter(()))
    with pytest.raises(fields.BadReturn, match=r"Piece 2 of the stream is 7 \(int\)"):
        whole(iter(["a", 7]))
    with pytest.raises(fields.BadReturn, match="more than 1,000,000 characters"):
        whole(itertools.repeat("x" * 10_000))


@pytest.mark.parametrize("contexts", [["one", {"text": "two"}], ("one", "two"), [("one", 0.5), "two"]])
def test_an_answer_and_its_contexts_may_be_a_pair(contexts: object) -> None:
    assert returns.normalise(("yes", contexts))["answer"] == "yes"
    assert texts(("yes", contexts)) == ["one", "two"]
    assert texts(("yes", None)) == []


@pytest.mark.parametrize("value", [("yes", 0.5), ("yes", ["c"], 1), (1, ["c"]), ("a", {"text": "b"}.items())])
def test_other_tuples_are_refused(value: object) -> None:
    with pytest.raises(fields.BadReturn):
        returns.normalise(value)


TRACE = {"trace_id": "a" * 32, "index_digest": "i1"}


def test_what_an_answer_says_of_its_trace_is_kept() -> None:
    assert returns.normalise({"answer": "yes", **TRACE})["trace"] == TRACE
    assert returns.normalise(SimpleNamespace(answer="yes", trace_id="a" * 32))["trace"] == {"trace_id": "a" * 32}
    assert read("q", {"answer": "yes", **TRACE}, None).extra == TRACE


@pytest.mark.parametrize("value", ["yes", {"answer": "yes"}, ("yes", ["c"]), MagicMock(answer="yes", contexts=[])])
def test_an_answer_that_says_nothing_of_its_trace_has_none(value: object) -> None:
    assert "trace" not in returns.normalise(value)


@pytest.mark.parametrize("odd", [7, "", "x" * 257, ["a"], None, b"a"])
def test_odd_ids_of_a_trace_are_left_out(odd: object) -> None:
    found = returns.normalise({"answer": "yes", "trace_id": odd, "index_digest": "i\ud800"})
    assert found["trace"] == {"index_digest": "i\ufffd"}


@pytest.mark.parametrize(
    "more",
    [
        {"trace": {"trace_id": "a" * 257}},
        {"trace": {"model": "gpt"}},
        {"trace": {"trace_id\n": "a"}},
        {"usage": {"input_tokens": 2**53, "output_tokens": 1}},
    ],
)
def test_a_worker_that_was_tampered_with_is_not_believed(more: dict[str, Any]) -> None:
    assert Payload.model_validate({"answer": "yes", "trace": {"trace_id": "a" * 256}}).trace
    with pytest.raises(ValidationError):
        Payload.model_validate({"answer": "yes", **more})


def test_a_stream_and_named_fields_keep_the_trace() -> None:
    pieces = streams.Pieces({}, lambda: None, fields.Fields())
    for piece in ("y", {"text": "es", "trace_id": "a" * 32}, {"index_digest": "i1"}):
        pieces.add(piece)
    expected = {"trace_id": "a" * 32, "index_digest": "i1"}
    assert returns.normalise(pieces.whole())["trace"] == expected
    found = returns.normalise({"data": {"said": "yes"}, **expected}, fields.Fields(answer="data.said"))
    assert (found["answer"], found["trace"]) == ("yes", expected)


@pytest.mark.parametrize(
    ("returned", "ids"),
    [
        ({"answer": "a", "contexts": [{"id": 3}, {"id": "b", "score": 0.5}]}, ["3", "b"]),
        ({"answer": "a", "contexts": [{"source": "docs/a.md", "page": 3}, {"metadata": {"source": "b.md"}}]}, None),
        ({"answer": "a", "retrieved_context_ids": [7, "b"]}, ["7", "b"]),
        ({"answer": "a", "sources": [], "doc_ids": ["a", "b"]}, ["a", "b"]),
        ({"answer": "a", "sources": ["sample_2.txt", "Annual report.pdf"]}, ["sample_2.txt", "Annual report.pdf"]),
        (("a", ["docs/a.md", "docs/b.md"]), ["docs/a.md", "docs/b.md"]),
    ],
)
def test_documents_that_are_only_named_are_contexts_without_a_text(returned: object, ids: list[str] | None) -> None:
    response = read("s", returned, None)
    assert response.failure is None
    assert [context.id for context in response.contexts] == (ids or ["docs/a.md", "b.md"])
    assert response.without_texts


def test_ids_beside_the_contexts_are_theirs() -> None:
    said = {"answer": "a", "contexts": ["One passage.", {"text": "Two.", "id": "own"}], "retrieved_context_ids": [7, 8]}
    assert [(one.text, one.id) for one in read("s", said, None).contexts] == [
        ("One passage.", "7"),
        ("Two.", "own"),
    ]


@pytest.mark.parametrize(
    "context",
    [
        {"id": 1, "snippet": "Text under a name that is not known."},
        {"id": 1, "text": None},
        {"id": 1, "page": {"words": "Some text."}},
        {},
    ],
)
def test_a_context_with_something_that_could_be_its_text_is_not_read_as_an_id(context: object) -> None:
    with pytest.raises(fields.BadReturn, match="Context 1 is"):
        returns.normalise({"answer": "a", "contexts": [context]})


def test_one_passage_among_names_makes_all_of_them_texts() -> None:
    response = read("s", {"answer": "a", "contexts": ["a.md", "A passage of text."]}, None)
    assert [(one.text, one.id) for one in response.contexts] == [("a.md", None), ("A passage of text.", None)]


class Lying(dict):  # type: ignore[type-arg]
    """A mapping whose keys never end, and which fails when it is asked for one."""

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Iterator[str]:
        return (f"key{number}" for number in itertools.count())

    def get(self, key: object, default: object = None) -> object:
        raise OSError(f"api_key=sk-abcdefgh12345678 refused {key}")


class Exiting:
    @property
    def answer(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Lying(), "What was returned can't be read: OSError: api_key=***"),
        ({"answer": "a", "contexts": Lying()}, "can't be read: OSError"),
        (Exiting(), "can't be read: SystemExit: 3"),
        ({"answer": "a", "contexts": [{"id": 10**5_000, "text": "t"}]}, "can't be read: ValueError: Exceeds the limit"),
        ({"answer": "a", "contexts": (1 / 0 for _ in "x")}, "can't be read: ZeroDivisionError"),
    ],
)
def test_code_that_fails_in_what_was_returned_is_a_bad_return(value: object, says: str) -> None:
    response = read("a", value, 1.0)
    assert failure(response).kind == "bad_return"
    assert says in failure(response).message
    assert "abcdefgh" not in f"{failure(response).message}{failure(response).detail}"
    assert str(failure(response).detail).rpartition("\n")[0].split("\n")[-1] in failure(response).message


def test_a_node_in_a_node_that_never_ends_has_no_text() -> None:
    outer, inner = SimpleNamespace(), SimpleNamespace()
    outer.node, inner.node = inner, outer
    with pytest.raises(fields.BadReturn, match="no text was found"):
        returns.normalise({"answer": "a", "contexts": [outer]})


def test_a_passage_too_many_is_refused_before_the_others_are_read() -> None:
    read_so_far: list[int] = []

    def passages() -> Iterator[str]:
        for number in range(10_000):
            read_so_far.append(number)
            yield "x" * 2_000_000

    with pytest.raises(fields.BadReturn, match="at most 10,000,000 are read"):
        returns.normalise({"answer": "a", "contexts": passages()})
    assert len(read_so_far) == 6


@pytest.mark.parametrize(
    "text",
    [
        "github_pat_11ABCDEFGHIJKLMN",
        "AIzaSyA1234567890abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi",
        "postgres://shop:correct-horse@db/shop",
        "Authorization: Basic c2hvcDpob3JzZQ==",
        "{'password': 'correct-horse'}",
    ],
)
def test_what_looks_like_a_secret_is_shown_in_no_message(text: str) -> None:
    secret = wording._SECRET.search(text)
    assert secret is not None
    try:
        raise ValueError(text)
    except ValueError as error:
        said = [wording.shown(text), wording.summary(error), wording.formatted(error).rpartition("\nValueError")[2]]
    assert not [one for one in said if secret["value"] in one]
    assert all("***" in one for one in said)


def test_paths_to_texts_name_what_the_setting_can_have_and_no_secrets() -> None:
    class Reply:
        def __init__(self) -> None:
            self.said, self._hidden, self.token = "It is so.", "a longer text", "Bearer abcdefgh12345678"

        @property
        def broken(self) -> str:
            raise OSError

    value = {"a.b": "dotted", 'quo"te': "text", "items": [{"reply": "yes"}], "object": Reply(), "api_key": "k" * 20}
    assert fields.text_paths(value) == ["items.0.reply", "object.said"]
    assert all(fields.at_path(value, path) for path in fields.text_paths(value))
    assert fields.text_paths({f"key{number}": [{"x": "y"}] for number in range(10_000)})[-1] == "key19.0.x"


def test_an_error_with_an_endless_message_is_shown_in_part_and_soon() -> None:
    long = "x" * 30_000_000
    try:
        raise ValueError(f"password=correct-horse {long} at the end")
    except ValueError as error:
        said, detail = wording.summary(error), wording.formatted(error)
    assert said.startswith("ValueError: password=*** xxx")
    assert (len(said), detail[-12:]) == (300, " at the end\n")
    assert len(detail) <= 8_000
    assert "correct-horse" not in detail.partition("ValueError: ")[2]


def test_the_length_that_a_text_claims_is_not_believed() -> None:
    class Short(str):
        def __len__(self) -> int:
            return 1

    with pytest.raises(fields.BadReturn, match="at most 1,000,000 are read"):
        returns.normalise(Short("x" * 1_000_001))
