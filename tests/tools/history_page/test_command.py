"""A history kept on one's own machine: compared with, added to, listed."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import BROKEN, SYSTEM, append, make_project, ragstone, read_json, read_rows

POLICY = "[gate]\nonly_named = true\n[metrics.faithfulness]\nmax_drop = 0.5\nmax_drift = 0.3\n"


def make_project_with_history(path: Path) -> Path:
    make_project(path, n=30, policy=POLICY)
    append(path / "ragstone.toml", '\n[run]\nhistory = "kept/history.jsonl"\n')
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project_with_history(tmp_path / "project")


@pytest.fixture(scope="module")
def project_with_two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a history of two runs that passed; for copying."""
    path = make_project_with_history(tmp_path_factory.mktemp("project_with_two_runs") / "project")
    for _ in range(2):
        ragstone(["gate"], path, exit_code=0)
    return path


@pytest.fixture
def gated(project_with_two_runs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(project_with_two_runs, tmp_path / "gated")


def history_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of the history of a project."""
    return read_rows(path / "kept" / "history.jsonl")


@pytest.mark.heavy
def test_a_loss_against_the_history_fails_without_any_baseline_until_it_is_mended(gated: Path) -> None:
    assert "below its level" not in ragstone(["history"], gated).stdout
    (gated / "houses.py").write_text(BROKEN, encoding="utf-8")
    first = ragstone(["gate"], gated)
    assert "aithfulness may have been below its level since" in first.stdout.replace("\n", " ")
    shown = ragstone(["gate"], gated, exit_code=1)
    assert "aithfulness has been below its level since" in shown.stdout.replace("\n", " ")
    last = ragstone(["history"], gated, exit_code=0).stdout.splitlines()[-1]
    assert re.match(r"faithfulness has been \d\.\d\d below its level since .*the merge of", last)
    assert ragstone(["history", "--last", "1"], gated).stdout.splitlines()[-1] == last
    assert last.replace("'", "&#39;") in page_of(gated)
    assert last.replace("'", "&#39;") in page_of(gated, "--last", "1")
    assert [run["eligible"] for run in history_lines(gated)[1:]] == [True] * 2 + [False] * 2
    (gated / "houses.py").write_text(SYSTEM, encoding="utf-8")
    assert [ragstone(["gate"], gated).returncode for _ in range(3)][-1] == 0
    assert history_lines(gated)[-1]["eligible"]


def test_every_gate_is_compared_with_the_history_which_is_listed_and_exported(gated: Path) -> None:
    assert [line["kind"] for line in history_lines(gated)] == ["samples", "run", "run"]
    (drift,) = [
        check for check in read_json(gated / "ragstone-run" / "report.json")["checks"] if check["kind"] == "drift"
    ]
    assert drift["status"] == "pass"
    assert "1 main run ago" in drift["reason"]
    assert ragstone(["history"], gated, exit_code=0).stdout.count("pass") == 2
    assert len(ragstone(["history", "--last", "1"], gated).stdout.splitlines()) == 2
    ragstone(["history", "--csv", "-o", "out.csv"], gated, exit_code=0)
    assert len(list(csv.DictReader((gated / "out.csv").read_text(encoding="utf-8").splitlines()))) == 2


def test_a_run_that_was_stopped_is_not_added(gated: Path) -> None:
    manifest = gated / "ragstone-run" / "manifest.json"
    manifest.write_text(json.dumps(read_json(manifest) | {"state": "stopped"}), encoding="utf-8")
    before = history_lines(gated)
    refused = ragstone(["history", "add", "ragstone-run"], gated, exit_code=2)
    assert "ragstone-run: this run can't be added" in refused.stderr
    assert history_lines(gated) == before


def test_a_page_of_the_newest_runs_compares_them_with_older_versions(gated: Path) -> None:
    samples, *runs = history_lines(gated)
    rows = [samples, *(run | {"system": version} for run, version in zip(runs, ("v1", "v2"), strict=True))]
    (gated / "kept" / "history.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    page = page_of(gated, "--last", "1", "--versions", "v1,v2")
    assert "no question has both scores" not in page
    assert "no longer stored" not in page


def test_options_of_the_list_are_refused_before_a_subcommand(gated: Path) -> None:
    for options in (["--csv"], ["--page"], ["--last", "1"], ["--versions", "v1"], ["--output", "x"]):
        refused = ragstone(["history", *options, "add", "ragstone-run"], gated, exit_code=2)
        assert f"{options[0]} does not go with `ragstone history add`" in refused.stderr
    shared = ["--config", "ragstone.toml", "--history", "new.jsonl"]
    ragstone(["history", *shared, "add", "ragstone-run"], gated, exit_code=0)
    assert (gated / "new.jsonl").exists()


def test_an_empty_history_says_so_and_one_that_is_named_must_exist(project: Path) -> None:
    shown = ragstone(["history"], project, exit_code=0)
    assert "empty" in shown.stdout
    assert "kept/history.jsonl" in shown.stdout
    refused = ragstone(["history", "--history", "none.jsonl"], project, exit_code=2)
    assert "none.jsonl: there is no such history." in refused.stderr
    assert "needs --page" in ragstone(["history", "--versions", "v1"], project, exit_code=2).stderr


@pytest.mark.heavy
def test_runs_are_added_as_versions_and_compared_by_their_names(project: Path) -> None:
    ragstone(["gate", "--out", "one"], project, env={"RAGSTONE_HISTORY": "elsewhere/one.jsonl"}, exit_code=0)
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    ragstone(["gate", "--out", "two"], project, env={"RAGSTONE_HISTORY": "elsewhere/two.jsonl"})
    added = ragstone(["history", "add", "two", "one", "two", "--release", "v1"], project)
    assert [line.split()[0] for line in added.stdout.splitlines()] == [
        "Added",
        "Added",
        "Replaced",
        "kept/history.jsonl",
    ]
    assert "now has 2 runs" in added.stdout
    assert [line["release"] for line in history_lines(project)[1:]] == ["v1", "v1"]
    assert "Replaced the run of" in ragstone(["history", "add", "two", "--release", "v2"], project).stdout
    assert '<span class="pill worse">worse</span>' in page_of(project, "--versions", "v1,v2")
    assert '<span class="pill better">better</span>' in page_of(project, "--versions", "v2,v1")
    unknown = ragstone(["history", "--page", "--versions", "v1,v3"], project, exit_code=2)
    assert "no run of the history is the version 'v3'." in unknown.stderr


def test_in_a_job_the_page_links_to_its_repository_and_has_no_secret(gated: Path) -> None:
    samples, *runs = history_lines(gated)
    runs[-1]["commit"] = "0123456789abcdef0123456789abcdef01234567"
    text_lines = [json.dumps(line) for line in (samples, *runs)]
    (gated / "sk-private-0123.jsonl").write_text("\n".join([*text_lines, "damaged"]), encoding="utf-8")
    job = {"GITHUB_SERVER_URL": "https://github.example", "RAGSTONE_JUDGE_API_KEY": "sk-private-0123"}
    for repository, link in (("acme/shop", True), ("sk-private-0123", False)):
        page = page_of(gated, "--history", "sk-private-0123.jsonl", env={**job, "GITHUB_REPOSITORY": repository})
        assert ('href="https://github.example/acme/shop/commit/0123456"' in page) is link
        assert "The history is damaged in 1 line: ***.jsonl:" in page
        assert "sk-private" not in page


def page_of(path: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """The HTML that `ragstone history --page` writes."""
    ragstone(["history", "--page", "-o", "page.html", *arguments], path, env=env, exit_code=0)
    return (path / "page.html").read_text(encoding="utf-8")
