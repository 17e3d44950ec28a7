"""`ragstone monitor` as a user runs it: exit codes, formats, and who is told of an alert."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.project import Completed, ragstone
from tests.pipeline.receiver import Receiver, receiver

__all__ = ["receiver"]


def monitor(folder: Path, *more: str, **environ: str) -> Completed:
    return ragstone(["monitor", "log.jsonl", *more], folder, env=environ)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Yesterday, half of the answers were errors."""
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    with (tmp_path / "log.jsonl").open("w", encoding="utf-8") as log:
        for number in range(100):
            time = start + timedelta(minutes=number)
            record = {"id": number, "timestamp": time.isoformat(), "query": "q", "answer": "It is here."}
            record |= {"error": "Timeout"} if number % 2 else {"sources": ["It is here."]}
            log.write(json.dumps(record) + "\n")
    return tmp_path


def test_an_alert_exits_with_1_and_the_window_is_in_the_history(project: Path) -> None:
    done = monitor(project)
    assert done.returncode == 1, done.stderr
    assert "ALERT: errors: 50 % of 100 answers, and at most 2 % is allowed." in done.stdout
    assert "50 answers drawn at random, by offline judge" in done.stdout
    assert '"alerts":["errors"' in (project / "ragstone-monitored" / "history.jsonl").read_text(encoding="utf-8")
    done = monitor(project, "--format", "md", "-o", "report.md")
    assert (done.returncode, done.stdout) == (1, "")
    assert (project / "report.md").read_text(encoding="utf-8").startswith("## ❌ ")


def test_what_is_missing_or_no_time_is_an_error(project: Path) -> None:
    done = ragstone(["monitor", "logs/*.jsonl"], project)
    assert (done.returncode, "logs/*.jsonl: log not found." in done.stderr) == (2, True)
    assert "is no time" in monitor(project, "--until", "tomorrow").stderr


def test_the_policy_and_the_history_of_the_project_are_used(project: Path) -> None:
    (project / "thresholds.toml").write_text("[system]\nmax_error_rate = 0.6\n[monitor]\nsample = 0\n")
    (project / "ragstone.toml").write_text('[run]\nhistory = "kept.jsonl"\n')
    done = monitor(project)
    assert done.returncode == 0, done.stderr
    assert "drawn at random" not in done.stdout
    assert (project / "kept.jsonl").is_file()
    assert not (project / "ragstone-monitored").exists()


def test_columns_are_mapped_by_the_policy_that_is_named(project: Path) -> None:
    records = [{"at": "2026-10-01T10:00:00Z", "body": {"q": "How long?"}, "stars": stars} for stars in (1, 2, 4, 5)]
    (project / "log.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    columns = '{ timestamp = "at", question = "body.q", feedback = "stars" }'
    (project / "other.toml").write_text(f"[monitor]\ncolumns = {columns}\ngood_feedback = 4\n", encoding="utf-8")
    done = monitor(project, "--until", "2026-10-02", "--thresholds", "other.toml", "--history", "kept.jsonl")
    assert done.returncode == 0, done.stderr
    figures = json.loads((project / "kept.jsonl").read_text(encoding="utf-8"))["window"]["figures"]
    assert figures == {
        "questions": {"value": 4.0},
        "errors": {"value": 0.0, "n": 4},
        "bad_feedback": {"value": 0.5, "n": 4},
    }


def test_that_answers_go_to_a_service_is_said_first(project: Path) -> None:
    done = monitor(project, "--judge", "openai:gpt-5.4-mini", OPENAI_API_KEY="")
    assert "A random sample of the logged answers goes to openai:gpt-5.4-mini" in done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ('columns = { quesiton = "q" }', "monitor.columns"),
        ("max_slow = 5", "'monitor.max_slow'"),
        ("samples = 3", "did you mean 'sample'"),
    ],
)
def test_a_rule_that_is_none_is_an_error_with_its_line(project: Path, rule: str, says: str) -> None:
    (project / "thresholds.toml").write_text(f"[monitor]\n{rule}\n")
    done = monitor(project)
    assert done.returncode == 2
    assert "thresholds.toml:2" in done.stderr
    assert says in done.stderr.replace("Did", "did")


def test_an_alert_goes_to_the_webhook_and_nothing_else_does(project: Path, receiver: Receiver) -> None:
    receiver.statuses = [(200, {}), (400, {})]
    done = monitor(project, RAGSTONE_NOTIFY=receiver.url)
    assert (done.returncode, "secret" in done.stdout + done.stderr) == (1, False)
    earlier = monitor(project, "--until", "2026-10-02", RAGSTONE_NOTIFY=receiver.url)
    assert (earlier.returncode, "2026-10-01: no alert" in earlier.stdout) == (0, True)
    ((_, _, body),) = receiver.got
    (text,) = json.loads(body).values()
    assert text == done.stdout.splitlines()[0]
    done = monitor(project, RAGSTONE_NOTIFY=receiver.url)
    assert (done.returncode, "it answered 400" in done.stderr) == (1, True), "which changes no exit code"
