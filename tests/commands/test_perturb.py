"""`ragstone run --perturb` as a user runs it: with each kind of system, one that obeys and crashes, and one killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragstone.run.directory import PERTURBED, RunDirectory
from tests.commands.project import make_project, ragstone, start, wait_for_lines
from tests.commands.terminal import on_terminal
from tests.loopback import answering

N = 10
RULES = '''
import re

def reply(question):
    """Looks house numbers up, and does what it is told."""
    halves = re.findall(r"\\b[A-Z]{6}\\b", question)
    if halves:
        words = halves if "directly after" not in question else halves[::-1]
        return {"answer": "".join(words), "contexts": []}
    found = re.search(r"house number (\\d+)", question)
    if not found:
        return {"answer": "I don't know.", "contexts": []}
    colour = ["red", "green", "blue", "white", "yellow"][int(found[1]) % 5]
    fact = f"House number {found[1]} is painted {colour}."
    return {"answer": fact, "contexts": [{"id": "d" + found[1], "text": fact}]}
'''
PYTHON = (
    RULES
    + """

def answer(question):
    if not question.strip():
        raise IndexError("list index out of range")
    return reply(question)
"""
)
COMMAND = (
    RULES
    + """

import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    said = reply(asked["question"]) if asked["question"].strip() else {"error": "the question is empty"}
    print(json.dumps({"id": asked["id"], **said}), flush=True)
"""
)
ARGUMENTS = ["run", "--metrics", "token_f1", "--perturb", "typos,empty,injection", "--perturb-samples", str(N)]


class Handler(BaseHTTPRequestHandler):
    """Replies 422 to an empty question, as a service that validates does."""

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))["question"]
        space: dict[str, object] = {}
        exec(RULES, space)
        status = 200 if question.strip() else 422
        said = space["reply"](question) if status == 200 else {"detail": "no question"}  # type: ignore[operator]
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service() -> Iterator[str]:
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


def results(project: Path, run: str = "ragstone-run") -> dict[str, dict[str, object]]:
    """The kinds in the JSON report, by name."""
    found = ragstone(["report", run, "--format", "json"], project)
    assert found.returncode in (0, 1, 8), found.stderr
    return {one["kind"]: one for one in json.loads(found.stdout)["robustness"]["kinds"]}


def hits(share: object) -> tuple[int, int]:
    assert isinstance(share, dict)
    return share["hits"], share["n"]


def test_a_python_system_that_crashes_on_nothing_and_obeys(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=N, system=PYTHON)
    found = ragstone(ARGUMENTS, project)
    assert found.returncode == 0, found.stderr
    kinds = results(project)
    crashed, of = hits(kinds["empty"]["crashed"])
    assert of == N
    assert crashed > 0
    assert f"{crashed} of {N} [" in found.stdout
    assert hits(kinds["injection"]["obeyed"]) == (N, N)
    assert f"Obeyed the planted instruction in {N} of {N} [" in found.stdout
    assert "house-0, house-1" in " ".join(found.stdout.split())
    assert f"Robustness: {N} questions asked again with changes (not part of the verdict)" in found.stdout
    assert len((project / "ragstone-run" / "samples.jsonl").read_text().splitlines()) == N


def test_a_command_that_replies_with_an_error_has_not_crashed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=N)
    (project / "rag.py").write_text(COMMAND, encoding="utf-8")
    found = ragstone([*ARGUMENTS, "--entrypoint", f"command:{sys.executable} rag.py"], project)
    assert found.returncode == 0, found.stderr
    kinds = results(project)
    assert hits(kinds["empty"]["crashed"]) == (0, N)
    assert isinstance(kinds["empty"]["refused"], int)
    assert kinds["empty"]["refused"] > 0
    assert hits(kinds["injection"]["obeyed"]) == (N, N)


def test_a_service_that_replies_422_has_not_crashed(tmp_path: Path, service: str) -> None:
    project = make_project(tmp_path / "repo", n=N)
    found = ragstone([*ARGUMENTS, "--entrypoint", service], project)
    assert found.returncode == 0, found.stderr
    kinds = results(project)
    assert hits(kinds["empty"]["crashed"]) == (0, N)
    assert isinstance(kinds["empty"]["refused"], int)
    assert kinds["empty"]["refused"] > 0
    assert "as invalid" in found.stdout


def test_a_killed_run_goes_on_with_its_partners(tmp_path: Path) -> None:
    slow = PYTHON.replace("def answer(question):", "import time\ndef answer(question):\n    time.sleep(0.02)")
    project = make_project(tmp_path / "repo", n=40, system=slow)
    arguments = [*ARGUMENTS[:-1], "40"]
    whole = ragstone([*arguments, "--out", "whole"], project)
    assert whole.returncode == 0, whole.stderr
    with start(arguments, project) as process:
        partners = project / "ragstone-run" / PERTURBED / "samples.jsonl"
        wait_for_lines(partners, 20)
        os.kill(process.pid, signal.SIGKILL)
    killed = RunDirectory.open(project / "ragstone-run")
    assert killed.manifest.state == "running"  # no baseline for anybody
    assert not killed.manifest.standing.eligible
    assert partners.read_bytes().count(b"\n") < 120
    found = ragstone([*arguments, "--resume"], project)
    assert found.returncode == 0, found.stderr
    assert RunDirectory.open(project / "ragstone-run").manifest.state == "finished"
    assert results(project) == results(project, "whole")


def test_the_gate_decides_as_without(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=20, system=PYTHON)
    plain = ragstone(["gate", "--out", "plain"], project)
    config = (project / "ragstone.toml").read_text(encoding="utf-8")
    (project / "ragstone.toml").write_text(f'{config}[run]\nperturb = ["empty", "injection"]\n', encoding="utf-8")
    found = ragstone(["gate", "--verbose"], project)
    assert found.returncode == plain.returncode == 0, found.stderr
    assert "Obeyed the planted instruction in 20 of 20" in found.stdout
    assert "Robustness" not in plain.stdout
    shown = ragstone(["check"], project)
    assert "20 samples: 40 more questions (empty, injection)" in shown.stdout


@pytest.mark.parametrize("columns", [80, 60])
def test_narrow_terminals_break_no_word(tmp_path: Path, columns: int) -> None:
    project = make_project(tmp_path / "repo", n=N, system=PYTHON)
    screen = on_terminal(ARGUMENTS, project, columns=columns)
    section = screen.lines[next(at for at, line in enumerate(screen.lines) if line.startswith("Robustness")) :]
    assert max(map(len, section)) <= columns
    words = " ".join(" ".join(section).split())
    assert "Obeyed the planted instruction" in words
    assert "injection" in words
    assert "Crashed" in words
