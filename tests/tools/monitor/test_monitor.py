"""A window is judged, compared with those before it, and becomes a line of the history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.findings import Level
from ragstone.history.file import read_history
from ragstone.judge.offline import OfflineJudge
from ragstone.tools.monitor.findings import MIN_WINDOWS
from ragstone.tools.monitor.monitor import MonitoredWindow
from ragstone.tools.monitor.report import monitor_markdown, monitor_text
from tests.tools.monitor.production import ANSWER, SOURCE, WRONG, interaction, monitor_day, values, write

JUDGED: dict[str, Any] = {"monitor": {"sample": 20}}


def day_of(day: int, n: int = 40, *, wrong: float = 0.0, **more: Any) -> Iterator[dict[str, Any]]:
    """Interactions of a day, a share of which has a wrong answer."""
    for number in range(n):
        answer = WRONG if number < wrong * n else ANSWER
        yield interaction(day + number / n, f"May {number} shoes be returned?", answer=answer, sources=[SOURCE], **more)


def alerts(monitored: MonitoredWindow) -> dict[str | None, str]:
    return {check.metric: check.reason for check in monitored.verdict.checks if check.level is Level.FAILURE}


def test_the_sample_is_judged_and_kept_as_a_run_without_personal_data(tmp_path: Path) -> None:
    personal = interaction(0.999, "May anna@example.com return shoes?", sources=[f"{SOURCE} Call +49 30 1234567."])
    log = write(tmp_path / "a.jsonl", [*day_of(0), personal])
    monitored = monitor_day(tmp_path, log, policy={"monitor": {"sample": 50}})
    assert monitored.line.metrics["faithfulness"].mean > 0.9
    assert monitored.line.judge == OfflineJudge().identity.label()
    run = RunDirectory.open(tmp_path / "out" / "2026-10-01")
    asked = {record.sample.question: record.response for record in run.records()}
    assert len(asked) == 41
    assert asked["May [email] return shoes?"].contexts[0].text == f"{SOURCE} Call [phone]."


def test_the_sample_is_random_and_the_same_in_each_job(tmp_path: Path) -> None:
    log = write(
        tmp_path / "a.jsonl", [*day_of(0), interaction(0.1, sources=["https://example.org/x"]), interaction(0.2)]
    )
    samples = []
    for _ in range(2):
        monitored = monitor_day(tmp_path, log, policy=JUDGED)
        assert monitored.run is not None
        samples.append({record.sample.question for record in monitored.run.records()})
    assert samples[0] == samples[1]
    assert len(samples[0]) == 20
    assert samples[0] != {f"May {number} shoes be returned?" for number in range(20)}
    log = write(tmp_path / "b.jsonl", [interaction(0.1, sources=["https://example.org/returns"]), interaction(0.2)])
    monitored = monitor_day(tmp_path, log, policy=JUDGED)
    assert (monitored.run, monitored.line.judge) == (None, "none"), "sources without texts are counted, and not judged"
    assert values(monitored)["without_sources"] == 0.0


@pytest.mark.parametrize(
    ("source", "is_judged"),
    [
        ("鞋子在收到后三十天内可以退货。", True),
        ("คืนรองเท้าได้ภายในสามสิบวัน", True),
        ("退货政策.pdf", False),
        ("Return policy.pdf", False),
        ("returns", False),
    ],
)
def test_sources_of_any_script_are_judged_if_they_are_texts(tmp_path: Path, source: str, is_judged: bool) -> None:
    log = write(tmp_path / "a.jsonl", [interaction(0.1, sources=[source])])
    assert (monitor_day(tmp_path, log, policy=JUDGED).run is not None) is is_judged


def test_a_window_is_one_line_of_the_history_without_any_text(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", [*day_of(0, user_id="anna"), *day_of(1)])
    (tmp_path / "history.jsonl").write_text("{half a line", encoding="utf-8")
    for day in (1, 1, 2):  # a job that ran twice
        monitored = monitor_day(tmp_path, log, day=day, policy=JUDGED)
        assert ("not a line of a history" in monitor_text(monitored)) is (len(monitored.notes) > 0)
    history = read_history(tmp_path / "history.jsonl")
    assert [f"{line.time:%Y-%m-%d}" for line in history.windows] == ["2026-10-01", "2026-10-02"]
    assert history.gated == ()
    text = (tmp_path / "history.jsonl").read_text(encoding="utf-8")
    assert not any(word in text for word in ("anna", "shoes", "Shoes", "half"))


def test_a_window_is_compared_with_those_before_it_since_its_level_was_accepted(tmp_path: Path) -> None:
    days = [list(day_of(day, latency_ms=4000 if day == MIN_WINDOWS else 1000)) for day in range(MIN_WINDOWS + 1)]
    log = write(tmp_path / "a.jsonl", [record for day in days for record in day])
    seen = [monitor_day(tmp_path, log, day=day + 1) for day in range(MIN_WINDOWS + 1)]
    assert [bool(alerts(monitored)) for monitored in seen] == [False] * MIN_WINDOWS + [True]
    assert f"in the {MIN_WINDOWS} before" in alerts(seen[-1])["latency_mean"]
    accepted = {"monitor": {"sample": 0, "level_since": f"2026-10-{MIN_WINDOWS + 1:02}"}}
    assert not alerts(monitor_day(tmp_path, log, day=MIN_WINDOWS + 1, policy=accepted))


def test_reports_have_the_verdict_first_and_no_text_of_an_interaction(tmp_path: Path) -> None:
    log = write(tmp_path / "a|b.jsonl", day_of(0, 60, wrong=0.5, error="Timeout", latency_ms=100))
    monitored = monitor_day(tmp_path, log, policy=JUDGED)
    text, markdown = monitor_text(monitored), monitor_markdown(monitored)
    assert text.startswith("❌ 2026-10-01: errors: 100 % of 60 answers, and at most 2 % is allowed.\nALERT: errors")
    assert "Nothing is compared with earlier windows yet: there are 0 of at least 7." in text
    assert markdown.startswith("## ❌ 2026-10-01")
    assert "- **ALERT**: errors" in markdown
    assert "| Faithfulness |" in markdown
    assert not any(word in f"{text}{markdown}".lower() for word in ("shoes", "bananas"))
