"""The level of a test follows from what it uses, and a run says what it leaves out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SOURCE = """
import subprocess, sys
import pytest

def start(*command):
    assert subprocess.run(command, capture_output=True).returncode == 0

def test_unit(): pass
def test_git(): start("git", "--version")
def test_unmarked(): start(sys.executable, "-c", "")
def test_process(processes): start(sys.executable, "-c", "")
@pytest.fixture
def started(processes): start(sys.executable, "-c", "")
def test_by_a_fixture(started): pass
@pytest.mark.heavy
def test_heavy(): start(sys.executable, "-c", "")
"""

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def scratch() -> Path:
    """A folder of tests in this one, whose tests are those of the repository for the guard."""
    folder = REPOSITORY / "tests" / "__pycache__" / "levels"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_scratch.py").write_text(SOURCE, encoding="utf-8")
    return folder


def outcomes(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options, f"{folder}/test_scratch.py"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout


def test_only_a_test_with_the_fixture_starts_more_than_git(scratch: Path) -> None:
    shown = outcomes(scratch)
    assert "::test_unmarked FAILED" in shown
    assert "needs the fixture `processes`" in shown
    for name in ("unit", "git", "process", "by_a_fixture", "heavy"):
        assert f"::test_{name} PASSED" in shown


def test_what_a_run_leaves_out_is_counted(scratch: Path) -> None:
    shown = outcomes(scratch, "-m", "not (process or heavy)", "-n", "2")
    assert "2 process (`make test-process`)" in shown
    assert "1 heavy (`make test-heavy`)" in shown


def test_the_time_of_a_test_counts_for_its_folder(scratch: Path) -> None:
    shown = outcomes(scratch, "--cpu", "-k", "test_unit")
    assert " s  __pycache__" in shown
    assert " s  in all" in shown
    assert shown.rpartition("dearest")[2].count("::test_unit") == 1
