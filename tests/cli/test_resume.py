"""A run that is killed goes on where it was, and ends as if it had never been killed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from ragstone.evaluation.directory import RunDirectory
from tests.cli.project import SYSTEM, make_project, ragstone, start, wait_for_lines

SLOW = SYSTEM.replace(
    "def answer(question):",
    "import os, time\ndef answer(question):\n    time.sleep(0.004)\n"
    "    with open('asked.log', 'a') as log: log.write(question + '\\n')",
)


def scores(path: Path) -> object:
    return RunDirectory.open(path).scores().metrics


@pytest.mark.usefixtures("processes")
def test_kill_9_in_the_middle_of_500_samples_then_resume(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=500, system=SLOW)
    ragstone(["run", "--out", "whole"], project, exit_code=0)
    (project / "asked.log").unlink()

    records = project / "ragstone-run" / "samples.jsonl"
    with start(["run"], project) as process:
        wait_for_lines(records, 120)
        os.kill(process.pid, signal.SIGKILL)
    finished = [
        json.loads(line)["sample"]["question"] for line in records.read_bytes().splitlines(True) if line[-1:] == b"\n"
    ]
    assert 120 <= len(finished) < 500
    time.sleep(0.2)  # the orphaned workers notice and leave
    before = (project / "asked.log").read_text().splitlines()

    ragstone(["run", "--resume"], project, exit_code=0)
    assert scores(project / "ragstone-run") == scores(project / "whole")
    asked_again = (project / "asked.log").read_text().splitlines()[len(before) :]
    assert not set(asked_again) & set(finished)
    ids = [record.sample.id for record in RunDirectory.open(project / "ragstone-run").records()]
    assert ids == [f"house-{i}" for i in range(500)]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_saves_what_is_finished_and_says_how_to_go_on(tmp_path: Path, number: int, code: int) -> None:
    project = make_project(tmp_path / "repo", n=500, system=SLOW)
    process = start(["run"], project)
    wait_for_lines(project / "ragstone-run" / "samples.jsonl", 40)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors.decode()
    assert "--resume" in errors.decode()
    assert "Traceback" not in errors.decode()
    run = RunDirectory.open(project / "ragstone-run")
    assert run.manifest.state == "stopped"
    assert sum(1 for _ in run.records()) >= 40


@pytest.mark.usefixtures("processes")
def test_a_run_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=100, system=SLOW)
    process = start(["run"], project, through=["nohup"])
    wait_for_lines(project / "ragstone-run" / "samples.jsonl", 10)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    assert RunDirectory.open(project / "ragstone-run").manifest.state == "finished"


def test_resuming_a_run_of_another_golden_set_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=10)
    assert ragstone(["run"], project).returncode == 0
    (project / "golden.jsonl").write_text((project / "golden.jsonl").read_text().replace("house-9", "house-x"))
    done = ragstone(["run", "--resume"], project, exit_code=2)
    assert "golden" in done.stderr
