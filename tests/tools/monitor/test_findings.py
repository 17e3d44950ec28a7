"""What is found in the figures of a window, by its limits and by the windows before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.policy import policy_from_mapping
from ragstone.history.lines import FigurePart, RunLine, WindowPart
from ragstone.tools.monitor.findings import MIN_WINDOWS, judge_window, values_before
from tests.history.seasons import START, line

STEADY = {"questions": [100.0] * MIN_WINDOWS}


def window(figures: Mapping[str, float], day: int = 0, *, n: int = 100, days: int = 1, **fields: Any) -> RunLine:
    """The line of a window that begins `day` days after START, with figures of `n` answers."""
    start = START + timedelta(days=day)
    parts = {name: FigurePart(value=value, n=n) for name, value in {"questions": n, **figures}.items()}
    part = WindowPart(end=start + timedelta(days=days), figures=parts, alerts=fields.pop("alerts", ()))
    return line(day, time=start, metrics=(), window=part, **fields)


def found(
    figures: Mapping[str, float], before: Mapping[str, Sequence[float]] = STEADY, *, n: int = 100, **policy: Any
) -> dict[str, str]:
    """The level of what is found, by its figure."""
    one = window(figures, n=n)
    values = {**{name: [] for name in one.figures}, **before}
    verdict = judge_window(one, RunScores("", {}, {}), values, policy_from_mapping(policy))
    return {finding.where or finding.kind: finding.level.value for finding in verdict.findings}


@pytest.mark.parametrize(
    ("figures", "n", "monitor", "finding"),
    [
        ({"errors": 0.0}, 100, {}, {}),
        ({"errors": 0.5}, 100, {}, {"errors": "failure"}),
        ({"slow": 0.08}, 1000, {}, {"slow": "failure"}),
        ({"slow": 0.06}, 1000, {}, {"slow": "warning"}),  # not shown beyond chance
        ({"slow": 0.03}, 1000, {}, {"slow": "warning"}),
        ({"slow": 0.01}, 1000, {}, {}),
        ({"slow": 1.0}, 100, {"max_slow": 1.0}, {"slow": "warning"}),
        ({"slow": 0.01}, 1000, {"max_slow": 0.0}, {"slow": "failure"}),
        ({"slow": 0.0}, 1000, {"max_slow": 0.0}, {}),
        ({"without_sources": 1.0}, 50, {}, {"without_sources": "failure"}),
        ({"abstentions": 1.0, "latency_mean": 60.0}, 50, {}, {}),  # which have no limit
        ({"questions": 0.0}, 100, {}, {"questions": "warning"}),
    ],
)
def test_a_limit_is_exceeded_beyond_chance_or_notably(
    figures: dict[str, float], n: int, monitor: dict[str, Any], finding: dict[str, str]
) -> None:
    assert found(figures, n=n, monitor=monitor) == finding


@pytest.mark.parametrize(
    ("name", "before", "now", "n", "is_worse"),
    [
        ("abstentions", [0.0] * 7, 0.5, 100, True),
        ("abstentions", [0.0] * 6, 0.5, 100, False),  # too few windows to compare with
        ("abstentions", [0.0] * 7, 0.05, 1000, False),  # as much more as is allowed
        ("abstentions", [0.0] * 7, 0.06, 1000, True),
        ("abstentions", [0.0] * 7, 0.5, 10, True),
        ("abstentions", [0.0] * 7, 0.5, 8, False),  # of too few answers
        ("abstentions", [0.5] * 7, 0.0, 100, False),  # fewer are no loss
        ("abstentions", [0.0, 0.6] * 4, 0.5, 100, False),  # within what windows differ by
        ("abstentions", [0.0] * 7 + [0.1], 0.2, 100, True),  # of the newest two
        ("latency_mean", [2.0] * 7, 3.0, 100, False),
        ("latency_mean", [2.0] * 7, 3.01, 100, True),
        ("latency_mean", [2.0] * 7, 0.5, 100, False),
    ],
)
def test_a_figure_has_changed_for_the_worse(name: str, before: list[float], now: float, n: int, is_worse: bool) -> None:
    assert found({name: now}, {**STEADY, name: before}, n=n) == ({name: "failure"} if is_worse else {})


THEN: dict[str, Any] = {"figures": {"errors": 0.5, "faithfulness": 0.75}, "versions": {"faithfulness": "1"}}


@pytest.mark.parametrize(
    ("then", "values"),
    [
        ({}, {"errors": [0.5], "faithfulness": [0.75]}),
        ({"day": 4}, {"errors": [], "faithfulness": []}),
        ({"days": 2}, {"errors": [], "faithfulness": []}),
        ({"day": 1}, {"errors": [], "faithfulness": []}),  # before the level that is accepted
        ({"alerts": ("errors",)}, {"errors": [], "faithfulness": [0.75]}),
        ({"judge_key": "9" * 16}, {"errors": [0.5], "faithfulness": []}),
        ({"versions": {"faithfulness": "2"}}, {"errors": [0.5], "faithfulness": []}),
        ({"figures": {"errors": 0.5, "users": 3.0}}, {"errors": [0.5], "faithfulness": []}),
    ],
    ids=["alike", "the same window", "longer", "too old", "an alert", "another judge", "another version", "others"],
)
def test_a_window_is_compared_with_those_that_are_alike(then: dict[str, Any], values: dict[str, list[float]]) -> None:
    now = window(THEN["figures"], 4, versions=THEN["versions"])
    accepted = {"monitor": {"level_since": (START + timedelta(days=2)).date()}}
    past = [window(**{"day": 2, **THEN, **then}), line(3)]
    questions = [] if then.keys() & {"day", "days"} else [100.0]
    assert values_before(now, past, policy_from_mapping(accepted)) == {"questions": questions, **values}
