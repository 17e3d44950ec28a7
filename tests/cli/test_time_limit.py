"""A limit on the time of the whole: it ends cleanly, with what is there, and can be resumed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import make_project, ragstone, read_json
from tests.system.conftest import server  # noqa: F401 - a fixture
from tests.system.service import Reply, Server, said


@pytest.mark.usefixtures("processes")  # not that it starts any: it waits
@pytest.mark.parametrize("command", ["run", "gate"])
def test_a_run_over_its_time_limit_ends_with_124_and_is_resumed(
    tmp_path: Path,
    server: Server,  # noqa: F811
    command: str,
) -> None:
    released = threading.Event()

    def reply(_path: str, body: Any) -> Reply:
        if "number 0" not in body["question"]:
            released.wait(60)
        return said({"answer": "Red.", "contexts": ["Red."]})

    server.reply = reply
    project = make_project(tmp_path / "repo", n=3)
    system = {"RAGSTONE_TIMEOUT": "600", "RAGSTONE_ENTRYPOINT": f"{server.url}/ask"}
    done = ragstone([command, "--time-limit", "10"], project, env=system)
    released.set()
    assert done.returncode == 124, done.stderr
    assert "run.time_limit_s: the time limit was reached" in done.stderr
    assert "--resume" in done.stderr
    run = project / "ragstone-run"
    manifest = read_json(run / "manifest.json")
    assert (manifest["state"], manifest["verdict"]) == ("stopped", None)
    assert manifest["stop_reason"] == "the time limit was reached."
    assert len((run / "samples.jsonl").read_text().splitlines()) == 1
    assert ragstone([command, "--resume"], project, env=system).returncode in (0, 1, 8)
    assert read_json(run / "manifest.json")["state"] == "finished"
    assert len((run / "samples.jsonl").read_text().splitlines()) == 3


def test_a_limit_that_is_no_time_is_refused(tmp_path: Path) -> None:
    done = ragstone(["run", "--time-limit", "0"], make_project(tmp_path / "repo", n=3), exit_code=2)
    assert "run.time_limit_s" in done.stderr
