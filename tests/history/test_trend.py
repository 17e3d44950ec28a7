from __future__ import annotations

import csv
import io

from ragstone.history.lines import MeanPart
from ragstone.history.table import csv_text, list_lines
from ragstone.history.trend import MAX_POINTS, trends
from tests.history.seasons import HEADLINE, line


def test_a_trend_marks_where_the_judge_or_the_golden_set_changed() -> None:
    runs = [
        line(0),
        line(1, judge_key="b" * 16, judge="openai new"),
        line(2, judge_key="c" * 16, judge="openai new", golden="a"),
    ]
    (trend, *_) = trends(runs, HEADLINE)
    assert [point.changed for point in trend.points] == [
        (),
        ("judge: now openai new",),
        ("judge: openai new, other prompts or parameters", "golden set changed"),
    ]


def test_a_trend_is_of_the_newest_runs_and_of_metrics_that_have_one() -> None:
    runs = [line(number, metrics=HEADLINE[:1] if number < 99 else HEADLINE) for number in range(100)]
    (trend,) = trends(runs, HEADLINE)
    assert trend.metric == HEADLINE[0]
    assert len(trend.points) == MAX_POINTS
    assert trend.points[-1].time == runs[-1].time
    assert trends(runs[:1], HEADLINE) == ()


def test_a_run_without_the_metric_leaves_a_gap() -> None:
    (trend,) = trends([line(0), line(1, metrics=()), line(2)], HEADLINE[:1])
    assert [point.value is None for point in trend.points] == [False, True, False]


def test_csv_has_a_row_a_run_with_every_metric_and_slice() -> None:
    part = MeanPart(mean=0.5, low=0.4, high=0.6, n=7)
    taken = [{"id": "a", "metric": "faithfulness", "drop": 0.05}]
    runs = [
        line(0),
        line(1, slices={"lang:de": {"faithfulness": part}}, release="v1", accepted=taken, cost_usd=None),
    ]
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
    assert "judge: openai new" in shown[2]
    assert "golden set changed" in shown[3]
    assert shown[1].startswith("2026-01-05 09:00  0000000  pass")
    assert list(list_lines([])) == ["The history is empty."]
