"""`ragstone migrate` on tables of ragas, run as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from ragstone.golden.load import load_golden_set
from ragstone.run.score_files import scores_from_mapping
from ragstone.tools.migrate.differences import _differences
from ragstone.tools.migrate.evaluation import Evaluation, rules_of
from ragstone.tools.migrate.find import find_evaluation
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


SCORED = {"question": "Why?", "answer": "So.", "faithfulness": 0.9}


def found_in(folder: Path, code: str = "", floors: dict[str, float] | None = None, **more: object) -> Evaluation:
    write_json(folder / "results.json", [{**SCORED, **more}])
    (folder / "evaluate.py").write_text(code, "utf-8")
    return find_evaluation(folder, None, floors or {})


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("if scores['faithfulness'] > 0.95:\n    raise ValueError('suspicious')", "of faithfulness, more is better"),
        ("assert scores['hallucination'] > 0.95", "of hallucination, less is better"),
        ("MIN_FAITHFULNESS = 0.8\nFAITHFULNESS_LIMIT = 0.95", "faithfulness has another bound already"),
    ],
)
def test_a_bound_that_cannot_be_one_is_left_out_by_name(tmp_path: Path, code: str, why: str) -> None:
    found = found_in(tmp_path, code, hallucination=0.1)
    assert 0.95 not in found.bounds.values()
    assert (f"0.95 in evaluate.py:{2 if 'LIMIT' in code else 1}", why) in found.left_out


def test_the_branch_that_fails_is_the_bound(tmp_path: Path) -> None:
    code = (
        "if faithfulness >= 0.9:\n    print('good')\nelif faithfulness >= 0.7:\n    print('fair')\nelse:\n    exit(1)"
    )
    assert found_in(tmp_path, code).bounds == {"faithfulness": 0.7}


def test_less_is_better_where_the_source_of_an_unknown_metric_says_so(tmp_path: Path) -> None:
    code = "assert house_style <= 0.3\nif score_b < 0.6:\n    raise SystemExit(1)\n"
    rules = {rule.metric: rule for rule in rules_of(found_in(tmp_path, code, house_style=0.2, score_b=0.7))}
    assert (rules["house_style"].lower, rules["house_style"].bound) == (True, 0.3)
    assert (rules["score_b"].lower, rules["score_b"].bound) == (False, 0.6)


def test_a_column_is_found_by_its_own_name_before_another_name_of_its_metric(tmp_path: Path) -> None:
    code = "assert groundedness > 0.6\nassert faithfulness > 0.8\n"
    found = found_in(tmp_path, code, groundedness=0.7)
    assert found.bounds == {"groundedness": 0.6, "faithfulness": 0.8}


def test_a_floor_is_of_the_metric_by_any_of_its_names(tmp_path: Path) -> None:
    assert found_in(tmp_path, floors={"Context Faithfulness": 0.8}).bounds == {"faithfulness": 0.8}


def test_a_percentage_is_a_score(tmp_path: Path) -> None:
    assert found_in(tmp_path, house_style="85%").cases[0].grades["house_style"].value == 0.85


def test_the_table_with_the_most_metrics_is_taken(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", [{**SCORED, "question": "Another?"}] * 3)
    found = found_in(tmp_path, house_style=0.5)
    assert found.files == ["results.json"]
    assert ("a.json", "another table; name it to migrate it") in found.left_out


def test_a_data_set_without_scores_is_that_of_the_other_tool(tmp_path: Path) -> None:
    write_json(tmp_path / "data.json", [{"question": "Why?", "answer": "So."}])
    config = {"prompts": ["{{question}}"], "tests": [{"vars": {"question": "How?"}}]}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    (tmp_path / "data.jsonl").write_text('{"question": "Why?", "response": "So."}\n', "utf-8")
    assert find_evaluation(tmp_path, None, {}).tool == "promptfoo"


def test_ids_are_unique_and_those_that_cannot_be_are_none(tmp_path: Path) -> None:
    ids: list[object] = ["a", "a-2", "a", "a", "x" * 600, "two\nlines", None]
    write_json(tmp_path / "results.json", [{**SCORED, "id": one} for one in ids])
    found = find_evaluation(tmp_path / "results.json", None, {})
    assert [case.row.get("id") for case in found.cases] == ["a", "a-2", "a-3", "a-4", None, "repeated", "repeated-2"]


def test_names_of_metrics_are_free_and_short(tmp_path: Path) -> None:
    metrics = {"é1": 0.5, "e" * 90: 0.5, "e" * 91: 0.4, "1": 0.1}
    write_json(tmp_path / "results.json", [{**SCORED, **metrics}])
    rules = rules_of(find_evaluation(tmp_path, None, {}))
    names = ["faithfulness", "metric_1", "e" * 56, f"{'e' * 56}_1", "metric_1_1"]
    assert [rule.metric for rule in rules] == names


def test_differences_are_the_largest_first_and_agree_by_the_side_of_the_bound() -> None:
    there = scores_from_mapping({"hallucination": {"a": 0.3, "b": 0.2, "c": 0.9}, "gone": {"a": 1.0}})
    here = scores_from_mapping({"hallucination": {"a": 0.1, "b": 0.5, "c": 0.8}})
    [one] = _differences(there, here, {"hallucination": (0.3, True)})
    assert [name for name, _, _ in one.worst] == ["b", "a", "c"]
    assert (one.n, one.agreed) == (3, 2)
    assert one.there == pytest.approx(1.4 / 3)
