"""Scales of the plots in the HTML page."""

from __future__ import annotations

from ragstone.gate.verdict import CHANGES, CheckKind, Interval
from ragstone.report.plots import axis_for
from tests.report.checks import metric_check


def test_an_axis_fits_differences_that_are_all_zero_where_no_drop_is_allowed() -> None:
    same = metric_check(kind=CheckKind.DROP, estimate=0.0, interval=Interval(0.0, 0.0, 0.95, "exact"), threshold=0.0)
    axis = axis_for([same], CHANGES)
    assert axis is not None
    assert (axis.low, axis.high) == (-0.05, 0.05)
    assert axis.x(0.0) == 120.0
