"""`ragstone convert`, run as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.golden.load import load_golden_set
from tests.cli.project import Completed, ragstone


def convert(folder: Path, *arguments: str) -> Completed:
    return ragstone(["convert", *arguments], folder)


def test_a_foreign_golden_set_becomes_native_json_lines(tmp_path: Path) -> None:
    rows = [{"query": "Où?", "expected": "là", "response": "said", "cost": 1}, {"query": "B?", "expected": "b"}]
    (tmp_path / "set.json").write_text(json.dumps({"examples": rows}), encoding="utf-8")
    done = convert(tmp_path, "set.json", "-o", "golden.jsonl")
    assert done.returncode == 0
    assert done.stdout == ""
    for words in (
        "set.json: 2 samples (json)",
        "question            examples.query",
        "reference           examples.expected",
        "recorded, left out  answer in examples.response",
        "ignored             examples.cost",
        "wrote 2 samples to golden.jsonl",
    ):
        assert words in done.stderr
    before = load_golden_set("set.json", root=tmp_path)
    after = load_golden_set("golden.jsonl", root=tmp_path)
    assert before.content_hash() == after.content_hash()
    assert "Où?" in (tmp_path / "golden.jsonl").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["golden.jsonl", "set.json"]


@pytest.mark.parametrize("name", ["golden.csv", "golden.JSON", "golden.xlsx"])
def test_a_file_named_like_another_format_is_not_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text("question\nWas?\n", encoding="utf-8")
    done = convert(tmp_path, "a.csv", "-o", name, "--force")
    assert done.returncode == 2
    assert f"can't write .{name.partition('.')[2].lower()}: the native format is JSON Lines." in done.stderr
    assert "Write to golden.jsonl" in done.stderr
    assert not (tmp_path / name).exists()


def test_without_an_output_file_the_lines_go_to_standard_output(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("frage,antwort\nWas?,Das.\n", encoding="utf-8")
    done = convert(tmp_path, "a.csv", "--column", "question=frage", "--column", "reference=antwort")
    assert done.returncode == 0
    row = json.loads(done.stdout)
    assert (row["question"], row["reference"]) == ("Was?", "Das.")


def test_the_columns_of_the_config_are_used(tmp_path: Path) -> None:
    (tmp_path / "ragstone.toml").write_text('[golden.columns]\nquestion = "frage"\n', encoding="utf-8")
    (tmp_path / "a.csv").write_text("frage\nWas?\n", encoding="utf-8")
    assert json.loads(convert(tmp_path, "a.csv").stdout)["question"] == "Was?"


@pytest.mark.parametrize(
    "command",
    [
        "golden own.jsonl",
        "gate --golden own.jsonl --entrypoint file:answers.jsonl",
        "rescore ragstone-run --golden own.jsonl",
        "rescore ragstone-run --golden a.csv",
    ],
)
def test_no_command_needs_the_columns_of_the_config_in_a_native_file(tmp_path: Path, command: str) -> None:
    columns = '[golden.columns]\nid = "Nr"\nquestion = "Frage"\nreference = "Antwort"\n'
    (tmp_path / "ragstone.toml").write_text(columns, encoding="utf-8")
    (tmp_path / "a.csv").write_text(
        "Nr,Frage,Antwort\na,How long may I return shoes?,Thirty days.\nb,Who pays the postage?,The shop.\n",
        encoding="utf-8",
    )
    said = {"a": "You may return shoes for thirty days.", "b": "The shop pays the postage."}
    answers = "".join(
        json.dumps({"id": name, "answer": text, "contexts": [text]}) + "\n" for name, text in said.items()
    )
    (tmp_path / "answers.jsonl").write_text(answers, encoding="utf-8")
    assert convert(tmp_path, "a.csv", "-o", "own.jsonl").returncode == 0
    if "ragstone-run" in command:
        ask = ["gate", "--golden", "a.csv", "--entrypoint", "file:answers.jsonl"]
        assert ragstone(ask, tmp_path).returncode == 0
    done = ragstone(command.split(), tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_existing_file_is_overwritten_with_force_only(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question\nA?\n", encoding="utf-8")
    (tmp_path / "golden.jsonl").write_text("precious\n", encoding="utf-8")
    refused = convert(tmp_path, "a.csv", "-o", "golden.jsonl")
    assert refused.returncode == 2
    assert "already exists" in refused.stderr
    assert (tmp_path / "golden.jsonl").read_text(encoding="utf-8") == "precious\n"
    assert convert(tmp_path, "a.csv", "-o", "golden.jsonl", "--force").returncode == 0
    assert len(load_golden_set("golden.jsonl", root=tmp_path)) == 1


def test_a_bad_golden_set_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "A?"}\n{"question": 1, \n', encoding="utf-8")
    done = convert(tmp_path, "a.jsonl", "-o", "golden.jsonl")
    assert done.returncode == 3
    assert "a.jsonl:2" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_folder_that_is_not_there_and_a_malformed_column_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question\nA?\n", encoding="utf-8")
    assert convert(tmp_path, "a.csv", "-o", "nowhere/golden.jsonl").returncode == 2
    assert convert(tmp_path, "a.csv", "--column", "question").returncode == 2
