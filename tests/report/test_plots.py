"""Scales, plots and trends of characters and of SVG."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ragstone.gate.verdict import CHANGES, Check, CheckKind, Interval
from ragstone.history.trend import Point, Trend
from ragstone.report.plots import axis_for
from ragstone.report.render import render
from ragstone.report.trend import draw, half_of, sparkline
from tests.report.checks import metric_check
from tests.report.conftest import helpdesk_report


def test_an_axis_fits_differences_that_are_all_zero_where_no_drop_is_allowed() -> None:
    same = metric_check(kind=CheckKind.DROP, estimate=0.0, interval=Interval(0.0, 0.0, 0.95, "exact"), threshold=0.0)
    axis = axis_for([same], CHANGES)
    assert axis is not None
    assert (axis.low, axis.high) == (-0.05, 0.05)
    assert axis.x(0.0) == 120.0


def drawn(low: float, estimate: float, high: float, half: float = 0.1) -> str:
    found = metric_check(estimate=estimate, interval=Interval(low, high, 0.95, ""), threshold=0.5)
    return draw(found, half)


@pytest.mark.parametrize(
    ("low", "estimate", "high", "picture"),
    [
        (0.52, 0.55, 0.58, "··········│·├──●──┤··"),
        (0.42, 0.45, 0.48, "··├──●──┤·│··········"),
        (0.47, 0.48, 0.55, "·······├●─┼────┤·····"),
        (0.3, 0.45, 0.9, "◂────●────┼─────────▸"),
        (0.5001, 0.51, 0.52, "··········│●┤········"),
        (0.5, 0.51, 0.52, "··········│●┤········"),
    ],
    ids=["right of it", "left of it", "across it", "beyond the picture", "close to it", "from it on"],
)
def test_an_interval_is_drawn_where_it_lies_from_its_threshold(
    low: float, estimate: float, high: float, picture: str
) -> None:
    assert drawn(low, estimate, high) == picture


def test_nothing_is_drawn_without_a_threshold_or_an_estimate() -> None:
    assert draw(metric_check(threshold=None), 0.1) == ""
    assert draw(metric_check(estimate=None, interval=None), 0.1) == ""


@pytest.mark.parametrize(
    ("checks", "half"),
    [
        ([metric_check(), metric_check(estimate=0.8, interval=None)], 0.07),
        ([], 0.02),
        ([metric_check(estimate=0.1, interval=None)], 0.25),
    ],
)
def test_a_scale_fits_all_its_checks_within_bounds(checks: list[Check], half: float) -> None:
    assert half_of(checks) == pytest.approx(half)


START = datetime(2026, 1, 1, tzinfo=UTC)


def trend(*values: float | None, changed: dict[int, tuple[str, ...]] | None = None) -> Trend:
    return Trend(
        "faithfulness",
        tuple(
            Point(START + timedelta(days=index), value, "pass", "abcdef1234", (changed or {}).get(index, ()))
            for index, value in enumerate(values)
        ),
    )


@pytest.mark.parametrize(
    ("values", "changed", "blocks"),
    [
        ((0.5, 0.6, 0.7, 0.8), {}, "▁▃▆█"),
        ((1.0, 1.0), {}, "██"),
        ((0.0, 0.0), {}, "▁▁"),
        ((0.800, 0.801, 0.799, 0.800), {}, "▅▅▄▅"),
        ((0.5, None, 0.5), {}, "▄ ▄"),
        ((0.5, 0.5, 0.5), {1: ("judge: now b",), 2: ("golden set changed",)}, "▄│▄┊▄"),
    ],
    ids=["a rise", "at the top", "at the bottom", "hardly a move", "a gap", "another judge and golden set"],
)
def test_blocks_rise_and_fall_with_the_values_within_their_scale(
    values: tuple[float | None, ...], changed: dict[int, tuple[str, ...]], blocks: str
) -> None:
    assert sparkline(trend(*values, changed=changed)) == blocks


def test_both_reports_show_the_trend_and_escape_what_is_foreign() -> None:
    hostile = trend(0.5, 0.6, changed={1: ("judge: now <script>alert(1)</script>",)})
    report = replace(helpdesk_report(), trends=(hostile, replace(hostile, metric="x|y <b>`z`")))
    page = render(report, "html")
    assert "<h2>Trend</h2>" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    text = render(report, "md")
    assert "Trend over 2 runs" in text
    assert "`▁│█`" in text
    assert "<b>" not in text
