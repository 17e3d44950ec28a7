"""Floors and ceilings, tool calls and hops of golden rows: in every format, and through every rewriting."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.native_format import native_lines
from ragstone.golden.sample import Assertion, Assertions, ExpectedCall, Sample
from tests.golden.loading import load_rows, load_text

BOUNDS = (("min", "assertions", 1.0), ("min", "faithfulness", 0.8), ("max", "hallucination", 0.2))
ROW = {"id": "a", "question": "How long?", "min": {"faithfulness": 0.8, "assertions": 1}, "max": {"hallucination": 0.2}}
CSV = 'id,question,min,max\na,How long?,"{""faithfulness"": 0.8, ""assertions"": 1}","{""hallucination"": 0.2}"\n'


@pytest.mark.parametrize(("name", "text"), [("g.jsonl", json.dumps(ROW)), ("g.csv", CSV)])
def test_floors_and_ceilings_are_read_and_survive_a_rewriting(tmp_path: Path, name: str, text: str) -> None:
    sample = load_text(tmp_path, name, text)[0]
    assert sample.bounds == BOUNDS
    free = replace(sample, min={}, max={})
    assert (sample.content_hash(), sample.part_hashes()) == (free.content_hash(), free.part_hashes())
    (line,) = native_lines([sample])
    assert load_text(tmp_path, "again.jsonl", line)[0].bounds == BOUNDS


def test_a_table_of_typed_columns_has_no_bound_where_it_has_none(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [ROW, {"id": "b", "question": "Why?", "min": {"context_recall": 0.5}, "max": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "g.parquet")
    first, second = load_golden_set(["g.parquet"], root=tmp_path)
    assert first.bounds == BOUNDS
    assert second.bounds == (("min", "context_recall", 0.5),)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (0.8, "expected scores by metric"),
        ({"faithfulness": 80}, "contains 80 for faithfulness, expected a score from 0 to 1"),
    ],
)
def test_what_is_no_floor_is_refused_with_its_line(tmp_path: Path, bounds: object, said: str) -> None:
    with pytest.raises(GoldenSetError, match=rf"g\.jsonl:1: column 'min'.*{said}"):
        load_text(tmp_path, "g.jsonl", json.dumps({**ROW, "min": bounds}))


ORDER = {"name": "lookup_order", "arguments": {"order_id": 7}}


def load(folder: Path, **row: object) -> Sample:
    (sample,) = load_rows(folder, {"question": "Where is order 7?", **row})
    return sample


@pytest.mark.parametrize(
    "row",
    [
        {"tools": [ORDER]},
        {"expected_tools": [{"name": "lookup_order", "input_parameters": {"order_id": 7}, "output": "x"}]},
        {"reference_tool_calls": [{"name": "lookup_order", "args": {"order_id": 7}}]},
    ],
)
def test_expected_tools_have_the_names_that_other_tools_use_and_their_order_counts_if_the_row_says_so(
    tmp_path: Path, row: dict[str, object]
) -> None:
    sample, ordered = load(tmp_path, **row), load(tmp_path, **row, tool_order=True)
    assert sample.tools == ordered.tools == (ExpectedCall(("lookup_order",), {"order_id": 7}),)
    assert (sample.tools_in_order, ordered.tools_in_order) == (False, True)
    assert sample.content_hash() != ordered.content_hash()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tools": [{**ORDER, "match": "loose"}]}, "match must be 'subset' or 'exact'"),
        ({"tools": [{**ORDER, "tolerance": -0.1}]}, "tolerance must be at least 0"),
        ({"tools": [{**ORDER, "matches": "exact"}]}, "matches"),
        ({"tools": [{"name": "a", "any_of": ["b"]}]}, "expected either name or any_of"),
        ({"tools": [{"arguments": {}}]}, "expected either name or any_of"),
        ({"tools": [{"name": "a", "arguments": [1]}]}, "arguments must be a table"),
        ({"tools": ["x"] * 101}, "101 tool calls; at most 100 are allowed"),
        ({"tool_order": "sometimes"}, "'sometimes', expected true or false"),
        ({"reference_contexts": [{"text": "a", "hop": 0}]}, "contains 0, expected a whole number from 1 to 10,000,000"),
    ],
)
def test_a_wrong_label_names_its_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(GoldenSetError) as caught:
        load(tmp_path, **row)
    assert message in caught.value.message
    assert str(caught.value.where).endswith("golden.jsonl:1")


def test_assertions_are_read_from_their_columns_and_written_back(tmp_path: Path) -> None:
    row = {"must_contain": ["30 days", "refund"], "must_not_contain": "60 days", "regex": "a|[0-9]+", "max_words": 80}
    expected = Assertions(("30 days", "refund"), ("60 days",), ("a|[0-9]+",), 80, (Assertion("is-json"),))
    sample = load(tmp_path, **row, **{"assert": [{"type": "is-json"}]})
    (line,) = native_lines([sample])
    assert sample.assertions == load(tmp_path, **json.loads(line)).assertions == expected
    table = "question,must_contain,max_words\nHow long?,30 days | refund,\nWhy?,,\n"
    first, second = load_text(tmp_path, "g.csv", table)
    assert (first.assertions, second.assertions) == (Assertions(("30 days", "refund")), None)


def test_what_is_not_said_is_not_written(tmp_path: Path) -> None:
    (line,) = native_lines([load(tmp_path, id="a", tools=["search"])])
    assert json.loads(line) == {"id": "a", "question": "Where is order 7?", "tools": [{"name": "search"}]}


def test_a_converted_row_is_read_back_as_it_was(tmp_path: Path) -> None:
    sample = load(
        tmp_path,
        id="order-7",
        reference_contexts=[{"text": "Order 7 is a lamp.", "hop": 1}, "Lamps ship in May."],
        tools=["search", {"any_of": ["a", "b"]}, {**ORDER, "match": "exact", "tolerance": 0.5}],
        tool_order=True,
    )
    (line,) = native_lines([sample])
    assert load(tmp_path, **json.loads(line)) == sample
