"""The history as a list and as CSV."""

from __future__ import annotations

import csv
import io
import re

from ragstone.history.lines import FigurePart, MeanPart, WindowPart
from ragstone.tools.history_page.history_table import csv_text, list_lines
from tests.history.seasons import line


def test_csv_has_a_row_a_run_with_every_metric_and_slice() -> None:
    part = MeanPart(mean=0.5, low=0.4, high=0.6, n=7)
    taken = [{"id": "a", "metric": "faithfulness", "drop": 0.05}]
    later = line(1, slices={"lang:de": {"faithfulness": part}}, release="v1", accepted=taken, cost_usd=None)
    runs = [line(0), later]
    rows = list(csv.DictReader(io.StringIO(csv_text(runs))))
    assert [row["release"] for row in rows] == ["", "v1"]
    assert [row["lang:de/faithfulness.n"] for row in rows] == ["", "7"]
    assert rows[1]["accepted"] == "faithfulness:0.05"
    assert rows[1]["cost_usd"] == ""
    assert float(rows[0]["faithfulness.mean"]) == 0.87654
    assert rows[0]["time"].startswith("2026-01-05T09:00")


def test_no_cell_is_a_formula() -> None:
    (row,) = csv.DictReader(io.StringIO(csv_text([line(0, judge="=cmd|'/c calc'!A1", release="@x")])))
    assert row["judge"].startswith("'=")
    assert row["release"] == "'@x"


def test_the_list_says_what_changed() -> None:
    runs = [line(0), line(1, judge_key="b" * 16, judge="openai new"), line(2, judge_key="b" * 16, golden="a")]
    shown = list(list_lines(runs))
    assert len(shown) == 4
    assert "judge: now openai new" in shown[2]
    assert "golden set changed" in shown[3]
    assert shown[1].startswith("2026-01-05 09:00  0000000  pass")
    assert list(list_lines([])) == ["The history is empty."]


NAMES = ("faithfulness", "answer_relevancy", "context_recall", "context_precision", "recall@5", "mrr")


def test_headings_are_above_their_columns() -> None:
    heading, row = list_lines([line(0, metrics=NAMES)])
    assert all(heading[match.end() : match.end() + 2].strip() == "" for match in re.finditer(r"0\.\d{3}", row))
    assert heading.index("mrr") + len("mrr") == row.rindex("0.877") + len("0.877")


def test_windows_of_production_are_listed_and_exported() -> None:
    part = WindowPart(end=line(2).time, figures={"errors": FigurePart(value=0.12, n=200)})
    runs = [line(0), line(1, window=part, judge_key="b" * 16)]
    assert list(list_lines(runs))[-1].endswith("  production")
    rows = list(csv.DictReader(io.StringIO(csv_text(runs))))
    assert [row["production.errors"] for row in rows] == ["", "0.12"]
