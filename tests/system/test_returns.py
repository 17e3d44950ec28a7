"""What an entrypoint may return: every shape of docs/entrypoints.md, and a clear refusal of the rest."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace as Some
from typing import Any
from unittest.mock import MagicMock

import pytest

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.payload import read
from ragstone.system.response import Context, SystemFailureKind
from ragstone.system.worker import fields, returns, wording
from ragstone.system.worker.fields import at_path
from tests.system.service import failure

Read = tuple[str, str | None, float | None]
"""The text, the id and the score of a context."""


def contexts_of(value: object) -> list[Read]:
    return [(one["text"], one["id"], one["score"]) for one in returns.normalise(value)["contexts"]]


def texts(value: object) -> list[str]:
    return [text for text, _, _ in contexts_of(value)]


# -- the answer --------------------------------------------------------------------------------------------------------


def test_a_string_is_an_answer_without_contexts() -> None:
    assert returns.normalise("yes") == {"answer": "yes", "usage": None, "steps": []}


@pytest.mark.parametrize(
    ("value", "returned"),
    [("yes", False), ({"answer": "yes"}, False), ({"answer": "yes", "contexts": []}, True), (("yes", []), True)],
)
def test_no_contexts_are_not_an_empty_list_of_them(value: object, returned: bool) -> None:
    response = read("a", value, None)
    assert (response.contexts, response.contexts_returned) == ((), returned)
    assert (response.missing_texts_reason is None) is returned


MESSAGES = [{"role": "user", "content": "no"}, {"content": "from the graph"}]


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"response": "yes"}, "yes"),
        (Some(output="yes"), "yes"),
        (Some(content="hello"), "hello"),
        ({"answer": Some(content=[{"type": "text", "text": "hel"}, {"type": "image"}, "lo"])}, "hello"),
        ({"messages": MESSAGES}, "from the graph"),
        ({"answer": "its own", "messages": MESSAGES}, "its own"),
        (("yes", None), "yes"),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
)
def test_an_answer_is_found(value: object, answer: str) -> None:
    assert returns.normalise(value)["answer"] == answer


@pytest.mark.parametrize("name", [*SYSTEM_NAMES["answer"], *SYSTEM_NAMES["contexts"]])
def test_the_parts_of_an_answer_stand_under_any_of_their_names(name: str) -> None:
    if name in SYSTEM_NAMES["answer"]:
        assert returns.normalise(Some(**{name: "yes"}))["answer"] == "yes"
    else:
        assert texts({"answer": "a", name: ["one", "two"]}) == ["one", "two"]


NO_PAIRS = [None, ("one", "two"), ["one", 0.5], ("one", 0.5, "x")]
WITHOUT_TEXT = [{"id": 1, "snippet": "Text."}, {"id": 1, "text": None}, {"id": 1, "page": {"words": "Text."}}, {}]


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
        (b"bytes", "bytes"),
        (["yes", ["c"]], "(list)"),
        (("yes", 0.5), "(tuple)"),
        (("yes", ["c"], 1), "(tuple)"),
        ((1, ["c"]), "(tuple)"),
        (("a", {"text": "b"}.items()), "(tuple)"),
        ({"anser": "x"}, "anser"),
        ({"answer": 3}, "3 (int), which is not text"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"answer": "a", "contexts": 5}, "5 (int), which is not a list"),
        ({"answer": "a", "contexts": b"x"}, "b'x' (bytes), which is not a list"),
        ({"answer": "a", "contexts": {"x", "y"}}, "(set), which is not a list"),
        ({"answer": "a", "contexts": Frame()}, "(Frame), which is not a list"),
        ({"answer": "a", "contexts": {"a": 1}}, "Context 1 is {'a': 1}"),
        ({"answer": "a", "contexts": ["ok", {"text": ""}, {"id": 1}]}, "Context 3 is"),
        *(({"answer": "a", "contexts": [item]}, f"Context 1 is {item!r}") for item in (*NO_PAIRS, *WITHOUT_TEXT)),
        (MagicMock(), "MagicMock"),
    ],
)
def test_anything_else_is_refused_with_what_was_found_and_what_is_expected(value: object, says: str) -> None:
    with pytest.raises(fields.BadReturn) as caught:
        returns.normalise(value)
    assert says in str(caught.value)
    assert "Expected a string" in str(caught.value)
    assert len(str(caught.value)) < 1_000


async def later() -> AsyncIterator[str]:
    yield "yes"


@pytest.mark.parametrize("value", [iter("yes"), {"answer": iter("yes")}, later(), {"answer": later()}])
def test_a_stream_is_refused_with_what_to_return_in_its_place(value: object) -> None:
    with pytest.raises(fields.BadReturn, match=r"a stream\. Join its pieces"):
        returns.normalise(value)


@pytest.mark.parametrize(("value", "proposed"), [(["a"], True), ([], True), ({"contexts": ["a"]}, True), ({}, False)])
def test_what_could_be_contexts_alone_is_told_of_the_setting_for_a_retriever(value: object, proposed: bool) -> None:
    assert ('set part = "retrieval"' in failure(read("a", value, None)).message) is proposed


# -- contexts ----------------------------------------------------------------------------------------------------------

NODE = Some(text="inside", node_id="n1", metadata={})


class ImageNode:
    node = Some(text="from the node")

    @property
    def text(self) -> str:
        raise ValueError("not a text node")


@pytest.mark.parametrize(
    ("contexts", "found"),
    [
        (("one", "two"), [("one", None, None), ("two", None, None)]),
        ("all in one", [("all in one", None, None)]),
        ("  ", []),
        (Some(page_content="one"), [("one", None, None)]),
        *((text, [(text, None, None)]) for text in ('{"a": 1}', '{"a": {"b": "c"}}', "{", "{}", '{"text": "one"}')),
        ([Some(node=NODE, score=0.5)], [("inside", "n1", 0.5)]),
        ([{"text": "the text", "node": "n17"}], [("the text", None, None)]),
        ([ImageNode()], [("from the node", None, None)]),
        ([(Some(page_content="one"), 0.25), ("two", 1)], [("one", None, 0.25), ("two", None, 1.0)]),
        ([({"text": "one", "score": 0.75}, 0.25)], [("one", None, 0.25)]),
    ],
)
def test_contexts_come_in_many_shapes(contexts: object, found: list[Read]) -> None:
    assert contexts_of({"answer": "a", "contexts": contexts}) == found


def test_a_context_may_name_its_document() -> None:
    metadata = {"source": "a.md"}
    named: list[dict[str, object]] = [{"id": 7}, {"id": 7.0}, {"doc_id": "d"}, {"node": {"id": "n"}}]
    named += [{"metadata": metadata}, {"id": "mine", "metadata": metadata}]
    unnamed: list[dict[str, object]] = [{"id": 7.5}, {"id": True}, {"id": " "}, {"metadata": "none"}]
    found = contexts_of({"answer": "a", "contexts": [{"text": "t", **one} for one in (*named, *unnamed)]})
    assert [identity for _, identity, _ in found] == ["7", "7", "d", "n", "a.md", "mine", None, None, None, None]


def test_a_score_that_is_no_number_is_left_out() -> None:
    contexts = [{"text": "t", "score": score} for score in (math.nan, math.inf, "high", True, object())]
    assert contexts_of({"answer": "a", "contexts": contexts}) == [("t", None, None)] * 5


@pytest.mark.parametrize(
    ("returned", "ids"),
    [
        ({"answer": "a", "contexts": [{"id": 3}, {"id": "b", "score": 0.5}]}, ["3", "b"]),
        ({"answer": "a", "contexts": [{"source": "docs/a.md", "page": 3}]}, ["docs/a.md"]),
        (
            {"answer": "a", "contexts": [{"title": "All terms"}, {"metadata": {"title": "B"}}]},
            ["All terms", "B"],
        ),
        ({"answer": "a", "sources": ["sample_2.txt", "Annual report.pdf"]}, ["sample_2.txt", "Annual report.pdf"]),
        (("a", ["docs/a.md", "docs/b.md"]), ["docs/a.md", "docs/b.md"]),
    ],
)
def test_documents_that_are_only_named_are_contexts_without_a_text(returned: object, ids: list[str]) -> None:
    response = read("s", returned, None)
    assert response.failure is None
    assert [context.id for context in response.contexts] == ids
    assert response.lacks_texts


@pytest.mark.parametrize(
    "contexts", [["a.md", "A passage of text."], [{"text": "a.md", "id": "a.md"}, {"text": "A passage.", "id": "x"}]]
)
def test_one_passage_among_names_makes_all_of_them_texts(contexts: list[Any]) -> None:
    assert not any(one.text == "" for one in read("s", {"answer": "a", "contexts": contexts}, None).contexts)


def test_contexts_are_bounded_in_number_and_in_characters() -> None:
    assert len(texts({"answer": "a", "contexts": ["c"] * 10_000})) == 10_000
    with pytest.raises(fields.BadReturn, match="More than 10,000"):
        returns.normalise({"answer": "a", "contexts": itertools.repeat("again")})
    answer = "a" * 1_000_000
    assert len(texts({"answer": answer, "contexts": ["x" * 8_999_996]})) == 1  # and no steps are "[]", counted twice
    with pytest.raises(fields.BadReturn, match="at most 10,000,000 are read"):
        returns.normalise({"answer": answer, "contexts": ["x" * 8_999_997]})


def test_a_passage_too_many_is_refused_before_the_others_are_read() -> None:
    read_so_far: list[int] = []

    def passages() -> Iterator[str]:
        for number in range(10_000):
            read_so_far.append(number)
            yield "x" * 2_000_000

    with pytest.raises(fields.BadReturn, match="at most 10,000,000 are read"):
        returns.normalise({"answer": "a", "contexts": passages()})
    assert len(read_so_far) == 6


def test_a_node_in_a_node_that_never_ends_has_no_text() -> None:
    outer, inner = Some(), Some()
    outer.node, inner.node = inner, outer
    with pytest.raises(fields.BadReturn, match="no text was found"):
        returns.normalise({"answer": "a", "contexts": [outer]})


# -- contexts alone ----------------------------------------------------------------------------------------------------

RETURNS = [
    ["one", "two"],
    {"answer": None, "documents": [{"page_content": "one"}, {"content": "two"}]},
    {"answer": "ignored", "contexts": ["one", "two"]},
    ("ignored", ["one", "two"]),
    [({"text": "one"}, 0.5), ({"text": "two"}, 0.25)],
]
ONLY_RETRIEVES = fields.Fields(contexts_only=True)


@pytest.mark.parametrize("returned", RETURNS)
def test_a_retriever_returns_contexts_without_an_answer(returned: object) -> None:
    found = read("opens", returned, None, fields=ONLY_RETRIEVES)
    assert (found.failure, found.answer, [one.text for one in found.contexts]) == (None, "", ["one", "two"])
    nothing = read("opens", [], None, fields=ONLY_RETRIEVES)
    assert (nothing.failure, nothing.contexts) == (None, ())


@pytest.mark.parametrize("returned", ["an answer", None, {"answer": "It is so."}, 7, [7], map(str, itertools.count())])
def test_what_holds_no_contexts_or_endless_ones_is_a_bad_return_of_a_retriever(returned: object) -> None:
    assert failure(read("opens", returned, None, fields=ONLY_RETRIEVES)).kind is SystemFailureKind.BAD_RETURN


# -- tokens, trace, paths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 2**53 - 1}, (0, 2**53 - 1)),
        (Some(input_tokens=3, output_tokens=4), (3, 4)),
        *(({"input_tokens": odd, "output_tokens": 1}, None) for odd in (-1, 2**53, True, 0.5)),
        ({"input_tokens": 1}, None),
        ("many", None),
    ],
)
def test_token_counts_are_read_if_they_make_sense(usage: object, counts: tuple[int, int] | None) -> None:
    found = returns.normalise({"answer": "a", "usage": usage})["usage"]
    assert found == (counts and {"input_tokens": counts[0], "output_tokens": counts[1]})


TRACE = {"trace_id": "a" * 256, "index_digest": "i1"}


def test_what_an_answer_says_of_its_trace_is_kept() -> None:
    assert returns.normalise(Some(answer="yes", trace_id="a")) == {
        "answer": "yes",
        "usage": None,
        "steps": [],
        "trace_id": "a",
    }
    assert read("q", {"answer": "yes", **TRACE}, None).extra == TRACE
    found = returns.normalise({"data": {"said": "yes"}, **TRACE}, fields.Fields(answer="data.said"))
    assert found == {"answer": "yes", "usage": None, "steps": [], **TRACE}


def test_odd_ids_of_a_trace_are_left_out() -> None:
    for odd in (7, "", "x" * 257, None):
        found = read("q", {"answer": "yes", "trace_id": odd, "index_digest": "i\ud800"}, None)
        assert found.extra == {"index_digest": "i\ufffd"}
    assert read("q", MagicMock(answer="yes", contexts=[]), None).extra == {}


def test_dotted_paths_lead_through_keys_indexes_and_every_element() -> None:
    value = {"choices": [{"message": {"content": "hi"}}], "hits": [{"s": {"t": "a"}}, {"s": {"t": "b"}}], "a.b": 1}
    assert at_path(value, "choices.0.message.content") == "hi"
    assert at_path(value, "hits.*.s.t") == ["a", "b"]
    assert at_path(value, "choices.7.message") is None
    assert at_path("text", "0") is None
    assert at_path({"a": None}, "a.b", "absent") == "absent"
    assert at_path(value, "hits.*.s.missing") == [None, None]
    assert at_path(Some(data=Some(hits=[Some(node=Some(text="one"))])), "data.hits.*.node.text") == ["one"]
    assert at_path(value, "hits.last", "absent") == "absent"


NAMED = {"said": "30 days.", "answer": "no", "documents": [{"body": "one", "key": 7, "score": 0.5}]}


def test_one_path_is_enough_and_the_known_names_hold_for_the_rest() -> None:
    paths = fields.Fields(answer="said", context_text="body", context_id="key")
    found = read("s", NAMED, None, fields=paths)
    assert (found.answer, found.contexts) == ("30 days.", (Context("one", "7", 0.5),))
    nothing = failure(read("s", NAMED, None, fields=fields.Fields(contexts="hits")))
    assert "Nothing at contexts_field 'hits' in {" in nothing.message
    in_graph = read("s", {"said": "yes", "messages": MESSAGES}, None, fields=fields.Fields(answer="said"))
    assert (in_graph.answer, in_graph.contexts_returned) == ("yes", False)


# -- hostile values ----------------------------------------------------------------------------------------------------


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


def test_the_length_that_a_text_claims_is_not_believed() -> None:
    class Short(str):
        def __len__(self) -> int:
            return 1

    with pytest.raises(fields.BadReturn, match="at most 1,000,000 are read"):
        returns.normalise(Short("x" * 1_000_001))


# -- values and errors in words ----------------------------------------------------------------------------------------


def test_a_value_that_can_not_be_shown_is_still_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert wording.shown(Broken()).endswith("(Broken)")
    assert wording.shown(object()) == "<object object> (object)"  # without its address, so that equals read equal
    loop: list[object] = []
    loop.append(loop)
    assert wording.shown(loop).endswith("(list)")


@pytest.mark.parametrize(
    "text",
    [
        *("github_pat_11ABCDEFGHIJKLMN", "AIzaSyA1234567890abcdef", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.e"),
        "postgres://shop:correct-horse@db/shop",
        "Authorization: Basic c2hvcDpob3JzZQ==",
        "{'password': 'correct-horse'}",
    ],
)
def test_what_looks_like_a_secret_is_shown_in_no_message(text: str) -> None:
    secret = re.search(wording._CREDENTIAL, text)
    assert secret is not None
    try:
        raise ValueError(text)
    except ValueError as error:
        said = [wording.shown(text), wording.summary(error), wording.formatted(error).rpartition("\nValueError")[2]]
    assert not [one for one in said if secret["value"] in one]
    assert all("***" in one for one in said)


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
