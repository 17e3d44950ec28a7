"""Baselines on one's own machine: never the run itself, never one that failed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import BROKEN, LINES_OFF, ONE_DROP, SYSTEM, make_project, ragstone, read_json

POLICY = LINES_OFF + ONE_DROP


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose good run is in ragstone-run; for copying."""
    path = make_project(tmp_path_factory.mktemp("good") / "project", n=30, policy=POLICY)
    ragstone(["gate"], path, exit_code=0)
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
