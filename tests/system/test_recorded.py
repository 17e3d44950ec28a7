"""file: entrypoints: recorded answers, found again without holding the file."""

from __future__ import annotations

import csv
import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.interactions import read_interactions
from ragstone.golden.load import load_golden_set
from ragstone.golden.rows import SourceFile
from ragstone.golden.sample import Message, Sample
from ragstone.system import recorded
from ragstone.system.json_records import read_records
from ragstone.system.response import Context, SystemFailureKind
from ragstone.system.worker.fields import Fields
from tests.system.service import failure, kinds


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize("shape", ["lines", "list"])
def test_records_are_matched_by_id_or_by_question_where_there_is_none(room: Any, shape: str) -> None:
    values = [
        {"id": "s1", "question": "other words", "answer": "by id", "contexts": [{"text": "c", "id": "d"}]},
        {"question": "what  is\n it?", "answer": "by question", "latency_s": 0.25},
        {"query": "asked as query", "response": "é 𝔘"},
        {"id": 3, "output": "a numeric id"},
    ]
    room.write("out.json", lines(*values) if shape == "lines" else json.dumps(values, indent=2))
    found = room.ask_samples(
        "file:out.json",
        Sample("s1", "x"),
        Sample("s2", " what is it? "),
        Sample("s9", "asked as query"),
        Sample("3", "y"),
    )
    assert [r.answer for r in found] == ["by id", "by question", "é 𝔘", "a numeric id"]
    assert found[0].contexts == (Context("c", "d"),)
    assert [r.latency_s for r in found] == [None, 0.25, None, None]


def test_a_record_with_an_id_of_its_own_is_matched_by_a_question_that_no_other_has(room: Any) -> None:
    trace = {"id": "trace-1", "question": "q", "answer": "a"}
    room.write("out.jsonl", lines(trace))
    asked = Sample("s0", "q"), Sample("s1", "q", history=(Message("user", "Before?"),)), Sample("s2", "r")
    responses = room.ask_samples("file:out.jsonl", *asked)
    assert kinds(responses) == ["answered", "missing", "missing"]
    assert "out.jsonl has the id or the question of this sample" in responses[2].failure.message
    room.write("out.jsonl", lines(trace, {**trace, "id": "trace-2"}))
    assert kinds(room.ask_samples("file:out.jsonl", asked[0])) == ["missing"]


QUESTION = "How long?"
DOCUMENT = {"page_content": "The guarantee.", "metadata": {"source": "a.md"}}
SPAN_DOCUMENT = {"document.content": "The guarantee.", "document.id": "a.md", "document.score": 0.5}


@pytest.mark.parametrize(
    "row",
    [
        {"inputs": {"question": QUESTION}, "outputs": {"answer": "said", "documents": [DOCUMENT]}},
        {"inputs.question": QUESTION, "outputs.answer": "said", "outputs.documents": [DOCUMENT], "id": "run-1"},
        {"id": "trace-1", "input": {"question": QUESTION}, "output": {"answer": "said", "contexts": [DOCUMENT]}},
        {
            "inputs": {"question": QUESTION},
            "outputs": {"response": "said", "retrieved_context": [{"content": "The guarantee.", "doc_uri": "a.md"}]},
        },
        {
            "context.span_id": "ab",
            "attributes.input.value": QUESTION,
            "attributes.output.value": "said",
            "attributes.retrieval.documents": [SPAN_DOCUMENT],
        },
    ],
    ids=["LangSmith", "LangSmith's data frame", "Langfuse", "MLflow", "Phoenix"],
)
@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_the_exports_of_other_tools_are_answers(room: Any, row: dict[str, Any], ending: str) -> None:
    row = {**row, "reference_outputs": {"answer": "right"}}
    if ending == "jsonl":
        room.write("out.jsonl", lines(row))
    else:
        with (room.folder / "out.csv").open("w", newline="", encoding="utf-8") as stream:
            cells = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
            csv.writer(stream).writerows([row, cells])
    (response,) = room.ask_samples(f"file:out.{ending}", Sample("s1", QUESTION))
    assert response.answer == "said"
    assert [(context.id, context.text) for context in response.contexts] == [("a.md", "The guarantee.")]


