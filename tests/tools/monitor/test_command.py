"""`ragstone monitor` as a user runs it: exit codes, formats, and the width of a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.project import Completed, ragstone
from tests.tools.monitor.receiver import Receiver, receiver

__all__ = ["receiver"]


def monitor(folder: Path, *more: str, **environ: str) -> Completed:
    """In a terminal of 80 columns."""
    return ragstone(["monitor", *more], folder, env={"COLUMNS": "80", **environ})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Eight quiet days and one with errors, the last one yesterday."""
    first = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=10)
    with (tmp_path / "log.jsonl").open("w") as log:
        for day in range(9):
            for i in range(100):
                when = first + timedelta(days=day, minutes=i)
                error = "Timeout" if i % 20 == 0 or (day == 8 and i % 2) else None
                record = {"id": i, "timestamp": when.isoformat(), "query": "q", "answer": "a", "error": error}
                log.write(json.dumps(record) + "\n")
    (tmp_path / "alerts.toml").write_text('[logs]\npaths = ["*.jsonl"]\n[windows]\nanchor = 7\n[sample]\nsize = 0\n')
    return tmp_path


def test_an_alert_that_fails_exits_with_1_for_as_long_as_it_lasts(project: Path) -> None:
    for _ in range(2):
        done = monitor(project)
        assert done.returncode == 1, done.stderr
        assert "FAIL: errors: 5 % in the anchor, " in done.stdout
    assert "900 new" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_windows_that_are_scored_share_one_progress(project: Path) -> None:
    log, rules = project / "log.jsonl", project / "alerts.toml"
    log.write_text(
        log.read_text(encoding="utf-8").replace('"answer": "a"', '"answer": "It is here.", "contexts": ["It is here."]')
    )
    rules.write_text(rules.read_text(encoding="utf-8").replace("size = 0", "size = 2"), encoding="utf-8")
    done = monitor(project)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines() == ["Evaluating samples", "18 done (18 scored)"]


def test_that_personal_data_goes_to_a_service_is_said_first(project: Path) -> None:
    rules = project / "alerts.toml"
    rules.write_text(rules.read_text(encoding="utf-8").replace("size = 0", "size = 2"), encoding="utf-8")
    says = "go to openai:gpt-5.4-mini as they were logged: personal data is replaced in drafts only."
    done = monitor(project, "--judge", "openai:gpt-5.4-mini", OPENAI_API_KEY="")
    assert says in done.stderr.splitlines()[0]
    for quiet in (("--judge", "openai:gpt-5.4-mini", "--no-scores"), ()):
        assert "as they were logged" not in monitor(project, *quiet, OPENAI_API_KEY="").stderr


def test_a_warning_passes(project: Path) -> None:
    with (project / "alerts.toml").open("a") as rules:
        rules.write('[alerts.error_rate]\naction = "warn"\n')
    done = monitor(project)
    assert done.returncode == 0
    assert "warning: errors" in done.stdout


@pytest.mark.parametrize(("form", "start"), [("md", "## ❌ "), ("json", "{")])
def test_other_formats_go_to_a_file(project: Path, form: str, start: str) -> None:
    done = monitor(project, "--format", form, "-o", "report")
    assert (done.returncode, done.stdout) == (1, "")
    assert (project / "report").read_text().startswith(start)


def test_the_windows_are_in_the_page_of_the_history(project: Path) -> None:
    monitor(project, "--format", "json", "-o", "monitor.json")
    (project / "history.jsonl").touch()
    page = ragstone(
        ["history", "--format", "html", "--history", "history.jsonl", "--monitor", "monitor.json"], project
    ).stdout
    windows = json.loads((project / "monitor.json").read_text(encoding="utf-8"))["windows"]
    assert len(windows) == 9
    for window in windows:
        assert f"<title>{window['window']}: " in page
    assert "Errors: worse since " in page


def test_without_a_log_it_says_what_to_do(tmp_path: Path) -> None:
    done = monitor(tmp_path)
    assert done.returncode == 2
    assert "paths under [logs] in alerts.toml" in done.stderr


def test_a_webhook_is_told_once_what_lasts_and_again_if_it_was_not_reached(project: Path, receiver: Receiver) -> None:
    receiver.statuses = [(400, {})]
    told = {"RAGSTONE_WEBHOOK_URL": receiver.url, "RAGSTONE_WEBHOOK_SECRET": "a secret of ours"}
    first = monitor(project, **told)
    assert first.returncode == 1
    assert "Webhook delivery failed: it answered 400." in first.stderr
    for _ in range(2):
        done = monitor(project, **told)
        assert (done.returncode, done.stderr) == (1, "")
    bodies = [json.loads(body) for _, _, body in receiver.got]
    assert len(bodies) == 2
    assert bodies[1]["failing"] is True
    assert [one["name"] for one in bodies[1]["alerts"]] == ["error_rate"]
    assert "secret" not in first.stdout + first.stderr


def test_a_webhook_that_is_no_https_is_an_error(project: Path) -> None:
    done = monitor(project, RAGSTONE_WEBHOOK_URL="http://example.org/T-secret")
    assert done.returncode == 2
    assert "T-secret" not in done.stderr


def test_github_outside_a_job_is_an_error(project: Path) -> None:
    done = monitor(project, "--github", GITHUB_EVENT_PATH="")
    assert done.returncode == 2
    assert "not a GitHub Actions job" in done.stderr


def test_errors_become_drafts_once(project: Path) -> None:
    lines = (
        (project / "log.jsonl").read_text().replace('"query": "q"', '"query": "Where is my parcel, anna@example.com?"')
    )
    (project / "log.jsonl").write_text(lines)
    for told in ("1 draft added to drafts.jsonl.", "Drafts: there is no new window."):
        done = monitor(project, "--drafts", "drafts.jsonl")
        assert done.returncode == 1, done.stderr
        assert told in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80
    (draft,) = map(json.loads, (project / "drafts.jsonl").read_text().splitlines())
    assert draft["question"] == "Where is my parcel, [email]?"
    assert (draft["status"], draft["tags"]) == ("draft", ["production", "error", "personal data replaced"])
