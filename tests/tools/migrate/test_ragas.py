"""`ragstone migrate` on tables of ragas, run as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from ragstone.golden.load import load_golden_set
from tests.tools.migrate.migrated import lines, ragstone, scores, verdict

ROWS: list[dict[str, Any]] = [
    {
        "user_input": "How old is the mill?",
        "retrieved_contexts": ["The mill was built in 1901.", "The inn is red."],
        "reference_contexts": ["The mill was built in 1901."],
        "response": "It was built in 1901.",
        "reference": "Built in 1901.",
        "faithfulness": 1.0,
        "llm_context_precision_with_reference": 1.0000000000000002,
        "nv_accuracy": 0.5,
        "house_style": 0.25,
    },
    {
        "user_input": "What colour is the inn?",
        "retrieved_contexts": ["The inn is red."],
        "reference_contexts": ["The inn is red."],
        "response": "Blue.",
        "reference": "Red.",
        "faithfulness": 0.5,
        "llm_context_precision_with_reference": 0.9,
        "nv_accuracy": 0.5,
        "house_style": 0.5,
    },
]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """As pandas writes it: a list is what Python prints."""
    import csv

    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows), "utf-8")


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("results.csv", write_csv),
        ("results.json", write_json),
        ("results.jsonl", write_json_lines),
        ("results.parquet", write_parquet),
    ],
)
def test_a_table_becomes_a_golden_set_answers_and_scores(tmp_path: Path, name: str, write: Any) -> None:
    write(tmp_path / name, ROWS)
    done = ragstone(tmp_path, "migrate", name, "--floor", "faithfulness=0.8")
    assert done.returncode == 0, done.stderr
    first, second = load_golden_set("golden/golden.jsonl", root=tmp_path)
    assert (first.question, first.reference) == ("How old is the mill?", "Built in 1901.")
    assert second.reference_contexts == ("The inn is red.",)
    answers = lines(tmp_path / "migrated/answers.jsonl")
    assert answers[0] == {
        "id": first.id,
        "answer": "It was built in 1901.",
        "contexts": ["The mill was built in 1901.", "The inn is red."],
    }
    assert scores(tmp_path) == {
        "faithfulness": [1.0, 0.5],
        "context_precision": [1.0, 0.9],
        "answer_correctness": [0.5, 0.5],
        "house_style": [0.25, 0.5],
    }
    page = (tmp_path / "migrated/README.md").read_text("utf-8")
    assert "| metric nv\\_accuracy | answer\\_correctness" in page
    assert "| metric house\\_style | Ragstone measures nothing of the kind; its scores are kept |" in page
    assert verdict(tmp_path).status.value == "fail"
    gated = ragstone(tmp_path, "gate")
    assert gated.returncode in (0, 1), gated.stderr
    compared = ragstone(tmp_path, "migrate", "--compare")
    assert "faithfulness: 0.750 there, " in compared.stdout
    assert "both pass or both fail" in compared.stdout
    assert "house_style: this judge gave no score" in compared.stdout


@pytest.mark.parametrize(("floor", "expected"), [("0.75", "pass"), ("0.76", "fail")])
def test_the_verdict_on_the_scores_is_that_of_the_means(tmp_path: Path, floor: str, expected: str) -> None:
    write_csv(tmp_path / "results.csv", ROWS)
    (tmp_path / "test_rag.py").write_text(
        f'FLOOR = {floor}\ndef test():\n    assert result["faithfulness"] >= FLOOR\n', encoding="utf-8"
    )
    assert ragstone(tmp_path, "migrate").returncode == 0
    assert verdict(tmp_path).status.value == expected


@pytest.mark.parametrize(
    "code",
    [
        'THRESHOLDS = {"faithfulness": 0.8, "unknown": 7}',
        "MIN_FAITHFULNESS = 0.8",
        'if scores["faithfulness"] < 0.8:\n    raise SystemExit(1)',
        'assert df["faithfulness"].mean() > 0.8',
        "assert 0.8 <= result.faithfulness",
    ],
)
def test_floors_are_found_in_the_source(tmp_path: Path, code: str) -> None:
    write_csv(tmp_path / "results.csv", ROWS)
    (tmp_path / "evaluate.py").write_text(f"raise RuntimeError('executed')\n{code}\n", encoding="utf-8")
    assert ragstone(tmp_path, "migrate", ".", "-o", "new").returncode == 0
    assert "[metrics.faithfulness]\nmin = 0.8" in (tmp_path / "new/thresholds.toml").read_text("utf-8")


def test_the_older_columns_are_read(tmp_path: Path) -> None:
    row = {
        "question": "How old is the mill?",
        "answer": "Built in 1901.",
        "contexts": ["The mill was built in 1901."],
        "ground_truths": ["In 1901.", "1901"],
        "context_relevancy": 0.5,
        "AnswerRelevancy": 0.75,
        "faithfulness": float("nan"),
    }
    write_csv(tmp_path / "old.csv", [row])
    assert ragstone(tmp_path, "migrate", "old.csv").returncode == 0
    (sample,) = load_golden_set("golden/golden.jsonl", root=tmp_path)
    assert sample.references == ("In 1901.", "1901")
    assert lines(tmp_path / "migrated/answers.jsonl")[0]["contexts"] == ["The mill was built in 1901."]
    assert scores(tmp_path) == {"context_relevance": [0.5], "answer_relevancy": [0.75], "faithfulness": [None]}
    assert "| 1 empty score |" in (tmp_path / "migrated/README.md").read_text("utf-8")


def test_a_conversation_ends_with_the_answer(tmp_path: Path) -> None:
    messages = [
        {"content": "Is there an inn?", "type": "human"},
        {"content": "Yes, the Red Inn.", "type": "ai"},
        {"content": "How old is it?", "type": "human"},
        {"content": "Built in 1920.", "type": "ai"},
    ]
    rows = [{"user_input": messages, "reference": "1920", "retrieved_contexts": ["It was built in 1920."]}]
    write_json(tmp_path / "chats.json", rows)
    assert ragstone(tmp_path, "migrate", "chats.json").returncode == 0
    (sample,) = load_golden_set("golden/golden.jsonl", root=tmp_path)
    assert sample.question == "How old is it?"
    assert [turn.text for turn in sample.history] == ["Is there an inn?", "Yes, the Red Inn."]
    assert lines(tmp_path / "migrated/answers.jsonl")[0]["answer"] == "Built in 1920."


def test_the_same_question_twice_is_two_samples(tmp_path: Path) -> None:
    write_csv(tmp_path / "results.csv", [ROWS[0], ROWS[0]])
    assert ragstone(tmp_path, "migrate", "results.csv").returncode == 0
    assert len(load_golden_set("golden/golden.jsonl", root=tmp_path)) == 2


def test_existing_files_are_kept(tmp_path: Path) -> None:
    write_csv(tmp_path / "results.csv", ROWS)
    (tmp_path / "thresholds.toml").write_text("# mine\n", encoding="utf-8")
    done = ragstone(tmp_path, "migrate", "results.csv")
    assert done.returncode == 2
    assert "already exists: thresholds.toml." in done.stderr
    assert not (tmp_path / "golden").exists()
    assert ragstone(tmp_path, "migrate", "results.csv", "--force").returncode == 0


def test_a_folder_without_an_evaluation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("name,price\na,1\n", encoding="utf-8")
    done = ragstone(tmp_path, "migrate", ".")
    assert done.returncode == 2
    assert "no evaluation of ragas, DeepEval or promptfoo was found." in done.stderr


@pytest.mark.parametrize("floor", ["faithfulness", "faithfulness=2", "=0.5", "faithfulness=x"])
def test_a_floor_that_is_none_is_refused(tmp_path: Path, floor: str) -> None:
    done = ragstone(tmp_path, "migrate", ".", "--floor", floor)
    assert done.returncode == 2
    assert "expected METRIC=VALUE." in done.stderr
