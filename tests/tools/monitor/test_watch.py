"""Monitoring real log files: everything is counted once, and nothing is lost in silence."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.source import Source
from ragstone.settings.settings import Settings
from ragstone.system.response import Context
from ragstone.tools.monitor.alerts_file import AlertsTable, parse_alerts, read_alerts_file
from ragstone.tools.monitor.figures import Figure, Window
from ragstone.tools.monitor.interaction import Problem
from ragstone.tools.monitor.outcome import Monitored, watch_figures
from ragstone.tools.monitor.report import monitor_json, monitor_markdown, monitor_text
from ragstone.tools.monitor.versions import compare_versions
from ragstone.tools.monitor.watch import monitor

START = datetime(2026, 10, 1, tzinfo=UTC)
COUNT_ONLY = {"sample": {"size": 0}}


def line(day: float, **more: Any) -> dict[str, Any]:
    when = START + timedelta(days=day)
    return {"id": f"{day:.5f}", "timestamp": when.isoformat(), "query": "How long?", "answer": "30 days.", **more}


def days(first: int, last: int, n: int = 50, **more: Any) -> Iterator[dict[str, Any]]:
    for day in range(first, last):
        for i in range(n):
            yield line(day + (i + 0.5) / n, **more)


def write(path: Path, records: Iterator[Mapping[str, Any]] | list[dict[str, Any]], mode: str = "w") -> Path:
    with path.open(mode) as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def watch(
    folder: Path,
    *logs: Path | str,
    day: float = 1000.0,
    rules: dict[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Monitored:
    table: AlertsTable = parse_alerts(COUNT_ONLY if rules is None else rules, Source("alerts.toml"))
    context = RunContext(environ=environ or {}, now=lambda: START + timedelta(days=day))
    return asyncio.run(
        monitor(
            [str(log) for log in logs], table, Settings(root=folder), context,
            state_file=folder / "state.sqlite", out=folder / "out",
        )
    )  # fmt: skip


def total(found: Monitored) -> int:
    return int(sum(one.figures["interactions"].value for one in (*found.windows, *found.open)))


def test_a_log_that_grows_is_counted_on_from_where_it_was(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 2))
    assert watch(tmp_path, log, day=2.5).logs[0].new == 100
    write(log, days(2, 3), "a")
    found = watch(tmp_path, log, day=3.5)
    assert (found.logs[0].lines, found.logs[0].new, found.logs[0].known) == (50, 50, 0)
    assert [one.name for one in found.windows] == ["2026-10-01", "2026-10-02", "2026-10-03"]
    assert total(found) == 150
    again = watch(tmp_path, log, day=3.5)
    assert (again.logs[0].lines, total(again)) == (0, 150)


def test_rotated_and_compressed_logs_are_known_by_their_beginning(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 1))
    watch(tmp_path, log, day=0.995)
    write(log, days(1, 2), "a")
    with gzip.open(tmp_path / "a.jsonl.1.gz", "wb") as packed:
        packed.write(log.read_bytes())
    write(log, days(2, 3))
    found = watch(tmp_path, tmp_path / "a.jsonl*", day=2.995)
    assert {Path(one.name).name: one.lines for one in found.logs} == {"a.jsonl": 50, "a.jsonl.1.gz": 50}
    assert total(found) == 150


def test_a_copy_of_a_log_without_its_beginning_is_known_line_by_line(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 1))
    tail = tmp_path / "b.jsonl"
    tail.write_text("".join(log.read_text().splitlines(keepends=True)[20:]))
    found = watch(tmp_path, log, tail, day=0.995)
    assert (found.logs[1].new, found.logs[1].known, total(found)) == (0, 30, 50)


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_was_written_anew_with_the_same_beginning_is_read_from_there(tmp_path: Path, packed: bool) -> None:
    records = [line(0.1), *days(0, 1)]
    log = tmp_path / "a.jsonl"

    def save(some: list[dict[str, Any]]) -> None:
        write(log, some)
        if packed:
            log.write_bytes(gzip.compress(log.read_bytes()))

    save(records)
    watch(tmp_path, log, day=0.999)
    save([*records[:20], line(0.98)])
    found = watch(tmp_path, log, day=0.999)
    assert (found.logs[0].new, found.logs[0].known, total(found)) == (1, 20, 52)


def test_an_unfinished_line_is_left_for_the_next_job(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 1))
    whole = json.dumps(line(0.999))
    with log.open("a") as file:
        file.write(whole[:30])
    found = watch(tmp_path, log, day=0.9999)
    assert (found.logs[0].new, found.logs[0].unfinished_bytes, dict(found.logs[0].problems)) == (50, 30, {})
    assert "an unfinished last line" in monitor_text(found)
    with log.open("a") as file:
        file.write(whole[30:])  # complete, though without a line end
    assert watch(tmp_path, log, day=0.9999).logs[0].new == 1


def test_bad_lines_are_counted_by_what_is_wrong_with_them(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    with log.open("wb") as file:
        for record in (
            b"not json", b"[1]", b'{"query": "q"}', b'{"timestamp": "never", "query": "q"}', b"\xff\xfe\n", b"",
            json.dumps({"timestamp": START.isoformat(), "level": "info"}).encode(),
            json.dumps({**line(0.1), "timestamp": "2030-01-01T00:00:00Z"}).encode(),
            json.dumps({**line(0.1), "timestamp": 0}).encode(),
            b'{"query": "' + b"x" * 10_000_001 + b'"}',
            b"[" * 100_000, json.dumps(line(0.2)).encode(),
        ):  # fmt: skip
            file.write(record + b"\n")
    found = watch(tmp_path, log, day=0.995).logs[0]
    assert found.new == 1
    assert found.problems == {
        Problem.NOT_JSON: 3, Problem.NOT_OBJECT: 1, Problem.NO_TIME: 1, Problem.BAD_TIME: 1, Problem.EMPTY: 1,
        Problem.FUTURE: 1, Problem.TOO_LONG: 1, Problem.TOO_OLD: 1,
    }  # fmt: skip


def test_a_damaged_archive_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    random.seed(1)
    text = "".join(json.dumps({**one, "x": random.random()}) + "\n" for one in days(0, 1, 500)).encode()
    packed = gzip.compress(text)
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    found = watch(tmp_path, tmp_path / "a.jsonl.gz", day=0.995)
    assert found.logs[0].damage is not None
    assert 0 < found.logs[0].new < 500
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    assert total(watch(tmp_path, tmp_path / "a.jsonl.gz", day=0.995)) == 500


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_exports_of_a_store_are_read_whole_and_known_again(tmp_path: Path, ending: str) -> None:
    records = list(days(0, 1, 20))
    log = tmp_path / f"a.{ending}"
    if ending == "json":
        log.write_text(json.dumps(records))
    else:
        rows = [
            "id,timestamp,query,answer",
            *(f"{r['id']},{r['timestamp']},{r['query']},{r['answer']}" for r in records),
        ]
        log.write_text("\n".join(rows))
    assert watch(tmp_path, log, day=0.995).logs[0].new == 20
    again = watch(tmp_path, log, day=0.995)
    assert (again.logs[0].known, total(again)) == (20, 20)


def test_late_lines_are_reported_and_change_no_decided_window(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 1))
    watch(tmp_path, log, day=1.5)
    write(log, [line(0.123456)], "a")
    found = watch(tmp_path, log, day=1.5)
    assert found.logs[0].problems == {Problem.TOO_LATE: 1}
    assert found.windows[0].figures["interactions"].value == 50


def test_a_window_without_interactions_is_an_outage_only_while_the_monitor_runs(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 2))
    assert [one.name for one in watch(tmp_path, log, day=10.5).windows] == ["2026-10-01", "2026-10-02"]
    found = watch(tmp_path, log, day=11.5)
    assert found.windows[-1].name == "2026-10-11"
    assert found.empty
    assert "no interactions" in monitor_text(found)


def test_feedback_that_comes_later_belongs_to_its_interaction(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    when = START + timedelta(days=0.5)
    number = ragstone.log_interaction("q", "a", timestamp=when, path=log)
    ragstone.log_interaction("q2", "a", timestamp=when, path=log)
    ragstone.log_interaction(id=number, feedback=False, timestamp=when, path=log)
    ragstone.log_interaction(id="nobody", feedback=True, timestamp=when, path=log)
    found = watch(tmp_path, log, day=1.5)
    assert found.logs[0].problems == {Problem.NO_MATCH: 1}
    figures = found.windows[0].figures
    assert figures["interactions"].value == 2
    assert (figures["feedback_rate"].value, figures["bad_feedback_rate"].value) == (0.5, 1.0)


def test_the_figures_of_a_window(tmp_path: Path) -> None:
    records = [
        line(0.1, latency_ms=1000, sources=["a b"], user_id=1, session_id="x", results=3),
        line(0.2, latency_ms=6000, sources=[], user_id=1, session_id="y", results=0),
        line(0.3, latency_ms=2000, answer="I don't know.", sources=[], user_id=2, results=1),
        line(0.4, answer=None, error="Timeout"),
    ]
    found = watch(tmp_path, write(tmp_path / "a.jsonl", records), day=1.5)
    values = {name: figure.value for name, figure in found.windows[0].figures.items()}
    assert values == pytest.approx(
        {
            "interactions": 4, "users": 2, "sessions": 2, "latency_mean": 3.0, "latency_p95": 6.0, "slow_rate": 1 / 3,
            "no_source_rate": 1 / 3, "zero_result_rate": 1 / 3, "abstention_rate": 1 / 3, "error_rate": 0.25,
        }
    )  # fmt: skip


def test_days_begin_in_the_time_zone_of_the_rules(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", [line(0.99)])
    rules = {**COUNT_ONLY, "windows": {"timezone": "Europe/Berlin"}}
    assert watch(tmp_path, log, day=5, rules=rules).windows[0].name == "2026-10-02"
    with pytest.raises(ConfigError, match="was created with timezone = Europe/Berlin"):
        watch(tmp_path, log, day=5)


@pytest.mark.heavy
def test_a_rise_of_errors_fails_and_its_end_is_reported(tmp_path: Path) -> None:
    random.seed(2)
    log = tmp_path / "a.jsonl"

    def noisy(first: int, last: int, share: float) -> Iterator[dict[str, Any]]:
        for one in days(first, last, 200):
            yield {**one, "error": "Timeout"} if random.random() < share else one

    write(log, noisy(0, 30, 0.02))
    steady = watch(tmp_path, log, day=30.5)
    assert not steady.alerts
    write(log, noisy(30, 33, 0.12), "a")
    found = watch(tmp_path, log, day=33.5)
    assert [one.name for one in found.alerts] == ["error_rate"]
    assert found.failing
    assert found.alerts[0].since in ("2026-10-30", "2026-10-31")
    assert "FAIL: errors: " in monitor_text(found)
    write(log, noisy(33, 45, 0.02), "a")
    states = [watch(tmp_path, log, day=45.5)]
    assert not states[-1].failing


def test_figures_and_lines_that_are_watched_share_one_false_alarm_a_year() -> None:
    generator = random.Random(4)
    names = ("error_rate", "slow_rate", "abstention_rate", "latency_mean", "users")
    windows = [
        Window(
            (START + timedelta(days=day)).date().isoformat(),
            {name: Figure(0.1 + 0.02 * generator.gauss(0.0, 1.0), 200.0, 0.09) for name in names},
        )
        for day in range(30)
    ]

    def limit_of(**alerts: dict[str, object]) -> float:
        rules = parse_alerts({"alerts": alerts}, Source("alerts.toml"))
        look = {one.name: one for one in watch_figures(windows, rules, per_year=365.25)}["error_rate"].look
        assert look is not None
        return look.limit

    off: dict[str, object] = {"action": "off"}
    assert limit_of() > limit_of(slow_rate=off) > limit_of(slow_rate=off, abstention_rate=off)
    assert limit_of() == limit_of(users=off)  # is not watched by default
    assert limit_of() < limit_of(latency_mean={"max": 3.0}) < limit_of(latency_mean={"max": 3.0, "min": 0.01})


@pytest.mark.heavy
def test_a_system_that_is_bad_from_the_start_is_not_its_own_norm(tmp_path: Path) -> None:
    bad = {"latency_ms": 9000, "answer": "Bananas were invented in 1834 by the king of Norway."}
    records = [
        {**one, **bad, "id": f"{n}-{one['id']}", "sources": sources}
        for n, sources in ((180, []), (20, ["Shoes can be returned for 30 days."]))
        for one in days(0, 3, n)
    ]
    found = watch(tmp_path, write(tmp_path / "a.jsonl", records), day=3.5, rules={})
    assert {one.name: one.since for one in found.alerts} == dict.fromkeys(
        ("slow_rate", "no_source_rate", "faithfulness"), "2026-10-01"
    )
    assert found.failing
    assert re.search(r"FAIL: faithfulness: .*0\.50.*0\.00 since 2026-10-01", monitor_text(found))
    told = {one["name"]: one for one in json.loads(monitor_json(found))["figures"]}
    assert (told["slow_rate"]["lines"], told["slow_rate"]["beyond"]) == ({"max": 0.5}, "max")


def test_every_figure_can_have_a_line_without_an_anchor(tmp_path: Path) -> None:
    lines: dict[str, dict[str, float]] = {
        "interactions": {"min": 100_000},
        "users": {"min": 500},
        "sessions": {"max": 0},
        "latency_mean": {"max": 1.0},
        "latency_p95": {"max": 1.0},
        "slow_rate": {"max": 0.1},
        "no_source_rate": {"max": 0.1},
        "zero_result_rate": {"max": 0.1},
        "abstention_rate": {"max": 0.1},
        "error_rate": {"max": 0.05},
        "feedback_rate": {"max": 0.1},
        "bad_feedback_rate": {"max": 0.1},
        "faithfulness": {"min": 0.9},
    }
    about: dict[str, Any] = {"user_id": "one", "session_id": "one", "latency_ms": 9000, "feedback": False}
    records = [
        *days(0, 3, 40, **about, sources=["Shoes are red."], answer="Bananas were invented by the king."),
        *days(0, 3, 30, **about, sources=[], results=0),
        *days(0, 3, 30, **about, abstained=True),
        *days(0, 3, 30, **about, error="Timeout"),
    ]
    log = write(tmp_path / "a.jsonl", [{**one, "id": str(number)} for number, one in enumerate(records)])
    found = watch(tmp_path, log, day=3.5, rules={"alerts": lines, "sample": {"size": 5}})
    alerts = {one.name: one for one in found.alerts}
    assert alerts.keys() == lines.keys()
    for name, alert in alerts.items():
        assert alert.beyond in lines[name]
        assert alert.anchor_windows == 3
        assert alert.action == ("fail" if name in ("error_rate", "faithfulness") else "warn")


def test_a_figure_within_its_lines_and_one_that_may_be_anything_raise_no_alert(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 10, 100, latency_ms=6000))
    rules = {**COUNT_ONLY, "alerts": {"slow_rate": {"max": 1.0}, "latency_mean": {"max": 6.5, "min": 1.0}}}
    assert not watch(tmp_path, log, day=10.5, rules=rules).alerts


def test_one_interaction_is_an_alert_where_none_is_allowed(tmp_path: Path) -> None:
    records = [*days(0, 1, 300, sources=["a b"], latency_ms=100), line(0.5003, sources=[], latency_ms=5100)]
    rules = {**COUNT_ONLY, "alerts": {"slow_rate": {"max": 0.0}, "no_source_rate": {"max": 0.0}}}
    found = watch(tmp_path, write(tmp_path / "a.jsonl", records), day=1.5, rules=rules)
    assert [one.name for one in found.alerts] == ["slow_rate", "no_source_rate"]


def test_answers_that_ignore_the_first_context_are_an_alert_without_an_anchor() -> None:
    def window(used: float) -> Window:
        return Window("2026-10-01", {"top_context_used": Figure(used, 200.0, used * (1 - used))}, "a judge")

    for used, alerts in ((0.4, True), (0.7, False), (0.9, False)):
        (one,) = watch_figures([window(used)], AlertsTable(), per_year=365.25)
        assert one.alert is alerts


def test_the_sample_is_scored_and_kept_as_a_run(tmp_path: Path) -> None:
    source = ["Shoes can be returned for 30 days."]
    log = write(tmp_path / "a.jsonl", days(0, 1, 30, sources=source, answer="Shoes can be returned for 30 days."))
    found = watch(tmp_path, log, day=1.5, rules={"sample": {"size": 5}})
    assert found.windows[0].scored == 5
    assert found.windows[0].figures["faithfulness"].n == 5
    assert (tmp_path / "out" / "2026-10-01" / "manifest.json").is_file()
    with sqlite3.connect(tmp_path / "state.sqlite") as state:
        assert state.execute("SELECT count(*) FROM interactions WHERE payload IS NOT NULL").fetchone() == (0,)


def test_the_run_has_the_drawn_interactions_as_they_were_logged(tmp_path: Path) -> None:
    sources = [{"page_content": "Shoes: 30 days.", "doc_id": 7}, "Hats are never taken back."]
    asked = line(0.1, query="How long, please?", sources=sources, latency_ms=1500, session_id="s1", route="shop,help")
    log = write(tmp_path / "a.jsonl", [asked])
    watch(tmp_path, log, day=1.5, rules={"sample": {"size": 5}})
    run = RunDirectory.open(tmp_path / "out" / "2026-10-01")
    (record,) = run.records()
    assert (record.sample.question, record.sample.tags) == ("How long, please?", ("shop,help",))
    assert record.sample.group is not None
    assert "s1" not in record.sample.group
    response = record.response
    assert (response.answer, response.latency_s) == ("30 days.", 1.5)
    assert response.contexts == (Context("Shoes: 30 days.", "7"), Context("Hats are never taken back."))
    assert run.manifest.system.entrypoint == "file:interactions of 2026-10-01"


def test_sources_without_texts_are_counted_and_not_judged(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 1, 10, sources=["https://example.org/returns"]))
    found = watch(tmp_path, log, day=1.5, rules={"sample": {"size": 5}})
    assert found.windows[0].scored == 0
    assert found.windows[0].figures["no_source_rate"].value == 0.0


@pytest.mark.parametrize("column", ["system_version", "systemHash", "promptHash"])
def test_a_column_of_the_log_splits_the_figures_by_version(tmp_path: Path, column: str) -> None:
    records = [
        *days(0, 4, 40, latency_ms=1000, **{column: "v1"}),
        *({**one, "id": f"new {one['id']}"} for one in days(3, 4, 20, latency_ms=9000, **{column: "v2"})),
    ]
    found = watch(tmp_path, write(tmp_path / "a.jsonl", records), day=4.5)
    assert list(found.windows[0].versions) == ["v1"]
    last = found.windows[-1].versions
    assert {name: one["interactions"].value for name, one in last.items()} == {"v1": 40, "v2": 20}
    assert {name: one["latency_p95"].value for name, one in last.items()} == {"v1": 1, "v2": 9}
    assert found.windows[-1].figures["interactions"].value == 60
    told = json.loads(monitor_json(found))
    assert (list(told["versions"]), told["together"]) == (["v1", "v2"], True)
    (mean,) = [one for one in told["differences"] if one["name"] == "latency_mean"]
    assert (mean["before"], mean["after"], mean["word"]) == (1, 9, "worse")
    assert "worse: latency, mean, 1.00 s → 9.00 s" in monitor_text(found)
    assert "worse: latency, mean" in monitor_markdown(found)


def test_a_column_with_any_name_can_be_the_version_and_without_one_there_are_none(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 2, 10, meta={"build": 7}))
    rules = {**COUNT_ONLY, "logs": {"columns": {"version": "meta.build"}}}
    assert list(watch(tmp_path, log, day=2.5, rules=rules).windows[0].versions) == ["7"]
    (tmp_path / "state.sqlite").unlink()
    found = watch(tmp_path, log, day=2.5)
    assert (found.windows[0].versions, found.versions.figures) == ({}, {})


def test_each_version_is_scored_as_a_run_that_names_it(tmp_path: Path) -> None:
    source = ["Shoes can be returned for 30 days."]
    records = [
        {**one, "id": f"{version} {one['id']}", "answer": answer, "sources": source, "system_version": version}
        for version, answer in (("v1", source[0]), ("v/2", "Bananas were invented in 1834 by a king."))
        for one in days(0, 1, 30)
    ]
    found = watch(tmp_path, write(tmp_path / "a.jsonl", records), day=1.5, rules={"sample": {"size": 20}})
    versions = found.windows[0].versions
    assert versions["v1"]["faithfulness"].value > 0.9
    assert versions["v/2"]["faithfulness"].value < 0.1
    assert found.windows[0].figures["faithfulness"].value == pytest.approx(0.5, abs=0.05)
    assert found.windows[0].scored == 20
    systems = {path.name: RunDirectory.open(path).manifest.system.version for path in found.runs}
    assert set(systems.values()) == {"v1", "v/2"}
    assert systems["2026-10-01-v1"] == "v1"
    assert all(path.parent == tmp_path / "out" for path in found.runs)


@pytest.mark.parametrize(("field", "column"), [("system_version", "version"), ("route", "route")])
def test_versions_and_routes_without_end_share_a_place(tmp_path: Path, field: str, column: str) -> None:
    log = write(tmp_path / "a.jsonl", [line(0.1 + i / 1e5, **{field: f"r{i}"}) for i in range(200)])
    watch(tmp_path, log, day=0.995)
    with sqlite3.connect(tmp_path / "state.sqlite") as state:
        assert state.execute(f"SELECT count(DISTINCT {column}) FROM interactions").fetchone() == (51,)


def test_injected_text_is_stored_as_text_and_escaped(tmp_path: Path) -> None:
    evil = "'); DROP TABLE interactions; --<script>alert(1)</script>\x1b[2J @team ::set-output name=x::y"
    log = write(tmp_path / "x\x1b[2J<b>@team.jsonl", [line(0.1, route=evil, user_id=evil, query=evil, feedback=evil)])
    found = watch(tmp_path, log, day=1.5)
    assert total(found) == 1
    assert "\x1b" not in monitor_text(found) + monitor_markdown(found)
    assert "<b>" not in monitor_markdown(found).replace("`", "") or "`" in monitor_markdown(found)
    json.loads(monitor_json(found))


def test_a_state_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", days(0, 2))
    watch(tmp_path, log, day=2.5)
    with sqlite3.connect(tmp_path / "state.sqlite") as state:
        state.execute("PRAGMA user_version = 1")
    with pytest.raises(ConfigError, match="has schema version 1, expected 2"):
        watch(tmp_path, log, day=3.5)


def test_versions_one_after_the_other_are_compared_and_equal_ones_differ_in_nothing() -> None:
    def window(day: int, version: str, rate: float) -> Window:
        figures = {"interactions": Figure(100.0), "error_rate": Figure(rate, 100.0, rate * (1 - rate))}
        return Window(f"2026-10-{day:02}", figures, versions={version: figures})

    rates = (0.02, 0.03, 0.01, 0.02)
    worse = compare_versions([*(window(i, "a", r) for i, r in enumerate(rates)), window(5, "b", 0.3)])
    equal = compare_versions([*(window(i, "a", r) for i, r in enumerate(rates)), window(5, "b", 0.03)])
    assert [(one.name, one.word) for one in worse.differences] == [("error_rate", "worse")]
    assert [(one.name, one.word) for one in equal.differences] == [("error_rate", "no difference shown")]
    assert not worse.together


def test_a_small_route_is_drawn_more_often_and_weighs_less(tmp_path: Path) -> None:
    good, bad = "Shoes can be returned for 30 days.", "Bananas grow on the moon of Jupiter."
    many = [line(0.3 + i / 10_000, route="many", answer=good, sources=[good]) for i in range(180)]
    few = [line(0.6 + i / 10_000, route="few", answer=bad, sources=[good]) for i in range(20)]
    found = watch(tmp_path, write(tmp_path / "a.jsonl", many + few), day=1.5, rules={"sample": {"size": 40}})
    figure = found.windows[0].figures["faithfulness"]
    assert found.windows[0].scored == 40
    assert figure.value == pytest.approx(0.88, abs=0.03)  # 0.73 if every draw weighed the same
    assert figure.n < 40


def test_persons_are_hashed_with_the_users_key_and_private_texts_are_nowhere(tmp_path: Path) -> None:
    private = {"query": "PRIVATE question here", "sources": ["PRIVATE text"]}
    log = write(tmp_path / "a.jsonl", days(0, 2, 10, user_id="anna@example.org", session_id="anna-1", **private))
    rules = {"sample": {"size": 5}, "privacy": {"texts": False}}
    found = watch(tmp_path, log, day=2.5, rules=rules, environ={"RAGSTONE_MONITOR_KEY": "a key of ours"})
    assert found.windows[0].scored == 5
    assert not (tmp_path / "out").exists()
    written = (tmp_path / "state.sqlite").read_bytes()
    for text in (b"anna", b"a key of ours"):
        assert text not in written
    with sqlite3.connect(tmp_path / "state.sqlite") as state:
        assert state.execute("SELECT count(*) FROM interactions WHERE payload IS NOT NULL").fetchone() == (0,)
    for render in (monitor_text, monitor_markdown, monitor_json):
        assert "PRIVATE" not in render(found)
        assert "anna" not in render(found)


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.sqlite").write_text("not a database, but long enough to look at " * 20)
    with pytest.raises(ConfigError, match="state of a monitor"):
        watch(tmp_path, write(tmp_path / "a.jsonl", days(0, 1)))


def test_a_log_that_is_not_there_and_none_at_all_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="log not found"):
        watch(tmp_path, tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match="no logs are given"):
        watch(tmp_path)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"alert": {}}, "unknown key 'alert'"),
        ({"alerts": {"error_rate": {"shft": 1}}}, "Did you mean 'shift'"),
        ({"alerts": {"eror_rate": {"shift": 1.0}}}, "neither a figure nor a metric"),
        ({"windows": {"timezone": "Mars"}}, "'windows.timezone' must be .* found \"Mars\""),
        ({"logs": {"columns": {"question": "q"}}}, "has no field 'question'"),
        ({"windows": {"anchor": 2}}, "must be at least 5, found 2"),
        ({"alerts": {"slow_rate": {"max": 5}}}, "'alerts.slow_rate.max' must be at most 1, a share, found 5"),
        ({"alerts": {"latency_p95": {"max": -1}}}, "must be at least 0"),
    ],
)
def test_mistakes_in_the_rules_are_named(rules: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        watch(tmp_path, write(tmp_path / "a.jsonl", days(0, 1)), rules=rules)


def test_a_mistake_in_the_file_of_rules_is_at_its_line(tmp_path: Path) -> None:
    rules = tmp_path / "alerts.toml"
    rules.write_text("[sample]\nsize = 5\n\n[windows]\nanchr = 7\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"alerts\.toml:5: unknown key 'windows\.anchr'\.\n  Did you mean 'anchor'"):
        read_alerts_file(rules)


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "ragstone", "monitor", "a.jsonl", "--no-scores", "--format", "json", *more]


@pytest.mark.usefixtures("processes")
def test_a_killed_job_and_two_at_once_count_everything_once(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", days(0, 4, 10_000))
    first = subprocess.Popen(command(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE)
    state = tmp_path / "ragstone-monitor.sqlite"
    for _ in range(600):  # until it has written something
        if state.exists() and state.stat().st_size > 200_000:
            break
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    both = [subprocess.Popen(command(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE) for _ in range(2)]
    for one in both:
        one.communicate()
        assert one.returncode == 0
    last = subprocess.run(command(tmp_path), cwd=tmp_path, capture_output=True, check=True)
    windows = json.loads(last.stdout)["windows"]
    assert [one["figures"]["interactions"]["value"] for one in windows] == [10_000] * 4


@pytest.mark.parametrize("indent", [None, 2])
def test_files_of_traces_are_read_whole_and_counted_once(tmp_path: Path, indent: int | None) -> None:
    trace = {"input": "q", "output": "a", "projectId": "p"}
    times = [(START + timedelta(minutes=i)).isoformat() for i in range(5)]
    traces = [{"id": f"t{i}", "timestamp": time, **trace} for i, time in enumerate(times)]
    log = tmp_path / "page.json"
    log.write_text(json.dumps({"data": traces, "meta": {}}, indent=indent))
    assert watch(tmp_path, log, day=0.995).logs[0].new == 5
    again = watch(tmp_path, log, day=0.995)
    assert (again.logs[0].new, total(again)) == (0, 5)
