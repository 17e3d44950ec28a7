"""A limit on the time of the whole: it ends cleanly, with what is there, and can be resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.project import make_project, ragstone

SYSTEM = """
import pathlib, time

def answer(question):
    if "number 0" not in question and not pathlib.Path("fast").exists():
        time.sleep(600)
    return {"answer": "Red.", "contexts": ["Red."]}
"""
LIMIT = ["--time-limit", "10"]


@pytest.mark.parametrize("command", ["run", "gate"])
def test_a_run_over_its_time_limit_ends_with_124_and_is_resumed(tmp_path: Path, command: str) -> None:
    project = make_project(tmp_path / "repo", n=3, system=SYSTEM)
    done = ragstone([command, *LIMIT], project, env={"RAGSTONE_TIMEOUT": "600"})
    assert done.returncode == 124, done.stderr
    assert "run.time_limit_s: the time limit was reached" in done.stderr
    assert "--resume" in done.stderr
    run = project / "ragstone-run"
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["state"], manifest["verdict"]) == ("stopped", None)
    assert manifest["stop_reason"] == "the time limit was reached."
    assert len((run / "samples.jsonl").read_text().splitlines()) == 1
    (project / "fast").touch()
    assert ragstone([command, "--resume"], project).returncode in (0, 1, 8)
    assert json.loads((run / "manifest.json").read_text())["state"] == "finished"
    assert len((run / "samples.jsonl").read_text().splitlines()) == 3


def test_a_limit_that_is_no_time_is_refused(tmp_path: Path) -> None:
    done = ragstone(["run", "--time-limit", "0"], make_project(tmp_path / "repo", n=3))
    assert done.returncode == 2
    assert "run.time_limit_s" in done.stderr
