"""What runs on Windows, as far as it can be seen elsewhere: in a process that lacks what Python lacks there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.project import environment, write_rows
from tests.system.conftest import server  # noqa: F401 - a fixture
from tests.system.service import Server, said

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(sys.platform != "linux", reason="takes from Python what Linux has"),
]

AS_WINDOWS = Path(__file__).with_name("as_windows.py")
TEXT = "The harbour was opened in 1801 by the town."
REPLY = {"answer": TEXT, "contexts": [{"id": "harbour", "text": TEXT}]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rows = [{"question": f"When was harbour {number} opened?", "reference": TEXT} for number in range(12)]
    write_rows(tmp_path / "golden.jsonl", rows)
    (tmp_path / "rag.py").write_text(f"def answer(question):\n    return {REPLY!r}\n", encoding="utf-8")
    lines = f"import sys\nfor line in sys.stdin:\n    print({json.dumps(REPLY)!r}, flush=True)\n"
    (tmp_path / "lines.py").write_text(lines, encoding="utf-8")
    kill = tmp_path / "root" / "System32" / "taskkill.exe"  # /F /T /PID n
    kill.parent.mkdir(parents=True)
    kill.write_text('#!/bin/sh\nkill -9 "$4"\n', encoding="utf-8")
    kill.chmod(0o755)
    return tmp_path


def ragstone(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(AS_WINDOWS), *arguments],
        cwd=project,
        env=environment({"SYSTEMROOT": str(project / "root"), "no_proxy": "127.0.0.1"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["python", "command", "http"])
def test_the_gate_decides_on_a_system_of_each_kind(project: Path, server: Server, kind: str) -> None:  # noqa: F811
    server.reply = lambda _path, _body: said(REPLY)
    places = {"python": "python:rag:answer", "command": f"command:{sys.executable} lines.py", "http": server.url}
    shown = ragstone(project, "gate", "--golden", "golden.jsonl", "--entrypoint", places[kind])
    assert "Passed, with nothing to compare with" in shown
    assert (project / "ragstone-run" / "report.html").is_file()


def test_the_first_files_are_written_and_checked(project: Path) -> None:
    (project / "golden.jsonl").unlink()
    ragstone(project, "init", "--entrypoint", "python:rag:answer")
    assert "python:rag:answer" in (project / "ragstone.toml").read_text(encoding="utf-8")
    ragstone(project, "check")
