"""A history kept on one's own machine: held against, added to, listed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import SYSTEM, make_project, ragstone

POLICY = "[metrics.faithfulness]\nmax_drop = 0.5\nmax_drift = 0.3\n"
BROKEN = SYSTEM.replace('"answer": fact,', '"answer": "Bananas were invented in 1834.",')


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = make_project(tmp_path / "project", n=30, policy=POLICY)
    with (path / "ragstone.toml").open("a", encoding="utf-8") as stream:
        stream.write('\n[run]\nhistory = "kept/history.jsonl"\n')
    return path


def gate(path: Path, *arguments: str) -> int:
    return ragstone(["gate", *arguments], path).returncode


def lines(path: Path) -> list[Any]:
    return [json.loads(text) for text in (path / "kept" / "history.jsonl").read_text(encoding="utf-8").splitlines()]


def report(path: Path) -> Any:
    return json.loads((path / "ragstone-run" / "report.json").read_text(encoding="utf-8"))


def test_every_gate_is_held_against_the_history_and_added_to_it(project: Path) -> None:
    assert [gate(project) for _ in range(2)] == [0, 0]
    assert [one["kind"] for one in lines(project)] == ["samples", "run", "run"]
    (drift,) = [check for check in report(project)["checks"] if check["kind"] == "drift"]
    assert drift["status"] == "pass"
    assert "1 main run ago" in drift["reason"]
    page = (project / "ragstone-run" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Trend</h2>" in page
    assert 'class="trend"' in page
    assert "Trend over 2 runs" in (project / "ragstone-run" / "report.md").read_text(encoding="utf-8")


def test_a_loss_against_the_history_fails_without_any_baseline_until_it_is_mended(project: Path) -> None:
    for _ in range(3):
        gate(project)
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    shown = ragstone(["gate"], project)
    assert shown.returncode == 1
    assert "aithfulness has lost" in shown.stdout.replace("\n", " ")
    assert gate(project) == 1
    (project / "houses.py").write_text(SYSTEM, encoding="utf-8")
    assert gate(project) == 0
    assert [one["eligible"] for one in lines(project)[1:]] == [True] * 3 + [False] * 2 + [True]


def test_a_damaged_line_is_a_warning_at_the_top_and_gone_afterwards(project: Path) -> None:
    (project / "kept").mkdir()
    with (project / "kept" / "history.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("{half a li\n")
    assert gate(project) == 0
    assert any("history.jsonl:1: not a line of a history" in warning for warning in report(project)["warnings"])
    assert gate(project) == 0
    assert not any("damaged" in warning for warning in report(project)["warnings"])


def test_the_history_is_listed_and_exported(project: Path) -> None:
    for _ in range(2):
        gate(project)
    listed = ragstone(["history"], project)
    assert listed.returncode == 0
    assert listed.stdout.count("pass") == 2
    assert "faithfulness" in listed.stdout
    assert len(ragstone(["history", "--last", "1"], project).stdout.splitlines()) == 2
    assert ragstone(["history", "--format", "csv", "-o", "out.csv"], project).returncode == 0
    rows = list(csv.DictReader((project / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 2
    assert float(rows[1]["faithfulness.low"]) <= float(rows[1]["faithfulness.mean"]) <= 1.0
    assert ragstone(["history", "--format", "jsonl"], project).stdout.count("\n") == 3
    again = ragstone(["report", "ragstone-run", "--format", "md", "--history", "kept/history.jsonl"], project)
    assert "Trend over 2 runs" in again.stdout


def test_finished_runs_can_be_added_and_marked_as_a_release(project: Path) -> None:
    for name in ("one", "two"):
        gate(project, "--out", name, "--history", f"elsewhere/{name}.jsonl")
    added = ragstone(["history", "add", "two", "one", "two", "--release", "v1"], project)
    assert added.returncode == 0, added.stderr
    assert "now has 2 runs" in added.stdout
    assert [one["release"] for one in lines(project)[1:]] == ["v1", "v1"]
    assert "release v1" in ragstone(["history"], project).stdout


def test_a_run_without_a_verdict_is_not_added(project: Path) -> None:
    assert ragstone(["run"], project).returncode == 0
    refused = ragstone(["history", "add", "ragstone-run"], project)
    assert refused.returncode == 2
    assert "this run has no verdict" in refused.stderr
    assert not (project / "kept" / "history.jsonl").exists()


def test_an_empty_history_says_so(project: Path) -> None:
    assert ragstone(["history"], project).stdout == "The history is empty.\n"
