"""A history kept on one's own machine: held against, added to, listed."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import shutil
import subprocess
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import SYSTEM, command, environment, make_project, ragstone
from tests.report.paged import inflated

POLICY = "[gate]\nonly_named = true\n[metrics.faithfulness]\nmax_drop = 0.5\nmax_drift = 0.3\n"
BROKEN = SYSTEM.replace('"answer": fact,', '"answer": "Bananas were invented in 1834.",')


def make(path: Path) -> Path:
    make_project(path, n=30, policy=POLICY)
    with (path / "ragstone.toml").open("a", encoding="utf-8") as stream:
        stream.write('\n[run]\nhistory = "kept/history.jsonl"\n')
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make(tmp_path / "project")


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a history of two runs that passed; for copying."""
    path = make(tmp_path_factory.mktemp("of_two") / "project")
    assert [gate(path) for _ in range(2)] == [0, 0]
    return path


@pytest.fixture
def gated(of_two: Path, tmp_path: Path) -> Path:
    return shutil.copytree(of_two, tmp_path / "gated")


def gate(path: Path, *arguments: str) -> int:
    return ragstone(["gate", *arguments], path).returncode


def lines(path: Path) -> list[Any]:
    return [json.loads(text) for text in (path / "kept" / "history.jsonl").read_text(encoding="utf-8").splitlines()]


def report(path: Path) -> Any:
    return json.loads((path / "ragstone-run" / "report.json").read_text(encoding="utf-8"))


def test_the_list_is_as_wide_as_the_terminal(gated: Path) -> None:
    shown = in_terminal(gated, columns=80)
    assert max(map(len, shown)) <= 80
    assert shown[0] == "1  faithfulness"
    assert sum(bool(re.match(r"\d{4}-\d\d-\d\d ", one)) for one in shown) == 2
    assert in_terminal(gated, columns=200)[0].startswith("date")


