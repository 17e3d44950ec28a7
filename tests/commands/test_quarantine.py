"""The quarantine through the real commands, in a repository of its own."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import SYSTEM, make_project, ragstone

POLICY = """
must_pass = ["house-7"]
[gate]
only_named = true
min_coverage = 0.98
[metrics.faithfulness]
min = 0.5
max_drop = 0.05
[system]
max_broken = 1.0
"""
WRONG = SYSTEM.replace('"answer": fact,', '"answer": "It is made of cheese." if " 7?" in question else fact,')


def quarantine(path: Path, name: str, days: int = 20) -> str:
    until = datetime.now(UTC).date() + timedelta(days=days)
    with (path / "ragstone.toml").open("a", encoding="utf-8") as file:
        file.write(f'[[golden.quarantine]]\nid = "{name}"\nuntil = {until}\nreason = "it flips"\n')
    return str(until)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = make_project(tmp_path / "project", n=40, policy=POLICY, system=WRONG)
    (path / "ragstone.toml").write_text(
        (path / "ragstone.toml").read_text() + '[run]\nhistory = "history.jsonl"\nmetrics = ["faithfulness"]\n'
    )
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "All"]):
        subprocess.run(["git", *words], cwd=path, check=True)
    return path


def gate(path: Path, *arguments: str) -> tuple[int, str, Any]:
    done = ragstone(["gate", "--verbose", *arguments], path)
    report = path / "ragstone-run" / "report.json"
    return done.returncode, done.stdout + done.stderr, json.loads(report.read_text()) if report.exists() else None


def test_a_must_pass_question_in_quarantine_is_asked_and_shown_and_fails_nothing(project: Path) -> None:
    assert gate(project)[0] == 1
    until = quarantine(project, "house-7")
    code, said, report = gate(project)
    assert code == 0, said
    assert f"1 question in quarantine until {until}: house-7." in said.replace("\n", " ")
    assert any("in quarantine until" in warning for warning in report["warnings"])
    (mean,) = [one for one in report["metrics"] if one["metric"] == "faithfulness" and one["slice"] is None]
    assert mean["n"] == 39
    assert mean["score"] > 0.99
    manifest = json.loads((project / "ragstone-run" / "manifest.json").read_text())
    assert [one["id"] for one in manifest["quarantine"]] == ["house-7"]
    assert manifest["counts"]["scored"] == 40
    # Its score stays in the history beside a mean without it; and the stored run says the same.
    line = json.loads((project / "history.jsonl").read_text().splitlines()[-1])
    assert line["metrics"]["faithfulness"]["n"] == 39
    assert len(line["scores"]["faithfulness"]) == 2 * 40
    again = ragstone(["report", "ragstone-run", "--thresholds", "thresholds.toml", "--verbose"], project)
    assert again.returncode == 0, again.stdout
    assert "in quarantine until" in again.stdout
    checked = ragstone(["check"], project)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_ended_quarantine_warns_and_an_unknown_id_is_an_error(project: Path) -> None:
    quarantine(project, "house-7", -1)
    code, said, _ = gate(project)
    assert code == 1
    assert "The quarantine of house-7 ended on" in said.replace("\n", " ")
    quarantine(project, "hose-8")
    code, said, _ = gate(project)
    assert code == 2
    assert "ragstone.toml: [[golden.quarantine]] names 'hose-8', which is not in the golden set" in said
    assert "Did you mean 'house-8'?" in said
    # Of another golden set that a flag names, it says nothing.
    (project / "few.jsonl").write_text("".join((project / "golden.jsonl").read_text().splitlines(keepends=True)[8:30]))
    assert "hose-8" not in gate(project, "--golden", "few.jsonl")[1]


def test_shards_and_a_baseline_from_before(project: Path) -> None:
    (project / "houses.py").write_text(SYSTEM)
    assert gate(project, "--out", "good")[0] == 0
    (project / "houses.py").write_text(WRONG)
    quarantine(project, "house-7")
    code, said, report = gate(project, "--baseline", "good")
    assert code == 0, said
    assert "golden set changed" not in said
    assert report["comparison"]["paired"] == 39
    for part in ("1/2", "2/2"):
        done = ragstone(["run", "--shard", part, "--out", f"part-{part[0]}"], project)
        assert done.returncode == 0, done.stderr
    code, said, merged = gate(project, "--baseline", "good", "--merge", "part-1", "--merge", "part-2")
    assert code == 0, said
    assert [one["score"] for one in merged["metrics"]] == [one["score"] for one in report["metrics"]]
    assert "in quarantine until" in said.replace("\n", " ")


def test_a_run_that_may_stop_early_and_the_rounds_that_explain(project: Path) -> None:
    quarantine(project, "house-7")
    code, said, _ = gate(project, "--stop-early")
    assert code == 0, said
    assert "in quarantine until" in said
    code, said, _ = gate(project, "--perturb", "case", "--perturb-samples", "40")
    assert code == 0, said


def test_the_day_is_that_of_the_run(project: Path) -> None:
    assert date.fromisoformat(quarantine(project, "house-7", 0)) == datetime.now(UTC).date()
    assert gate(project)[0] == 0
