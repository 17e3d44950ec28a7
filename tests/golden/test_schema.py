"""The JSON Schema of a row of a golden set: what it takes is read, and what is written is taken."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ragstone.golden.columns import MAPPABLE
from ragstone.golden.load import load_golden_set
from ragstone.golden.native_format import native_lines

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "src/ragstone/golden/golden.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PAGE = (ROOT / "docs/golden-sets.md").read_text(encoding="utf-8")
FILES = sorted((ROOT / "examples").glob("*/golden.jsonl"))


def rows_on_the_page() -> list[Any]:
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    return [json.loads(block) for block in blocks]


def test_its_example_is_read_with_every_label(tmp_path: Path) -> None:
    VALIDATOR.check_schema(SCHEMA)
    (example,) = SCHEMA["examples"]
    VALIDATOR.validate(example)
    (tmp_path / "golden.jsonl").write_text(json.dumps(example), encoding="utf-8")
    first, second, third = load_golden_set("golden.jsonl", root=tmp_path)
    assert first.id == "order-17/turn-1"
    assert first.tools[0].arguments == {"order_id": 17}
    assert second.hops == (1, 2)
    assert third.expects_clarification


@pytest.mark.parametrize("row", rows_on_the_page(), ids=lambda row: row["id"])
def test_the_rows_on_the_page_are_valid(row: Mapping[str, Any]) -> None:
    VALIDATOR.validate(row)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_golden_sets_and_what_convert_writes_of_them_are_valid(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        VALIDATOR.validate(json.loads(line))
    for line in native_lines(load_golden_set(path.name, root=path.parent)):
        VALIDATOR.validate(json.loads(line))


@pytest.mark.parametrize(
    "row",
    [
        {"reference": "no question"},
        {"question": "A?", "turns": ["B?"]},
        {"turns": []},
        {"turns": [{"reference": "no question"}]},
        {"question": "A?", "expects": "patience"},
        {"question": "A?", "tools": [{"arguments": {}}]},
        {"question": "A?", "refrence": "t"},
    ],
)
def test_what_is_refused_is_not_valid(row: Mapping[str, Any]) -> None:
    assert not VALIDATOR.is_valid(row)


def test_it_has_every_field_that_a_golden_set_may_have() -> None:
    assert set(SCHEMA["$defs"]["sample"]["properties"]) == MAPPABLE
