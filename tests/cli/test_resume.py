"""A run that is ended by a signal or a time limit keeps what is finished, and goes on from there."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from tests.cli.project import SYSTEM, make_project, ragstone, read_json, start, wait_for_lines
from tests.system.conftest import server  # noqa: F401 - a fixture
from tests.system.service import Reply, Server, said

SLOW = SYSTEM.replace(
    "def answer(question):",
    "import os, time\ndef answer(question):\n    time.sleep(0.004)\n"
    "    with open('asked.log', 'a') as log: log.write(question + '\\n')",
)


@pytest.mark.usefixtures("processes")
def test_a_signal_saves_what_is_finished_and_says_how_to_go_on(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=500, system=SLOW)
    process = start(["run"], project)
    wait_for_lines(project / "ragstone-run" / "samples.jsonl", 40)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 129, errors.decode()
    assert "--resume" in errors.decode()
    assert "Traceback" not in errors.decode()
    run = RunDirectory.open(project / "ragstone-run")
    assert (run.manifest.state, run.manifest.stop_reason) == ("stopped", "it was interrupted")
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


@pytest.mark.usefixtures("processes")  # not that it starts any: it waits
def test_a_run_over_its_time_limit_ends_with_124_and_is_resumed(tmp_path: Path, server: Server) -> None:  # noqa: F811
    released = threading.Event()

    def reply(_path: str, body: Any) -> Reply:
        if "number 0" not in body["question"]:
            released.wait(60)
        return said({"answer": "Red.", "contexts": ["Red."]})

    server.reply = reply
    project = make_project(tmp_path / "repo", n=3)
    system = {"RAGSTONE_TIMEOUT": "600", "RAGSTONE_ENTRYPOINT": f"{server.url}/ask"}
    done = ragstone(["gate"], project, env={**system, "RAGSTONE_TIME_LIMIT": "10"}, exit_code=124)
    released.set()
    assert "run.time_limit_s: the time limit was reached" in done.stderr
    assert "--resume" in done.stderr
    run = project / "ragstone-run"
    manifest = read_json(run / "manifest.json")
    assert (manifest["state"], manifest["verdict"]) == ("stopped", None)
    assert manifest["stop_reason"] == "the time limit was reached."
    assert len((run / "samples.jsonl").read_text().splitlines()) == 1
    assert ragstone(["gate", "--resume"], project, env=system).returncode in (0, 1, 8)
    assert read_json(run / "manifest.json")["state"] == "finished"
    assert len((run / "samples.jsonl").read_text().splitlines()) == 3
