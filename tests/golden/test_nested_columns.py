"""Golden sets that other tools export, with JSON in cells and dotted columns; and what an unknown file is told."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.nested_columns import nest_columns
from ragstone.golden.sample import Assertion, Assertions, GoldenSet

ASKED = {"question": "How long?"}
RIGHT = {"answer": "24 months."}


def load_table(folder: Path, *rows: dict[str, Any], **columns: str) -> GoldenSet:
    """The golden set of a CSV file, whose cells have objects and lists as JSON."""
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow([json.dumps(cell) if isinstance(cell, dict | list) else cell for cell in row.values()])
    return load_golden_set("table.csv", root=folder, columns=columns)


@pytest.mark.parametrize(
    "row",
    [
        {"inputs": ASKED, "outputs": RIGHT},
        {"inputs": ASKED, "outputs": {"answer": "Said.", "documents": []}, "reference_outputs": RIGHT},
        {"inputs.question": "How long?", "outputs.answer": "Said.", "reference.answer": "24 months."},
        {"id": "i1", "input": ASKED, "expectedOutput": '"24 months."', "status": "ACTIVE"},
        {"id": "i1", "input": '"How long?"', "expectedOutput": RIGHT, "status": "ACTIVE"},
        {"input": [{"role": "user", "content": "How long?"}], "expectedOutput": {"content": "24 months."}},
        {"inputs": ASKED, "expectations": {"expected_response": "24 months."}, "outputs": "Said."},
        {"inputs": str(ASKED), "reference_outputs": str(RIGHT)},
        {"inputs.query": "How long?", "inputs.ground_truth": "24 months.", "outputs.groundedness.groundedness": 4},
    ],
    ids=[
        *("LangSmith", "LangSmith's experiment", "LangSmith's data frame", "Langfuse", "Langfuse's text", "a chat"),
        *("MLflow", "as pandas writes it", "Azure's results"),
    ],
)
def test_the_exports_of_other_tools_are_read(tmp_path: Path, row: dict[str, Any]) -> None:
    (sample,) = load_table(tmp_path, row)
    assert (sample.question, sample.reference) == ("How long?", "24 months.")


def test_the_reference_of_phoenix_is_what_was_retrieved(tmp_path: Path) -> None:
    row = {
        "context.span_id": "s1",
        "input": "How long?",
        "output": "24 months.",
        "reference": "The warranty is 24 months.",
    }
    golden = load_table(tmp_path, row)
    assert golden[0].references == ()
    assert dict(golden.mappings[0].recorded) == {"answer": "output", "contexts": "retrieved_contexts"}
    assert nest_columns(row)["retrieved_contexts"] == "The warranty is 24 months."


@pytest.mark.parametrize(
    ("row", "reference", "contexts"),
    [
        ({"expectations": {"expected_facts": ["24 months.", "From delivery."]}}, "24 months.\nFrom delivery.", ()),
        ({"expected_response": "So.", "expected_chunks": [{"text": "One.", "title": "T"}]}, "So.", ("One.",)),
        ({"reference": "So.", "reference_contexts": {"a.md": "One.", "b.md": "Two."}}, "So.", ("One.", "Two.")),
    ],
    ids=["facts that an answer must state", "expected chunks", "documents by their ids"],
)
def test_references_and_passages_in_cells(
    tmp_path: Path, row: dict[str, Any], reference: str, contexts: tuple[str, ...]
) -> None:
    (sample,) = load_table(tmp_path, {"inputs": ASKED, **row})
    assert (sample.references, sample.reference_contexts) == ((reference,), contexts)


@pytest.mark.parametrize(
    "values",
    [
        {"question": '{"a": 1}', "reference": '"Carpe diem"'},
        {"input": "{not json", "output": "[1, 2]"},
        {"other.question": "How long?"},
        {"inputs.": "How long?", "input": "[]", "output": '[{"a": 1}, 2]'},
        {"inputs": "How long?", "inputs.question": "Which?"},
    ],
)
def test_a_text_that_is_no_container_is_kept(values: dict[str, object]) -> None:
    assert nest_columns(values) == values


@pytest.mark.parametrize(
    ("cell", "reference", "types"),
    [
        ("contains: 24", None, ["contains"]),
        ("not-contains:24", None, ["not-contains"]),
        ("contains", "contains", ["equals"]),
        ("note: 24", "note: 24", ["equals"]),
        ("is-json", None, ["is-json"]),
        ("similar(0.8): 24", "24", []),
        ("llm-rubric: polite", None, []),
    ],
)
def test_an_expectation_in_a_cell_is_an_assertion_or_the_answer(
    tmp_path: Path, cell: str, reference: str | None, types: list[str]
) -> None:
    (sample,) = load_table(tmp_path, {"question": "How long?", "__expected": cell})
    assert sample.reference == reference
    assert [one.type for one in (sample.assertions.typed if sample.assertions else ())] == types


def test_assertions_in_a_table_of_promptfoo(tmp_path: Path) -> None:
    first = {"question": "How long?", "__expected1": "contains: 24", "__expected2": "llm-rubric: polite"}
    second = {"question": "Where?", "__expected1": "In Bonn", "__expected2": ""}
    golden = load_table(tmp_path, *({**row, "__description": "d"} for row in (first, second)))
    assert golden[0].assertions == Assertions(typed=(Assertion("contains", ("24",)),))
    assert (golden[1].reference, str(golden[1].origin)) == ("In Bonn", "table.csv:3")
    assert any("llm-rubric is left out" in note for note in golden.mappings[0].notes)


REAL = {"Nr": "A-1", "Thema": "Garantie", "Anfrage": "Wie lange?", "Lösung": "Zwei Jahre ab dem Kauf."}


@pytest.mark.parametrize(
    ("row", "question", "reference"),
    [
        ({"No.": "1", "Frage": "Wie lange?", "Erwartete Antwort": "24 Monate"}, "Frage", "Erwartete Antwort"),
        (REAL, "Anfrage", "Lösung"),
        ({"番号": "A1", "質問": "保証期間は何年ですか？", "回答": "購入日から二年間です。"}, "質問", "回答"),
        ({"code": "x7", "fact": "The pump has a guarantee."}, "fact", None),
        ({"code": "x7", "city": "Bonn"}, None, None),
        ({"code": "x7", "answer_preview": "It lasts.", "top_source": "a b.md"}, None, None),
    ],
)
def test_an_unknown_file_is_refused_with_the_columns_that_it_has(
    tmp_path: Path, row: dict[str, Any], question: str | None, reference: str | None
) -> None:
    with pytest.raises(GoldenSetError) as caught:
        load_table(tmp_path, row)
    written = f'[golden.columns]\n  question = "{question or "NAME OF THE COLUMN"}"'
    assert str(caught.value).endswith(written + (f'\n  reference = "{reference}"' if reference else ""))
    if question is not None:
        mapped = {"question": question, **({"reference": reference} if reference else {})}
        assert load_table(tmp_path, row, **mapped)[0].reference == (row[reference] if reference else None)
