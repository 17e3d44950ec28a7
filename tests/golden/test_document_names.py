"""Names of documents are told from passages of text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.document_names import are_document_names, is_document_name
from ragstone.golden.load import load_golden_set
from ragstone.golden.native_format import native_lines
from tests.golden.loading import load_rows


@pytest.mark.parametrize(
    "name",
    [
        *("file.md", "docs/guide/setup.md", "./notes", "Annual report 2023.pdf", "規則.pdf", "setup.md#install"),
        *("https://example.org/a?page=2#top", "https://example.org/2024-01-15", "sample_2.txt", "chunk:4", "policy#2"),
        *("doc-7", "42", "3f2a-bc90", "2024-report", "x1" * 256, "Of a b c d e f g h i j README.md"),
    ],
)
def test_a_path_an_address_and_an_id_are_names(name: str) -> None:
    assert is_document_name(name)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Paris", "Paris.", "e.g.", "The limit is 42", "One line\nand another.md", "x1" * 256 + "x"),
        *("2024-01-15", "12:30", "4.50", "1,250", "99.9%", "3/4"),
        *("東京は日本の首都です", "これは説明です。詳細は規則.pdf", "2の10乗は1024です"),
        *("Is it? See README.md", "See README.md. It also names setup.md"),
        "Whoever wants to change it should first have read everything that is written in README.md",
    ],
)
def test_text_is_not_a_name(text: str) -> None:
    assert not is_document_name(text)


def test_texts_are_names_only_if_each_is_one() -> None:
    assert are_document_names(["a.md", "b.md"])
    assert not are_document_names(["a.md", "The second is a passage."])
    assert not are_document_names([])


@pytest.mark.parametrize("column", ["contexts", "reference_contexts"])
def test_contexts_that_are_names_are_refused_with_the_line_to_write(tmp_path: Path, column: str) -> None:
    rows: list[dict[str, object]] = [
        {"question": "A?", "reference": "a", column: ["docs/a.md", "b.md"]},
        {"question": "B?", "reference": "b", column: "c.md"},
        {"question": "C?", "reference": "c"},
    ]
    with pytest.raises(GoldenSetError, match=rf"column '{column}' has names of documents \('docs/a\.md'\)") as caught:
        load_rows(tmp_path, *rows)
    assert f'[golden.columns]\n  relevant_ids = "{column}"' in str(caught.value)
    golden = load_golden_set("golden.jsonl", root=tmp_path, columns={"relevant_ids": column, "reference_contexts": ""})
    assert [dict(sample.relevant_ids) for sample in golden] == [{"docs/a.md": 1.0, "b.md": 1.0}, {"c.md": 1.0}, {}]
    golden = load_golden_set("golden.jsonl", root=tmp_path, columns={"relevant_ids": column})
    assert not any(sample.reference_contexts for sample in golden)
    golden = load_golden_set("golden.jsonl", root=tmp_path, columns={"reference_contexts": column})
    assert golden[0].reference_contexts == ("docs/a.md", "b.md")


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        ([{"question": "A?", "contexts": ["a.md"]}, {"question": "B?", "contexts": ["A passage of text."]}], {}),
        ([{"question": "A?", "contexts": ["a.md"], "relevant_ids": ["d7"]}], {"d7": 1.0}),
        ([{"question": "A?", "contexts": ["a.md"], "relevant_ids": {}}], {}),
    ],
    ids=["one passage in the file", "relevant ids beside them", "an empty column of relevant ids"],
)
def test_names_among_passages_stay_passages(tmp_path: Path, rows: list[object], ids: dict[str, float]) -> None:
    golden = load_rows(tmp_path, *rows)
    assert (golden[0].reference_contexts, golden[0].relevant_ids) == (("a.md",), ids)
    again = load_rows(tmp_path, *map(json.loads, native_lines(golden)))
    assert (again[0].reference_contexts, again[0].relevant_ids) == (("a.md",), ids)
