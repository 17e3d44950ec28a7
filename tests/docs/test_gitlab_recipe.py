"""GitLab's recipe in docs/recipes.md, run as GitLab runs it: a job on main, then those of a merge request.

The commands come from the page. Each job is a fresh clone of a bare repository; the cache, the artifacts and the server
that gets the note are done here in GitLab's place (https://docs.gitlab.com/api/notes/).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from tests.cli.project import environment
from tests.docs.page import blocks, page
from tests.loopback import answering
from tests.pipeline.repository import WORSE, Repository

pytestmark = pytest.mark.usefixtures("processes")

TOKEN = "glpat-4711-secret"


@dataclass
class GitLab:
    """A server that takes notes of merge request 5 of project 7, and the job that sends them."""

    script: Sequence[str]
    tools: Path
    url: str = ""
    notes: list[str] = field(default_factory=list)

    def note(self, job: Path, token: str = TOKEN) -> tuple[int, str]:
        numbers = {"CI_PROJECT_ID": "7", "CI_MERGE_REQUEST_IID": "5"}
        return run(self.script, job, self.tools, {**numbers, "CI_API_V4_URL": self.url, "GITLAB_TOKEN": token})


@pytest.fixture
def gitlab(jobs: dict[str, Any], tools: Path) -> Iterator[GitLab]:
    fake = GitLab(jobs["rag-note"]["script"], tools)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            allowed = self.headers["PRIVATE-TOKEN"] == TOKEN
            known = self.path == "/api/v4/projects/7/merge_requests/5/notes"
            if allowed and known:
                fake.notes.append(form["body"][0])
            self.send_response(201 if allowed and known else 404)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        fake.url = f"http://127.0.0.1:{server.server_port}/api/v4"
        yield fake


@pytest.fixture
def jobs() -> dict[str, Any]:
    (block,) = blocks(page("recipes", "GitLab"), "yaml")
    recipe: dict[str, Any] = yaml.safe_load(block)
    return recipe


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """The commands of the image: `pip` installs nothing, as `ragstone` is the one that is tested."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, script in {
        "ragstone": f'exec "{sys.executable}" -m ragstone "$@"',
        "python": f'exec "{sys.executable}" "$@"',
        "pip": 'test "$*" = "install ragstone"',
    }.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return folder


def run(script: Sequence[str], job: Path, tools: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """The exit code and the output of a script that stops at the first failure, as the runner's does."""
    base = environment()
    env = {**base, "PATH": f"{tools}{os.pathsep}{base['PATH']}", **variables}
    command = ["sh", "-e", "-c", "\n".join(script)]
    done = subprocess.run(command, cwd=job, env=env, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job that sends a note, with an empty folder of the run."""
    (tmp_path / "job" / "ragstone-run").mkdir(parents=True)
    return tmp_path / "job"


def test_a_merge_request_is_compared_with_main_and_gets_a_note(
    tmp_path: Path, tools: Path, jobs: dict[str, Any], gitlab: GitLab
) -> None:
    gate, note = jobs["rag-gate"], jobs["rag-note"]
    assert gate["variables"]["GIT_DEPTH"] == 0
    variables = {name: str(value) for name, value in gate["variables"].items()} | {"CI_DEFAULT_BRANCH": "main"}
    (cached,) = gate["cache"]["paths"]
    (kept,) = gate["artifacts"]["paths"]
    repository = Repository.make(tmp_path / "origin")
    good = repository.commit("first")
    worse = repository.commit("worse", WORSE, branch="feature")

    main = repository.job("main", good)
    code, log = run(gate["script"], main, tools, variables)
    assert code == 0, log
    assert "No baseline" in log
    assert "as a baseline" in log

    change = repository.job("change", worse)
    shutil.copytree(main / cached, change / cached)
    code, log = run(gate["script"], change, tools, variables)
    assert code == 1, log
    assert f"Baseline: commit {good[:12]}" in log
    assert "not saved as a baseline" in log
    assert (change / gate["artifacts"]["reports"]["junit"]).is_file()

    assert note["needs"] == ["rag-gate"]
    assert note["variables"]["GIT_STRATEGY"] == "none"
    empty = tmp_path / "note"
    shutil.copytree(change / kept, empty / kept)
    code, log = gitlab.note(empty)
    assert code == 0, log
    (posted,) = gitlab.notes
    assert "❌" in posted
    assert good[:12] in posted


@pytest.mark.attack(by="other CI", tries="a note on GitLab that merges (`/merge`)", stopped_by="escaped")
@pytest.mark.parametrize("line", ["/merge", "  /approve", "\t/close", "> /assign @me", "> > /merge"])
def test_no_line_of_a_report_is_a_command(job: Path, gitlab: GitLab, line: str) -> None:
    text = "a/b, 1 / 2, https://x/y\n\n| a | /b |\n"
    (job / "ragstone-run" / "report.md").write_text(f"answer:\n{line}\n{text}", encoding="utf-8")
    code, log = gitlab.note(job)
    assert code == 0, log
    (posted,) = gitlab.notes
    assert not re.search(r"^[\s>]*/", posted, re.MULTILINE)
    assert posted.endswith(text)


def test_a_report_that_is_a_link_is_not_posted(job: Path, gitlab: GitLab) -> None:
    (job / "secret").write_text("key")
    (job / "ragstone-run" / "report.md").symlink_to(job / "secret")
    code, _ = gitlab.note(job)
    assert code != 0
    assert gitlab.notes == []


def test_a_note_that_is_refused_fails_the_job_and_shows_no_token(job: Path, gitlab: GitLab) -> None:
    (job / "ragstone-run" / "report.md").write_text("## PASS\n")
    code, log = gitlab.note(job, "glpat-of-another")
    assert code != 0
    assert "glpat-of-another" not in log
