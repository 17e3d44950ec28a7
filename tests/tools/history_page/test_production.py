"""What the page of the history takes from a monitor's report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.formatting import percent
from ragstone.stats.intervals import proportion_interval
from ragstone.tools.history_page.production import (
    MAX_FIGURES,
    MAX_WINDOWS,
    Production,
    production_of,
    read_monitor_report,
)


def window(day: int, judge: str | None = "openai judge-1 0123abcd", **figures: object) -> dict[str, Any]:
    return {"window": f"2026-10-{day:02}", "judge": judge, "scored": 50, "figures": figures}


def share(value: float, n: int) -> dict[str, float]:
    return {"value": value, "n": n, "variance": value * (1 - value)}


def written(path: Path, *windows: dict[str, Any], **fields: object) -> Path:
    body = {"schema_version": 1, "length": "day", "timezone": "UTC", "windows": windows, "figures": [], **fields}
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


def production(path: Path, *windows: dict[str, Any], **fields: object) -> Production:
    shown = production_of(read_monitor_report(written(path / "report.json", *windows, **fields)))
    assert shown is not None
    return shown


def test_metrics_come_first_and_a_window_without_a_figure_has_none(tmp_path: Path) -> None:
    mean = {"value": 0.8, "n": 50, "variance": 0.02}
    metric, volume = production(
        tmp_path,
        window(2, interactions={"value": 120, "n": 0, "variance": 0}),
        window(1, interactions={"value": 100, "n": 0, "variance": 0}, faithfulness=mean),
    ).charts
    assert (metric.title, metric.newest, len(metric.dots), metric.bands) == ("Faithfulness", "0.80", 1, ())
    assert [dot.label for dot in volume.dots] == ["2026-10-01: 100", "2026-10-02: 120"]
    assert (volume.title, volume.first, volume.last) == ("Interactions", "2026-10-01", "2026-10-02")


def test_a_share_has_an_exact_interval_even_where_nothing_happened(tmp_path: Path) -> None:
    (rate,) = production(tmp_path, window(1, error_rate=share(0.0, 40)), window(2, error_rate=share(0.25, 40))).charts
    assert rate.bottom == percent(proportion_interval(0, 40).low)
    assert rate.top == percent(proportion_interval(10, 40).high)


def test_another_judge_and_a_lasting_alert_are_marked(tmp_path: Path) -> None:
    mean = {"value": 0.8, "n": 50, "variance": 0.02}
    shown = production(
        tmp_path,
        window(1, faithfulness=mean, error_rate=share(0.1, 10)),
        window(2, judge="openai judge-2 0123abcd", faithfulness=mean, error_rate=share(0.5, 10)),
        window(3, judge="openai judge-2 0123abcd", faithfulness=mean, error_rate=share(0.5, 10)),
        figures=[
            {"name": "error_rate", "alert": True, "since": "2026-10-02", "state": "FAIL"},
            {"name": "faithfulness", "alert": False, "since": None},
        ],
    )
    metric, rate = shown.charts
    assert (metric.path.count("M"), rate.path.count("M")) == (2, 1), "a line has a gap where the judge changed"
    assert [dot.word for dot in rate.dots] == ["none", "fail", "fail"]
    assert [span.label for span in rate.spans] == ["alert: worse since 2026-10-02"]
    assert metric.spans == ()
    assert shown.alerts == ("Errors: worse since 2026-10-02.",)


def test_versions_have_figures_of_their_own(tmp_path: Path) -> None:
    shown = production(
        tmp_path,
        window(1, error_rate=share(0.1, 50)),
        versions={
            "v1": {"error_rate": share(0.1, 50)},
            "v2": {"error_rate": share(0.3, 50), "faithfulness": {"value": 0.9}},
        },
    )
    assert shown.versions == ("v1", "v2")
    assert [(row.title, row.values) for row in shown.figures] == [
        ("Errors", ("10 %", "30 %")),
        ("Faithfulness", ("–", "0.90")),
    ]


def test_a_report_without_windows_shows_nothing(tmp_path: Path) -> None:
    assert production_of(read_monitor_report(written(tmp_path / "report.json"))) is None


def test_figures_beyond_all_numbers_are_drawn(tmp_path: Path) -> None:
    for value in (1e308, -1e308, 0.0):
        (rate,) = production(tmp_path, window(1, error_rate={"value": value, "n": 10})).charts
        assert len(rate.dots) == 1


def body(window: str) -> str:
    windows = [{"window": window, "figures": {}}]
    return json.dumps({"schema_version": 1, "length": "day", "timezone": "UTC", "windows": windows})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not the report of a monitor: Invalid JSON"),
        ("[]", "not the report of a monitor: must be "),
        ('{"schema_version": 2}', "not the report of a monitor: 'schema_version' must be 1"),
        (body(window="2026-10-99"), "a window is not a date"),
        (body(window="x"), "windows.0.window"),
        (body(window="2026-10-01").replace("{}", '{"a": {"value": NaN}}'), "not the report"),
        (body(window="2026-10-01").replace("{}", '{"a": {"value": 1, "n": 1e300}}'), "windows.0.figures.a.n"),
        (
            body(window="2026-10-01").replace(
                "{}", json.dumps({f"a{at}": {"value": 1} for at in range(MAX_FIGURES + 1)})
            ),
            "it has 201 figures",
        ),
        (
            json.dumps({**json.loads(body(window="")), "windows": [window(1)] * (MAX_WINDOWS + 1)}),
            "not the report of a monitor: 'windows': ",
        ),
    ],
)
def test_what_is_no_report_is_refused_and_says_why(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_monitor_report(path)
    assert says in str(caught.value)
    assert "ragstone monitor --format json" in (caught.value.hint or "")


def test_a_report_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        read_monitor_report(tmp_path / "none.json")