def test_recorded_failures_and_bad_records_cost_their_own_sample(room: Any) -> None:
    values = [
        {"id": "s0", "answer": "fine", "latency_s": -1},
        {"id": "s1", "error": "ValueError: no index", "latency_s": 2},
        {"id": "s2", "anser": "typo"},
        {"id": "s4", "answer": "fine", "latency_s": "fast"},
    ]
    room.write("out.jsonl", lines(*values))
    responses = room.ask("file:out.jsonl", *"abcde")
    assert kinds(responses) == ["answered", "raised", "bad_return", "missing", "answered"]
    assert responses[1].failure.message == "out.jsonl:2: ValueError: no index"
    assert responses[2].failure.message.startswith("out.jsonl:3: Returned {")
    assert [r.latency_s for r in responses] == [None, 2.0, None, None, None]


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("", "file:out.jsonl", "contains no recorded answers"),
        ('{"id": "a", "answer": "x"}\n{"id": "a", "answer": "y"}\n', "out.jsonl:2", "the id 'a' is recorded twice"),
        ('{"question": "a b", "answer": "x"}\n{"question": "a  b", "answer": "y"}\n', "out.jsonl:2", "question"),
        ('{"id": "a", "answer": "x"}\n{"id": "b", "ans\n', "out.jsonl:2", "not valid JSON"),
        ('{"answer": "x"}\n', "out.jsonl:1", "neither id nor question"),
        ('"text"\n', "out.jsonl:1", "expected an object"),
        ("not json\n", "out.jsonl:1", "not valid JSON"),
        ("[" * 100_000, "out.json", "nested too deeply"),
        ('[{"id": "a", "answer": "x"}', "out.json:1", "Expecting ',' delimiter"),
        ('[{"id": "a", "answer": "x"}\n{"id": "b"}]', "out.json:2", "Expecting ',' delimiter"),
        ("[1]", "out.json", "item 1 is 1, expected an object"),
        ('[{"id": "a", "answer": "x"}, {"id": "a", "answer": "y"}]', "out.json:2", "recorded twice, first at 1"),
        ("id,answer\ns1,a,b\n", "out.csv:2", "3 cells"),
        ("id,answer\n", "file:out.csv", "no recorded answers"),
    ],
)
def test_a_file_that_can_not_be_used_says_where_and_why(room: Any, text: str, where: str, says: str) -> None:
    name = where.removeprefix("file:").partition(":")[0]
    (room.folder / name).write_text(text)
    with pytest.raises(SystemUnderTestError) as caught:
        room.ask(f"file:{name}", "q")
    assert caught.value.where == where
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\ufeff\r\n" + '{"id": "s0", "answer": "a"}\r\n\r\n\r\n', "a"),
        *((lines({"id": "s0", "answer": value}), json.dumps(value)) for value in (42, 0, 1.5, True, False)),
        (json.dumps({"answers": [{"id": "s0", "answer": "a"}]}), "a"),
        (json.dumps({"version": "1.2", "answers": [{"id": "s0", "answer": "a"}]}, indent=2), "a"),
        (json.dumps({"rows": [{"inputs.query": "q", "inputs.response": "a"}], "metrics": {"f": 4}}), "a"),
    ],
    ids=["blank lines", "number", "zero", "fraction", "true", "false", "a list in a document", "over lines", "Azure"],
)
def test_an_answer_is_read_from_text_like_this(room: Any, text: str, answer: str) -> None:
    name = "out.json" if "answers" in text or "rows" in text else "out.jsonl"
    (room.folder / name).write_bytes(text.encode())
    assert room.ask(f"file:{name}", "q")[0].answer == answer


def test_a_file_that_is_missing_or_too_large_is_named(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemUnderTestError, match="No such file") as caught:
        room.ask("file:nowhere.jsonl", "q")
    assert str(room.folder / "nowhere.jsonl") in str(caught.value)
    (room.folder / "out.jsonl").write_text('{"id": "a", "answer": "' + "x" * 10_000_001 + '"}\n')
    with pytest.raises(SystemUnderTestError, match="longer than 10,000,000 bytes"):
        room.ask("file:out.jsonl", "q")
    monkeypatch.setattr(recorded, "MAX_SAMPLES", 2)
    room.write("out.jsonl", lines(*({"id": number, "answer": "a"} for number in range(3))))
    with pytest.raises(SystemUnderTestError, match="more than 2 recorded answers") as caught:
        room.ask("file:out.jsonl", "q")
    assert caught.value.where == "out.jsonl:3"
    assert "Split it" in str(caught.value.hint)
    room.write("out.jsonl", lines(*({"id": number, "answer": "a"} for number in range(2))))
    assert room.ask_samples("file:out.jsonl", Sample("1", "q"))[0].answer == "a"


