"""Labels in tables: written for spreadsheets, read back, and refused with their line."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.tools.judging.label_table import (
    MAX_CELL_CHARACTERS,
    Labels,
    cell_text,
    label_files,
    read_labels,
    unescape_formula,
    write_table,
)


def read(tmp_path: Path, text: str, **options: object) -> Labels:
    path = tmp_path / ("labels.jsonl" if text.startswith("{") else "labels.csv")
    path.write_text(text, encoding="utf-8")
    return read_labels([path], metrics=["m", "n"], **options)  # type: ignore[arg-type]


def test_labels_may_be_words_booleans_or_numbers(tmp_path: Path) -> None:
    labels = {"a": "PASS", "b": False, "c": 0.25, "d": None, "e": 0, "f": "1"}
    rows = [*({"id": name, "m": label} for name, label in labels.items()), {"id": 5, "m": "yes"}]
    read_back = read(tmp_path, "\n".join(map(json.dumps, rows)))
    assert read_back.mean("m") == {"a": 1.0, "b": 0.0, "c": 0.25, "e": 0.0, "f": 1.0, "5": 1.0}
    assert read_back.annotators("m") == ("labels",)


def test_a_settled_label_decides_and_is_nobodys_own(tmp_path: Path) -> None:
    for name, rows in (("ann", "a,1\nb,1"), ("bob", "a,0\nb,0"), ("settled", "a,0\nb,")):
        (tmp_path / f"{name}.csv").write_text(f"id,m\n{rows}\n", encoding="utf-8")
    labels = read_labels(label_files([tmp_path]), metrics=["m"])
    assert labels.mean("m") == {"a": 0.0, "b": 0.5}
    assert labels.annotators("m") == ("ann", "bob")


def test_labels_on_another_scale(tmp_path: Path) -> None:
    labels = read(tmp_path, "id;m\nq1;4\nq2;1\n", scale=(1.0, 5.0))
    assert labels.mean("m") == {"q1": 0.75, "q2": 0.0}


@pytest.mark.parametrize("scale", [(0.0, math.inf), (-math.inf, 1.0), (0.0, math.nan), (1.0, 1.0), (5.0, 1.0)])
def test_a_scale_goes_from_one_number_to_a_greater_one(tmp_path: Path, scale: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="a scale must go from the worst to the best value"):
        read(tmp_path, "id,m\nq,1\n", scale=scale)


def test_probabilities_count_where_they_differ(tmp_path: Path) -> None:
    text = "id,m,probability\nq,1,0.5\nr,1,{}\n"
    assert read(tmp_path, text.format(1)).probabilities == {"q": 0.5, "r": 1.0}
    assert read(tmp_path, text.format(0.5)).probabilities == {}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("id,label\nq,1\n", 2, "no column has labels"),
        ("id,m\nq,7\n", 2, "--scale"),
        ("id,m\nq,perhaps\n", 2, "pass or fail"),
        ("id,m\nq,nan\n", 2, "pass or fail"),
        ("id,m\nq,-0.1\n", 2, "pass or fail"),
        ("id,m\nq,1.1\n", 2, "pass or fail"),
        ("id,m,probability\nq,1,0\n", 2, "above 0 and at most 1"),
        ("id,m,probability\nq,1,1.1\n", 2, "above 0 and at most 1"),
        ("id,m,n,probability\nq,1,,0.5\nq,,1,0.4\n", 3, "two different probabilities"),
        ("id,m\nq,1\nq,0\n", 3, "duplicate label"),
    ],
)
def test_a_wrong_label_is_named_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        read(tmp_path, text)
    assert (refused.value.where or "").endswith(f":{line}")


def test_probabilities_for_some_and_files_without_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'r' has no probability"):
        read(tmp_path, "id,m,probability\nq,1,0.5\nr,1,\n")
    with pytest.raises(ConfigError, match="no answer has a label yet"):
        read(tmp_path, "id,m\nq,\n")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ConfigError, match="has no CSV file of labels"):
        label_files([tmp_path / "nothing"])


def test_what_is_written_is_read_back_and_nothing_in_it_is_a_formula(tmp_path: Path) -> None:
    names = ["=1+1", "'=1+1", "-x", "@y", "plain", "'quoted"]
    rows = [{"id": name, "faithfulness": "pass", "question": '=HYPERLINK("//evil.example")\nsecond'} for name in names]
    path = tmp_path / "ann.csv"
    write_table(path, ("id", "faithfulness", "question"), rows)
    with path.open(encoding="utf-8-sig", newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "-", "@", "+"))]
    labels = read_labels([path], metrics=["faithfulness"])
    assert list(labels.by_metric["faithfulness"]) == names
    assert labels.annotators("faithfulness") == ("ann",)
    assert labels.texts["plain"]["question"] == rows[0]["question"]
    assert unescape_formula("'tis") == "'tis"


def test_a_table_as_a_spreadsheet_saves_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "ann.csv").write_bytes("id;Faithfulness;comment\r\nq1;PASS;\r\nq2;;\r\n".encode("utf-8-sig"))
    labels = read_labels(label_files([tmp_path]), metrics=["Faithfulness", "other"])
    assert labels.by_metric == {"Faithfulness": {"q1": {"ann": 1.0}}}


def test_a_text_that_breaks_a_spreadsheet_is_cut_and_says_so() -> None:
    assert cell_text("x" * MAX_CELL_CHARACTERS) == "x" * MAX_CELL_CHARACTERS
    assert cell_text("x" * 40_000).endswith("\n[cut: 40,000 characters]")
    assert len(cell_text("x" * 40_000)) < MAX_CELL_CHARACTERS + 40 < 32_767


def test_a_file_of_200_mb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    with path.open("wb") as stream:
        stream.truncate(200_000_000)
    with pytest.raises(ConfigError, match="larger than 33,554,432 bytes"):
        read_labels([path], metrics=["m"])
