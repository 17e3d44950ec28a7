"""Rows of data frames and mappings, as plain values; and how deep a value of any source may be."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.in_memory import read_rows
from ragstone.golden.load import golden_set_from_data, load_golden_set
from ragstone.golden.rows import MAX_DEPTH


def plain(value: object) -> object:
    (row,) = read_rows([{"value": value}])
    return row.values["value"]


def nested(depth: int) -> object:
    """A text in `depth` lists."""
    value: object = "inside"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pd.NA, None),
        (pd.NaT, None),
        (float("nan"), None),
        (0.5, 0.5),
        (Decimal("1.5"), Decimal("1.5")),
        (date(2026, 11, 29), "2026-11-29"),
        (("a", {"b": {"c", "a"}}), ["a", {"b": ["a", "c"]}]),
        (pd.Series([1, 2]).to_numpy(), [1, 2]),
    ],
)
def test_a_value_is_one_of_json_and_a_missing_one_is_none(value: object, expected: object) -> None:
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("How far?", "can't be read from str"),
        (b"How far?", "can't be read from bytes"),
        (3, "can't be read from int"),
        (["How far?"], "data:1: a row must be a mapping, found str"),
        (pd.DataFrame([["a", "A?", "x"]], columns=["id", "question", "question"]), "duplicate column 'question'"),
    ],
)
def test_what_is_no_table_is_refused(data: object, says: str) -> None:
    with pytest.raises(GoldenSetError, match=says):
        golden_set_from_data(data)


def test_a_frame_is_read_with_a_named_index_and_without_another() -> None:
    frame = pd.DataFrame({"id": ["a"], "question": ["How far?"], "reference": [None]})
    for data in (frame, frame.set_index("id")):
        (sample,) = golden_set_from_data(data)
        assert (sample.id, sample.reference, str(sample.origin)) == ("a", None, "data:1")


def test_a_value_may_be_as_deep_as_the_limit() -> None:
    assert plain(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(GoldenSetError, match=str(MAX_DEPTH)):
        plain(nested(MAX_DEPTH + 1))


def test_yaml_may_be_as_deep_as_the_limit(tmp_path: Path) -> None:
    for depth in (MAX_DEPTH - 2, MAX_DEPTH - 1):
        row = f"- question: How far?\n  extra: {'[' * depth}inside{']' * depth}\n"
        (tmp_path / f"{depth}.yaml").write_text(row)
    assert len(load_golden_set(f"{MAX_DEPTH - 2}.yaml", root=tmp_path)) == 1
    with pytest.raises(GoldenSetError, match=str(MAX_DEPTH)):
        load_golden_set(f"{MAX_DEPTH - 1}.yaml", root=tmp_path)
