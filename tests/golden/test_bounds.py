"""The floors and ceilings of golden rows: in every format, through every rewriting, and apart from the content."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.convert import native_lines
from ragstone.golden.load import load_golden_set
from tests.golden.loading import load_text

BOUNDS = (("min", "assertions", 1.0), ("min", "faithfulness", 0.8), ("max", "hallucination", 0.2))
ROW = {
    "id": "a",
    "question": "How long?",
    "min": {"faithfulness": 0.8, "assertions": 1},
    "max": {"hallucination": 0.2},
}
CSV = 'id,question,min,max\na,How long?,"{""faithfulness"": 0.8, ""assertions"": 1}","{""hallucination"": 0.2}"\n'
YAML = """
- id: a
  question: How long?
  min: {faithfulness: 0.8, assertions: 1}
  max:
    hallucination: 0.2
- {id: b, question: Why?}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [("g.jsonl", json.dumps(ROW)), ("g.json", json.dumps([ROW])), ("g.csv", CSV), ("g.yaml", YAML)],
)
def test_every_format_has_them_and_they_survive_a_rewriting(tmp_path: Path, name: str, text: str) -> None:
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
