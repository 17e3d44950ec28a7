from __future__ import annotations

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
