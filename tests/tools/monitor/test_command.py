"""`ragstone monitor` as a user runs it: exit codes, formats, and who is told of an alert."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.project import Completed, ragstone, read_json, write_rows
from tests.pipeline.receiver import Receiver, receiver

__all__ = ["receiver"]


def monitor(folder: Path, *more: str, exit_code: int = 0, **environ: str) -> Completed:
    return ragstone(["monitor", "log.jsonl", *more], folder, env=environ, exit_code=exit_code)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Yesterday, half of the answers were errors."""
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    records = []
    for number in range(100):
        time = start + timedelta(minutes=number)
        record = {"id": number, "timestamp": time.isoformat(), "query": "q", "answer": "It is here."}
        records.append(record | ({"error": "Timeout"} if number % 2 else {"sources": ["It is here."]}))
    write_rows(tmp_path / "log.jsonl", records)
    return tmp_path


def test_an_alert_exits_with_1_and_the_window_is_in_the_history(project: Path) -> None:
    done = monitor(project, exit_code=1)
    assert "ALERT: errors: 50 % of 100 answers, and at most 2 % is allowed." in done.stdout
    assert "50 answers drawn at random, by offline judge" in done.stdout
    assert '"alerts":["errors"' in (project / "ragstone-monitored" / "history.jsonl").read_text(encoding="utf-8")
    assert monitor(project, "--format", "md", "-o", "report.md", exit_code=1).stdout == ""
    assert (project / "report.md").read_text(encoding="utf-8").startswith("## ❌ ")


def test_what_is_missing_or_no_time_is_an_error(project: Path) -> None:
    assert "logs/*.jsonl: log not found." in ragstone(["monitor", "logs/*.jsonl"], project, exit_code=2).stderr
    assert "is not a date or a time" in monitor(project, "--until", "tomorrow", exit_code=2).stderr


def test_the_policy_and_the_history_of_the_project_are_used(project: Path) -> None:
    (project / "thresholds.toml").write_text("[system]\nmax_error_rate = 0.6\n[monitor]\nsample = 0\n")
    (project / "ragstone.toml").write_text('[run]\nhistory = "kept.jsonl"\n')
    assert "drawn at random" not in monitor(project).stdout
    assert (project / "kept.jsonl").is_file()
    assert not (project / "ragstone-monitored").exists()


def test_columns_are_mapped_by_the_policy_that_is_named(project: Path) -> None:
    records = [{"at": "2026-10-01T10:00:00Z", "body": {"q": "How long?"}, "stars": stars} for stars in (1, 2, 4, 5)]
    write_rows(project / "log.jsonl", records)
    columns = '{ timestamp = "at", question = "body.q", feedback = "stars" }'
    (project / "other.toml").write_text(f"[monitor]\ncolumns = {columns}\ngood_feedback = 4\n", encoding="utf-8")
    monitor(project, "--until", "2026-10-02", "--thresholds", "other.toml", "--history", "kept.jsonl")
    figures = read_json(project / "kept.jsonl")["window"]["figures"]
    found = [(name, figure["value"]) for name, figure in figures.items()]
    assert found == [("questions", 4), ("errors", 0), ("bad_feedback", 0.5)]


def test_that_answers_go_to_a_service_is_said_first(project: Path) -> None:
    done = monitor(project, "--judge", "openai:gpt-5.4-mini", OPENAI_API_KEY="", exit_code=2)
    assert "A random sample of the logged answers goes to openai:gpt-5.4-mini" in done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ('columns = { quesiton = "q" }', "monitor.columns"),
        ("max_slow = 5", "'monitor.max_slow'"),
        ("samples = 3", "Did you mean 'sample'"),
    ],
)
def test_a_rule_that_is_none_is_an_error_with_its_line(project: Path, rule: str, says: str) -> None:
    (project / "thresholds.toml").write_text(f"[monitor]\n{rule}\n")
    said = monitor(project, exit_code=2).stderr
    assert "thresholds.toml:2" in said
    assert says in said


def test_an_alert_goes_to_the_webhook_and_nothing_else_does(project: Path, receiver: Receiver) -> None:
    receiver.statuses = [(200, {}), (400, {})]
    done = monitor(project, RAGSTONE_NOTIFY=receiver.url, exit_code=1)
    assert "secret" not in done.stdout + done.stderr
    assert "2026-10-01: no alert" in monitor(project, "--until", "2026-10-02", RAGSTONE_NOTIFY=receiver.url).stdout
    ((_, _, body),) = receiver.got
    (text,) = json.loads(body).values()
    assert text == done.stdout.splitlines()[0]
    refused = monitor(project, RAGSTONE_NOTIFY=receiver.url, exit_code=1)
    assert "it answered 400" in refused.stderr, "which changes no exit code"