@pytest.mark.heavy
def test_memory_does_not_grow_with_the_size_of_the_records(room: Any) -> None:
    values = [{"id": f"sample-{number}", "answer": "a", "contexts": ["é" * 1_000] * 10} for number in range(600)]
    path = room.write("out.json", lines(*values))
    del values
    tracemalloc.start()
    try:
        assert room.ask_samples("file:out.json", Sample("sample-321", "q"))[0].answer == "a"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 35_000_000
    assert peak < 8_000_000


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text('[]{},:" \\0a\n', max_size=40).map(str.encode))
def test_any_bytes_are_records_or_one_clear_error(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f.jsonl")
        path.write_bytes(data)
        try:
            records = list(read_records(SourceFile(path, path.name)))
            assert all(isinstance(record, dict) for record, _ in records)
        except SystemUnderTestError as error:
            assert None not in (error.where, error.hint)  # noqa: PT017


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "CSV"])
def test_answers_may_be_recorded_in_a_table_of_text(room: Any, ending: str) -> None:
    between = "\t" if ending == "tsv" else ","
    rows = [
        ["id", "question", "answer", "contexts", "latency_s", "error", "page"],
        ["s1", "", "by id", '"[""one"", {""text"": ""two"", ""id"": ""d2""}]"', "0.25", "", ""],
        ["", "what  is it?", '"by question,\nin two lines"', "just one", "", "", ""],
        ["s3", "", "", "", "", "index not found", ""],
    ]
    room.write(f"out.{ending}", "\n".join(between.join(row) for row in rows) + "\n")
    asked = (Sample("s1", "?"), Sample("s2", "what is it?"), Sample("s3", "?"), Sample("s4", "no"))
    one, two, three, four = room.ask_samples(f"file:out.{ending}", *asked)
    assert (one.answer, one.latency_s) == ("by id", 0.25)
    assert one.contexts == (Context("one"), Context("two", "d2"))
    assert (two.answer, two.latency_s) == ("by question,\nin two lines", None)
    assert two.contexts == (Context("just one"),)
    assert failure(three).message == f"out.{ending}:5: index not found"
    assert failure(four).kind is SystemFailureKind.MISSING


ROWS = [
    ("How long may I return things?", ["Within 30 days.", 'It\'s "free".\nFor members.'], "30 days.", "Thirty days."),
    ("How long does shipping take?", ["Shipping takes 3 to 5 days."], "3 to 5 days.", "3 to 5 working days."),
]


RAGAS = ["user_input", "retrieved_contexts", "response", "reference"]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        *((kind, RAGAS) for kind in ("csv", "numpy.csv", "parquet", "columns.json")),
        ("csv", ["question", "contexts", "answer", "ground_truth"]),
        ("csv", ["User Input", "Retrieved Contexts", "Response", "Reference"]),
        ("csv", ["query", "retrieved_docs", "generated_answer", "answer"]),
    ],
)
def test_the_table_that_is_a_golden_set_has_the_answers_too(room: Any, kind: str, columns: list[str]) -> None:
    import numpy
    import pandas

    frame = pandas.DataFrame(ROWS, columns=columns)
    path = room.folder / f"table.{kind}"
    match kind:
        case "csv":
            frame.to_csv(path, index=False)
        case "numpy.csv":
            frame[columns[1]] = [str(numpy.array(one)) for one in frame[columns[1]]]
            frame.to_csv(path, index=False)
        case "parquet":
            frame.to_parquet(path)
        case _:
            frame.to_json(path)
    golden = load_golden_set(path.name, root=room.folder)
    responses = room.ask_samples(f"file:{path.name}", *golden)
    for response, (_, contexts, answer, reference), sample in zip(responses, ROWS, golden, strict=True):
        assert (response.failure, response.answer) == (None, answer)
        assert sample.reference == (None if columns[3] == "answer" else reference)
        assert [one.text for one in response.contexts] == contexts
    interactions = read_interactions(path, {}, Fields())
    assert [response.answer for _, response in interactions.answers] == [answer for _, _, answer, _ in ROWS]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("out.csv", "id,retrieved_contexts\ns1,\"['fine']\"\ns2,\"['one', 'tw\"\n"),
        (
            "out.jsonl",
            lines({"id": "s1", "retrieved_contexts": "['fine']"}, {"id": "s2", "retrieved_contexts": "['tw"}),
        ),
    ],
)
def test_a_cell_that_can_not_be_read_is_refused_with_its_place(room: Any, name: str, text: str) -> None:
    room.write(name, text)
    with pytest.raises(SystemUnderTestError, match="column 'retrieved_contexts' begins like a list") as caught:
        room.ask_samples(f"file:{name}", Sample("s1", "?"))
    assert caught.value.where == f"{name}:{3 if name == 'out.csv' else 2}"


def test_an_empty_answer_in_a_table_is_never_the_right_one(room: Any) -> None:
    room.write("out.csv", "question,answer,response\nWhy?,Because.,So.\nHow?,Thus.,\n")
    one, two = room.ask_samples("file:out.csv", Sample("a", "Why?"), Sample("b", "How?"))
    assert one.answer == "So."
    assert two.failure is not None
