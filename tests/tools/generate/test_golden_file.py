"""`ragstone golden -o`, run as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragstone.golden.load import load_golden_set
from tests.cli.project import Completed, ragstone


def convert(folder: Path, *arguments: str, exit_code: int = 0) -> Completed:
    return ragstone(["golden", *arguments], folder, exit_code=exit_code)


def test_a_foreign_golden_set_becomes_native_json_lines(tmp_path: Path) -> None:
    rows = [{"query": "Où?", "expected": "là", "response": "said", "cost": 1}, {"query": "B?", "expected": "b"}]
    (tmp_path / "set.json").write_text(json.dumps({"examples": rows}), encoding="utf-8")
    done = convert(tmp_path, "set.json", "-o", "golden.jsonl")
    assert done.stdout == ""
    said = [re.sub(" +", " ", line).strip() for line in done.stderr.splitlines()]
    assert said == [
        "set.json: 2 samples (json)",
        "question examples.query",
        "reference examples.expected",
        "recorded, left out answer in examples.response",
        "ignored examples.cost",
        "wrote 2 samples to golden.jsonl",
    ]
    before = load_golden_set("set.json", root=tmp_path)
    after = load_golden_set("golden.jsonl", root=tmp_path)
    assert before.content_hash() == after.content_hash()
    assert "Où?" in (tmp_path / "golden.jsonl").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["golden.jsonl", "set.json"]


@pytest.mark.parametrize("config", ["", '[golden.columns]\nquestion = "other"\nreference = "antwort"\n'])
def test_the_lines_can_go_to_standard_output(tmp_path: Path, config: str) -> None:
    (tmp_path / "ragstone.toml").write_text(config, encoding="utf-8")
    (tmp_path / "a.csv").write_text("frage,antwort\nWas?,Das.\n", encoding="utf-8")
    own = [] if config else ["--column", "reference=antwort"]
    row = json.loads(convert(tmp_path, "a.csv", "--column", "question=frage", *own, "-o", "-").stdout)
    assert (row["question"], row["reference"]) == ("Was?", "Das.")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("a.csv", "-o", "nowhere/golden.jsonl"), 2, "nowhere"),
        (("a.csv", "--column", "question"), 2, "question"),
        (("a.csv", "-o", "precious.jsonl"), 2, "already exists"),
        (("a.csv", "-o", "golden.csv", "--force"), 2, "can't write .csv: golden sets are written as JSON Lines."),
        (("a.csv", "-o", "golden.XLSX", "--force"), 2, "Use another ending, such as golden.jsonl"),
        (("bad.jsonl", "-o", "golden.jsonl"), 3, "bad.jsonl:2"),
    ],
)
def test_what_can_not_be_converted_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    files = {"a.csv": "question\nA?\n", "bad.jsonl": '{"question": "A?"}\n{"question": 1, \n', "precious.jsonl": "x"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = convert(tmp_path, *arguments, exit_code=code)
    assert (says in done.stderr, "Traceback" in done.stderr) == (True, False), done.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files
    convert(tmp_path, "a.csv", "-o", "precious.jsonl", "--force")
    assert len(load_golden_set("precious.jsonl", root=tmp_path)) == 1
