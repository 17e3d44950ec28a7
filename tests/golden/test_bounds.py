"""The floors and ceilings of golden rows: in every format, through every rewriting, and apart from the content."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.convert import native_lines
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Sample

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


def load(path: Path, name: str, text: str) -> Sample:
    (path / name).write_text(text, encoding="utf-8")
    return load_golden_set([name], root=path)[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [("g.jsonl", json.dumps(ROW)), ("g.json", json.dumps([ROW])), ("g.csv", CSV), ("g.yaml", YAML)],
)
def test_every_format_has_them_and_they_survive_a_rewriting(tmp_path: Path, name: str, text: str) -> None:
    sample = load(tmp_path, name, text)
    assert sample.bounds == BOUNDS
    (line,) = native_lines([sample])
    assert load(tmp_path, "again.jsonl", line).bounds == BOUNDS


def test_a_table_of_typed_columns_has_no_bound_where_it_has_none(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [ROW, {"id": "b", "question": "Why?", "min": {"context_recall": 0.5}, "max": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "g.parquet")
    first, second = load_golden_set(["g.parquet"], root=tmp_path)
    assert first.bounds == BOUNDS
    assert second.bounds == (("min", "context_recall", 0.5),)


def test_a_floor_is_no_part_of_the_content(tmp_path: Path) -> None:
    sample = load(tmp_path, "g.jsonl", json.dumps(ROW))
    free = replace(sample, min={}, max={})
    assert sample.content_hash() == free.content_hash()
    assert sample.part_hashes() == free.part_hashes()


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (0.8, "expected scores by metric"),
        ("faithfulness: 0.8", "expected scores by metric"),
        (["faithfulness"], "expected scores by metric"),
        ({"faithfulness": 80}, "contains 80 for faithfulness, expected a score from 0 to 1"),
        ({"faithfulness": True}, "expected a score from 0 to 1"),
    ],
)
def test_what_is_no_floor_is_refused_with_its_line(tmp_path: Path, bounds: object, said: str) -> None:
    with pytest.raises(GoldenSetError, match=rf"g\.jsonl:1: column 'min'.*{said}"):
        load(tmp_path, "g.jsonl", json.dumps({**ROW, "min": bounds}))


def test_assertions_of_promptfoo_in_json_lines_are_not_dropped_without_a_word(tmp_path: Path) -> None:
    row = {"vars": {"question": "A?", "expected": "t"}, "assert": [{"type": "llm-rubric", "value": "polite"}]}
    (tmp_path / "g.jsonl").write_text(json.dumps(row), encoding="utf-8")
    (mapping,) = load_golden_set(["g.jsonl"], root=tmp_path).mappings
    assert "'assert' has promptfoo's assertions, which are read from JSON and YAML only" in mapping.notes
