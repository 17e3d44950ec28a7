"""Baselines on one's own machine: never the run itself, never one that failed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import BROKEN, LINES_OFF, ONE_DROP, SYSTEM, make_project, ragstone, read_json, start

POLICY = LINES_OFF + ONE_DROP


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose good run is in ragstone-run; for copying."""
    path = make_project(tmp_path_factory.mktemp("good") / "project", n=30, policy=POLICY)
    assert ragstone(["gate"], path).returncode == 0
    return path


@pytest.fixture
def project(good: Path, tmp_path: Path) -> Path:
    """A project whose good run is in ragstone-run, and whose system has been broken since."""
    path = tmp_path / "project"
    shutil.copytree(good, path)
    (path / "houses.py").write_text(BROKEN, encoding="utf-8")
    return path


def gate(path: Path, *arguments: str) -> int:
    return ragstone(["gate", *arguments], path).returncode


def manifest(folder: Path) -> Any:
    return read_json(folder / "manifest.json")


def test_a_broken_system_fails_again_and_again_in_the_directory_of_its_own_baseline(project: Path) -> None:
    good = manifest(project / "ragstone-run")
    assert [gate(project, "--baseline", "ragstone-run") for _ in range(2)] == [1, 1]
    assert manifest(project / "ragstone-run" / "baseline") == good
    again = ragstone(["gate", "--baseline", "ragstone-run", "--verbose"], project)
    said = again.stdout.replace("\n", " ")
    assert "can't be a baseline; the baseline that it was compared with is used instead" in said
    (project / "houses.py").write_text(SYSTEM, encoding="utf-8")
    assert gate(project, "--baseline", "ragstone-run") == 0
    assert not (project / "ragstone-run" / "baseline").exists()
    used = manifest(project / "ragstone-run")["baseline"]["used"]
    assert used["created_at"] == good["created_at"]


@pytest.mark.heavy
@pytest.mark.parametrize("spelling", ["./ragstone-run/", "link", "absolute"])
def test_the_directory_of_the_run_is_its_own_baseline_however_it_is_spelt(project: Path, spelling: str) -> None:
    (project / "link").symlink_to(project / "ragstone-run")
    good = manifest(project / "ragstone-run")
    assert gate(project, "--baseline", str(project / "ragstone-run") if spelling == "absolute" else spelling) == 1
    assert manifest(project / "ragstone-run" / "baseline") == good


@pytest.mark.heavy
def test_the_carried_baseline_can_be_named(project: Path) -> None:
    assert gate(project, "--baseline", "ragstone-run") == 1
    assert [gate(project, "--baseline", "ragstone-run/baseline") for _ in range(2)] == [1, 1]


@pytest.mark.usefixtures("processes")
def test_a_killed_run_leaves_the_baseline_where_the_next_one_finds_it(project: Path) -> None:
    dying = BROKEN.replace("def answer(question):", "def answer(question):\n    import os; os.kill(os.getppid(), 9)")
    (project / "houses.py").write_text(dying, encoding="utf-8")
    with start(["gate", "--baseline", "ragstone-run"], project) as process:
        process.communicate(timeout=60)
    assert process.returncode == -9
    assert manifest(project / "ragstone-run")["state"] == "running"
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    assert gate(project, "--baseline", "ragstone-run", "--resume") == 1
    assert gate(project, "--baseline", "ragstone-run") == 1


def test_a_finished_run_is_not_resumed_as_its_own_baseline(project: Path) -> None:
    found = ragstone(["gate", "--baseline", "ragstone-run", "--resume"], project, exit_code=6)
    assert "can't be its own baseline" in found.stderr


@pytest.mark.parametrize(("baseline", "out"), [("ragstone-run", "ragstone-run/new"), ("old/inner", "old")])
def test_one_inside_of_the_other_is_refused(project: Path, baseline: str, out: str) -> None:
    shutil.copytree(project / "ragstone-run", project / "old")
    shutil.copytree(project / "ragstone-run", project / "old" / "inner")
    found = ragstone(["gate", "--baseline", baseline, "--out", out], project, exit_code=2)
    assert "must not contain each other" in found.stderr
    assert "--out" in found.stderr


@pytest.mark.heavy
def test_a_run_that_failed_is_no_baseline(project: Path) -> None:
    shutil.move(project / "ragstone-run", project / "good")
    assert gate(project, "--baseline", "good", "--out", "bad") == 1
    refused = ragstone(["gate", "--baseline", "bad"], project, exit_code=6)
    assert "can't be a baseline: it failed (" in refused.stderr
    assert "faithfulness.drop" in refused.stderr
    assert not (project / "ragstone-run").exists()
    assert ragstone(["check", "--baseline", "bad"], project).returncode == 6


@pytest.mark.heavy
def test_compare_keeps_to_the_same_rule(project: Path) -> None:
    shutil.move(project / "ragstone-run", project / "good")
    assert gate(project, "--baseline", "good", "--out", "bad") == 1
    itself = ragstone(["compare", "good", "./good"], project)
    assert (itself.returncode, "can't be compared with itself" in itself.stderr) == (6, True)
    refused = ragstone(["compare", "bad", "good"], project)
    assert (refused.returncode, "Use a run that did not fail" in refused.stderr) == (6, True)