def in_terminal(path: Path, columns: int) -> list[str]:
    """The lines of `ragstone history` in a terminal of so many columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environ = {name: value for name, value in environment().items() if name != "COLUMNS"}
    process = subprocess.Popen(command("history"), cwd=path, env=environ, stdin=subprocess.DEVNULL, stdout=theirs)
    os.close(theirs)
    said = b""
    with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:  # EIO at the end
        while part := terminal.read(4096):
            said += part
    assert process.wait(timeout=60) == 0
    return said.decode().splitlines()


def test_every_gate_is_held_against_the_history_and_added_to_it(gated: Path) -> None:
    assert [one["kind"] for one in lines(gated)] == ["samples", "run", "run"]
    (drift,) = [check for check in report(gated)["checks"] if check["kind"] == "drift"]
    assert drift["status"] == "pass"
    assert "1 main run ago" in drift["reason"]
    page = (gated / "ragstone-run" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Trend</h2>" in page
    assert 'class="trend"' in page
    assert "Trend over 2 runs" in (gated / "ragstone-run" / "report.md").read_text(encoding="utf-8")


def test_a_loss_against_the_history_fails_without_any_baseline_until_it_is_mended(gated: Path) -> None:
    (gated / "houses.py").write_text(BROKEN, encoding="utf-8")
    shown = ragstone(["gate"], gated)
    assert shown.returncode == 1
    assert "aithfulness is below its level since" in shown.stdout.replace("\n", " ")
    assert gate(gated) == 1
    (gated / "houses.py").write_text(SYSTEM, encoding="utf-8")
    assert gate(gated) == 0
    assert [one["eligible"] for one in lines(gated)[1:]] == [True] * 2 + [False] * 2 + [True]


def test_the_merge_with_which_a_metric_fell_is_named(gated: Path) -> None:
    assert "faithfulness is not below its level." in ragstone(["history", "blame", "faithfulness"], gated).stdout
    (gated / "houses.py").write_text(BROKEN, encoding="utf-8")
    assert gate(gated) == 1
    said = ragstone(["history", "blame", "faithfulness"], gated)
    assert said.returncode == 0, said.stderr
    assert "below its level since" in said.stdout
    assert "It came with the merge of" in said.stdout
    found = json.loads(ragstone(["history", "blame", "faithfulness", "--format", "json"], gated).stdout)
    assert found["below"]["metric"] == "faithfulness"
    assert [one["run"] for one in found["merges"]] == [lines(gated)[-1]["run"]]
    assert found["probability"] > 0.9
    unknown = ragstone(["history", "blame", "faithfulnes"], gated)
    assert unknown.returncode == 2
    assert "faithfulness" in unknown.stderr


def test_a_damaged_line_is_a_warning_at_the_top_and_gone_afterwards(project: Path) -> None:
    (project / "kept").mkdir()
    with (project / "kept" / "history.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("{half a li\n")
    assert gate(project) == 0
    assert any("history.jsonl:1: not a line of a history" in warning for warning in report(project)["warnings"])
    assert gate(project) == 0
    assert not any("damaged" in warning for warning in report(project)["warnings"])


def test_the_history_is_listed_and_exported(gated: Path) -> None:
    listed = ragstone(["history"], gated)
    assert listed.returncode == 0
    assert listed.stdout.count("pass") == 2
    assert "faithfulness" in listed.stdout
    assert len(ragstone(["history", "--last", "1"], gated).stdout.splitlines()) == 2
    assert ragstone(["history", "--format", "csv", "-o", "out.csv"], gated).returncode == 0
    rows = list(csv.DictReader((gated / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 2
    assert float(rows[1]["faithfulness.low"]) <= float(rows[1]["faithfulness.mean"]) <= 1.0
    assert ragstone(["history", "--format", "jsonl"], gated).stdout.count("\n") == 3
    again = ragstone(["report", "ragstone-run", "--format", "md", "--history", "kept/history.jsonl"], gated)
    assert "Trend over 2 runs" in again.stdout


def test_finished_runs_can_be_added_and_marked_as_a_release(project: Path) -> None:
    for name in ("one", "two"):
        gate(project, "--out", name, "--history", f"elsewhere/{name}.jsonl")
    added = ragstone(["history", "add", "two", "one", "two", "--release", "v1"], project)
    assert added.returncode == 0, added.stderr
    assert "now has 2 runs" in added.stdout
    assert [one["release"] for one in lines(project)[1:]] == ["v1", "v1"]
    assert "release v1" in ragstone(["history"], project).stdout


def test_plain_and_rescored_runs_are_shown_without_a_verdict_and_are_no_part_of_the_level(gated: Path) -> None:
    (gated / "houses.py").write_text(BROKEN, encoding="utf-8")
    assert ragstone(["run", "--out", "plain"], gated).returncode == 0
    time.sleep(1.0)  # runs of the same content that began in the same second are one run
    assert ragstone(["rescore", "plain", "--out", "again"], gated).returncode == 0
    (gated / "houses.py").write_text(SYSTEM, encoding="utf-8")
    before = ragstone(["report", "ragstone-run", "--format", "md", "--history", "kept/history.jsonl"], gated).stdout
    added = ragstone(["history", "add", "plain", "again"], gated)
    assert added.returncode == 0, added.stderr
    assert added.stdout.count("(no verdict)") == 2
    assert [one["verdict"] for one in lines(gated)[1:]] == ["pass", "pass", "none", "none"]
    assert ragstone(["history"], gated).stdout.count("  none  ") == 2
    assert "faithfulness is not below its level." in ragstone(["history", "blame", "faithfulness"], gated).stdout
    assert "Trend over 2 runs" in before
    assert gate(gated) == 0
    assert "Trend over 3 runs" in (gated / "ragstone-run" / "report.md").read_text(encoding="utf-8")
    assert ragstone(["history", "report"], gated).returncode == 0
    page = (gated / "history" / "index.html").read_text(encoding="utf-8")
    (head,) = re.findall(r'data-packed="head">([^<]*)<', page)
    assert inflated(head)["runs"]["verdict"] == ["pass", "pass", "none", "none", "pass"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "stopped"}, "the run was stopped, not finished"),
        ({"shard": {"number": 1, "of": 2, "places": "0"}}, "it is shard 1 of 2, a part of a run"),
    ],
)
def test_a_part_of_a_run_is_not_added(project: Path, change: dict[str, object], reason: str) -> None:
    assert ragstone(["run"], project).returncode == 0
    manifest = project / "ragstone-run" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text("utf-8")) | change), encoding="utf-8")
    refused = ragstone(["history", "add", "ragstone-run"], project)
    assert refused.returncode == 2
    assert f"ragstone-run: can't be added: {reason}." in refused.stderr
    assert not (project / "kept" / "history.jsonl").exists()


def test_an_empty_history_says_so(project: Path) -> None:
    shown = ragstone(["history"], project)
    assert shown.returncode == 0
    first, second = shown.stdout.splitlines()
    assert first == "The history is empty."
    assert second.startswith("There is no kept/history.jsonl yet. Name one with --history, or add runs:")


def test_a_history_that_is_named_and_does_not_exist_is_an_error(project: Path) -> None:
    shown = ragstone(["history", "--history", "none.jsonl"], project)
    assert shown.returncode == 2
    assert "none.jsonl: there is no history." in shown.stderr


def test_adding_says_which_runs_are_replaced(gated: Path) -> None:
    assert "Replaced the run of" in ragstone(["history", "add", "ragstone-run"], gated).stdout
    added = ragstone(["history", "add", "ragstone-run", "ragstone-run", "--history", "other.jsonl"], gated).stdout
    assert [one.split()[0] for one in added.splitlines()] == ["Added", "Replaced", "other.jsonl"]


def test_the_history_is_written_as_a_page_that_names_the_samples(gated: Path) -> None:
    shown = ragstone(["history", "report"], gated)
    assert shown.returncode == 0
    assert shown.stdout.startswith("Wrote history/index.html (2 runs, 0.")
    (gated / "history" / "notes.txt").write_text("mine", encoding="utf-8")
    assert ragstone(["history", "report", "-o", "history", "--title", "<b>Shop</b>"], gated).returncode == 0
    page = (gated / "history" / "index.html").read_text(encoding="utf-8")
    assert "<title>&lt;b&gt;Shop&lt;/b&gt;</title>" in page
    assert (gated / "history" / "notes.txt").read_text(encoding="utf-8") == "mine"
    golden = [json.loads(line) for line in (gated / "golden.jsonl").read_text(encoding="utf-8").splitlines()]
    (names,) = [part for part in carried(page) if "house-1" in json.dumps(part)]
    assert sorted(names.values()) == sorted([one["id"], one["question"]] for one in golden)


def test_in_a_job_the_page_links_to_its_repository(gated: Path) -> None:
    job = {"GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "acme/shop"}
    assert ragstone(["history", "report"], gated, env=job).returncode == 0
    (head,) = re.findall(r'data-packed="head">([^<]*)<', (gated / "history" / "index.html").read_text("utf-8"))
    assert inflated(head)["repository"] == "https://github.example/acme/shop"


def test_a_page_without_questions_has_no_text_of_the_golden_set(gated: Path) -> None:
    assert ragstone(["history", "report", "--no-questions"], gated).returncode == 0
    page = (gated / "history" / "index.html").read_text(encoding="utf-8")
    questions = [
        json.loads(line)["question"] for line in (gated / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert questions
    carries = json.dumps(carried(page))
    assert not any(question in carries for question in questions)


def test_a_page_has_no_secret_of_the_environment(gated: Path) -> None:
    monitor = {
        "schema_version": 1,
        "length": "day",
        "timezone": "sk-private-0123",
        "windows": [{"window": "2026-10-01", "figures": {"sk-private-0123": {"value": 1}}}],
    }
    (gated / "monitor.json").write_text(json.dumps(monitor), encoding="utf-8")
    damaged = (gated / "kept" / "history.jsonl").read_text(encoding="utf-8") + "damaged\n"
    (gated / "sk-private-0123.jsonl").write_text(damaged, encoding="utf-8")
    shown = ragstone(
        [
            "history",
            "report",
            "--history",
            "sk-private-0123.jsonl",
            "--monitor",
            "monitor.json",
            "--title",
            "Shop sk-private-0123",
            "--repository",
            "https://git.example/sk-private-0123",
        ],
        gated,
        env={"RAGSTONE_JUDGE_API_KEY": "sk-private-0123"},
    )
    assert shown.returncode == 0, shown.stderr
    page = (gated / "history" / "index.html").read_text(encoding="utf-8")
    assert "<title>Shop ***</title>" in page
    assert "The history is damaged: ***.jsonl:" in page
    (head,) = re.findall(r'data-packed="head">([^<]*)<', page)
    assert inflated(head)["repository"] == "https://git.example/***"
    assert "sk-private" not in page + json.dumps(inflated(head)) + json.dumps(carried(page))


def test_a_foreign_page_is_never_overwritten(gated: Path) -> None:
    (gated / "site").mkdir()
    (gated / "site" / "index.html").write_text("<h1>Mine</h1>", encoding="utf-8")
    shown = ragstone(["history", "report", "-o", "site"], gated)
    assert shown.returncode == 2
    assert "site/index.html: is not a page of `ragstone history report`." in shown.stderr
    assert (gated / "site" / "index.html").read_text(encoding="utf-8") == "<h1>Mine</h1>"
    (gated / "file").write_text("", encoding="utf-8")
    assert ragstone(["history", "report", "-o", "file"], gated).returncode == 2
    (gated / "odd" / "index.html").mkdir(parents=True)
    shown = ragstone(["history", "report", "-o", "odd"], gated)
    assert shown.returncode == 2
    assert "can't be read: it is not a regular file" in shown.stderr


def test_a_history_that_does_not_exist_is_no_page_and_an_empty_one_is(tmp_path: Path) -> None:
    shown = ragstone(["history", "report", "--history", "none.jsonl", "-o", "page"], tmp_path)
    assert shown.returncode == 2
    assert "none.jsonl: there is no history." in shown.stderr
    assert not (tmp_path / "page").exists()
    (tmp_path / "none.jsonl").touch()
    assert ragstone(["history", "report", "--history", "none.jsonl", "-o", "page"], tmp_path).returncode == 0
    assert "The history is empty" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


def carried(page: str) -> list[Any]:
    return [inflated(body) for body in re.findall(r'data-packed="part">([^<]*)</script>', page)]
