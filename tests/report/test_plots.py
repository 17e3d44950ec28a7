"""Scales and plots of characters."""

from __future__ import annotations

import pytest

from ragstone.gate.verdict import CHANGES, Check, CheckKind, Interval
from ragstone.report.plots import axis_for
from ragstone.report.trend import draw, half_of
from tests.report.checks import metric_check


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
