"""Real log files as windows: everything is counted once, and what can't be read is said."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone.errors import ConfigError
from ragstone.tools.monitor import window as windows
from ragstone.tools.monitor.interactions import BAD_FIELD, EMPTY
from ragstone.tools.monitor.logs import NOT_JSON, NOT_OBJECT, TOO_LONG
from ragstone.tools.monitor.window import INSIDE, NO_MATCH, OUTSIDE, period_before
from tests.tools.monitor.production import START, interaction, monitor_day, values, write


def day_of(n: int, day: int = 0, **more: Any) -> Iterator[dict[str, Any]]:
    for number in range(n):
        yield interaction(day + (number + 0.5) / n, **more)


def test_the_figures_of_a_window(tmp_path: Path) -> None:
    records = [
        interaction(0.1, latency_ms=1000, sources=["a b"], user_id=1, session_id="x", results=3),
        interaction(0.2, latency_ms=6000, sources=[], user_id=1, session_id="y", results=0),
        interaction(0.3, latency_ms=2000, answer="I don't know.", sources=[], user_id=2, results=1),
        interaction(0.4, answer=None, error="Timeout"),
        interaction(1.0),
    ]
    monitored = monitor_day(tmp_path, write(tmp_path / "a.jsonl", records))
    assert values(monitored) == pytest.approx(
        {
            "questions": 4, "users": 2, "sessions": 2, "latency_mean": 3.0, "latency_p95": 6.0, "slow": 1 / 3,
            "errors": 0.25, "without_sources": 1 / 2, "without_results": 1 / 3, "abstentions": 1 / 3,
        }
    )  # fmt: skip
    assert monitored.counts == {INSIDE: 4, OUTSIDE: 1}


def test_an_interaction_counts_once_in_whatever_files_it_is(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", day_of(50))
    packed = tmp_path / "a.jsonl.1.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    monitored = monitor_day(tmp_path, str(tmp_path / "a.jsonl*"))
    assert monitored.counts == {INSIDE: 100}
    assert values(monitored)["questions"] == 50


def test_bad_lines_are_counted_by_what_is_wrong_with_them(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    with log.open("wb") as file:
        for record in (
            b"not json", b"[1]", b'{"query": "q"}', b'{"timestamp": "never", "query": "q"}', b"\xff\xfe\n", b"",
            json.dumps({"timestamp": START.isoformat(), "level": "info"}).encode(), b"null",
            b'{"query": "' + b"x" * 20_000_001 + b'"}', b"[" * 100_000, json.dumps(interaction(0.2)).encode(),
        ):  # fmt: skip
            file.write(record + b"\n")
        file.write(json.dumps(interaction(0.3))[:40].encode())  # still being written
    bad_time = BAD_FIELD.format("timestamp")
    counts = {INSIDE: 1, NOT_JSON: 3, NOT_OBJECT: 2, bad_time: 2, EMPTY: 1, TOO_LONG: 1}
    assert monitor_day(tmp_path, log).counts == counts


def test_a_damaged_archive_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    random.seed(1)
    text = "".join(json.dumps({**record, "x": random.random()}) + "\n" for record in day_of(500)).encode()
    packed = gzip.compress(text)
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    counts = monitor_day(tmp_path, tmp_path / "a.jsonl.gz").counts
    assert 0 < counts[INSIDE] < 500
    assert any("a.jsonl.gz is cut short or damaged" in what for what in counts)


def test_feedback_that_comes_later_belongs_to_its_interaction(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    number = ragstone.log_interaction("q", "a", timestamp=START, path=log)
    ragstone.log_interaction("q2", "a", timestamp=START, path=log)
    ragstone.log_interaction(id=number, feedback=False, timestamp=START, path=log)
    ragstone.log_interaction(id="nobody", feedback=True, timestamp=START, path=log)
    monitored = monitor_day(tmp_path, log)
    assert monitored.counts == {INSIDE: 2, NO_MATCH: 1}
    assert (values(monitored)["questions"], values(monitored)["bad_feedback"]) == (2, 1.0)


def test_more_interactions_than_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAX_INTERACTIONS", 10)
    with pytest.raises(ConfigError, match="more than 10 interactions in 2026-10-01"):
        monitor_day(tmp_path, write(tmp_path / "a.jsonl", day_of(11)))


@pytest.mark.parametrize(
    ("since", "start", "end", "name"),
    [
        ("1d", "2026-10-05", "2026-10-06", "2026-10-05"),
        ("1w", "2026-09-29", "2026-10-06", "2026-09-29T00 to 2026-10-06T00"),
        ("6h", "2026-10-06T07", "2026-10-06T13", "2026-10-06T07 to 2026-10-06T13"),
        ("24h", "2026-10-05T13", "2026-10-06T13", "2026-10-05T13 to 2026-10-06T13"),
    ],
)
def test_a_window_is_the_last_whole_hours_days_or_weeks(since: str, start: str, end: str, name: str) -> None:
    period = period_before(datetime.fromisoformat("2026-10-06T15:40:10+02:00"), since)
    assert period.start == datetime.fromisoformat(f"{start}{'' if 'T' in start else 'T00'}:00+00:00")
    assert period.end == datetime.fromisoformat(f"{end}{'' if 'T' in end else 'T00'}:00+00:00")
    assert period.name == name


@pytest.mark.parametrize("since", ["", "1", "d", "0d", "1.5d", "1y", "-1d"])
def test_a_length_of_time_that_is_none_is_an_error(since: str) -> None:
    with pytest.raises(ConfigError, match="is no length of time"):
        period_before(START, since)
