"""The hand-written hard cases that come with the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.tools.judging.metaeval.load import Pointwise, load_items

FILES = sorted((Path(__file__).parents[4] / "examples" / "hard-cases").glob("*.jsonl"))


def test_there_is_a_file_for_each_of_the_judges_tasks() -> None:
    tasks = ["answer_relevancy", "context_relevance", "context_use", "correctness", "faithfulness", "statements"]
    assert [path.stem for path in FILES] == tasks


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_task_has_thirty_cases_of_both_labels_and_each_says_why(path: Path) -> None:
    items = load_items(path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(items) == 30
    assert all(isinstance(item, Pointwise) and item.task == path.stem for item in items)
    positive = sum(row["label"] > 0 for row in rows)
    assert 10 <= positive <= 20 or (path.stem == "statements" and 10 <= positive <= 24)
    assert all(row["why"] for row in rows)
    assert len({json.dumps({**row, "id": "", "why": ""}) for row in rows}) == 30
