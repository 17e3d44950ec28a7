"""Fakes of GitLab's and Azure's APIs on loopback, as far as Ragstone uses them, and a git repository with jobs in it.

The shapes are those of https://docs.gitlab.com/api/notes/, https://docs.gitlab.com/api/job_artifacts/ and
https://learn.microsoft.com/en-us/rest/api/azure/devops/git/pull-request-threads.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback import answering

Reply = tuple[int, dict[str, str], bytes]
ME = 17


@dataclass
class Fake:
    """What a fake has seen, and has. `artifacts` is by ref and job; `notes` are those of one merge request."""

    token: str = "glpat-4711-secret"
    job_token: str = "job-token-0815"
    artifacts: dict[tuple[str, str], bytes] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)
    threads: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    storage: str = ""
    leaked: bool = False
    broken: int | None = None
    url: str = ""


def reply(status: int, document: object) -> Reply:
    return status, {"Content-Type": "application/json"}, json.dumps(document).encode()


def gitlab(fake: Fake, method: str, url: str, headers: dict[str, str], body: bytes) -> Reply:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    private = headers.get("private-token") == fake.token
    if not private and headers.get("job-token") != fake.job_token:
        return reply(401, {"message": "401 Unauthorized"})
    if fake.broken is not None:
        return reply(fake.broken, {"message": "no"})
    found = re.fullmatch(r"/api/v4/projects/7/jobs/artifacts/([^/]+)/download", parts.path)
    if method == "GET" and found:
        if (found[1], query["job"]) not in fake.artifacts:
            return reply(404, {"message": "404 Not Found"})
        return 302, {"Location": f"{fake.storage}/{found[1]}/{query['job']}?signature=abc"}, b""
    if not private:
        return reply(403, {"message": "403 Forbidden"})
    if (method, parts.path) == ("GET", "/api/v4/user"):
        return reply(200, {"id": ME, "username": "project_7_bot"})
    if parts.path == "/api/v4/projects/7/merge_requests/5/notes":
        if method == "GET":
            size, page = int(query["per_page"]), int(query["page"])
            return reply(200, fake.notes[size * (page - 1) : size * page])
        note = {"id": 1000 + len(fake.notes), "author": {"id": ME}, "system": False, **json.loads(body)}
        fake.notes.append(note)
        return reply(201, note)
    found = re.fullmatch(r"/api/v4/projects/7/merge_requests/5/notes/(\d+)", parts.path)
    if method == "PUT" and found:
        (note,) = (one for one in fake.notes if one["id"] == int(found[1]))
        note |= json.loads(body)
        return reply(200, note)
    return reply(404, {"message": "404 Not Found"})


def storage(fake: Fake, method: str, url: str, headers: dict[str, str], body: bytes) -> Reply:
    fake.leaked = fake.leaked or bool({"private-token", "job-token", "authorization"} & headers.keys())
    ref, job = urlsplit(url).path.strip("/").split("/")
    return 200, {"Content-Type": "application/zip"}, fake.artifacts[ref, job]


def azure(fake: Fake, method: str, url: str, headers: dict[str, str], body: bytes) -> Reply:
    parts = urlsplit(url)
    if headers.get("authorization") != f"Bearer {fake.token}":
        # Azure DevOps answers like this to a token that it doesn't know, not with 401.
        return 203, {"Content-Type": "text/html"}, b"<html>Sign in"
    if parts.path == "/org/_apis/connectionData":
        return reply(200, {"authenticatedUser": {"id": str(ME), "providerDisplayName": "Build Service"}})
    if "api-version=7.1" not in parts.query:
        return reply(400, {"message": "no api-version"})
    base = "/org/proj/_apis/git/repositories/repo/pullRequests/5/threads"
    if parts.path == base and method == "GET":
        return reply(200, {"value": fake.threads, "count": len(fake.threads)})
    if parts.path == base and method == "POST":
        sent = json.loads(body)
        assert sent["comments"][0]["commentType"] == "text"
        comment = {"id": 1, "author": {"id": str(ME)}, **sent["comments"][0]}
        fake.threads.append({"id": 1000 + len(fake.threads), "status": sent["status"], "comments": [comment]})
        return reply(200, fake.threads[-1])
    found = re.fullmatch(re.escape(base) + r"/(\d+)/comments/(\d+)", parts.path)
    if found and method == "PATCH":
        (thread,) = (one for one in fake.threads if one["id"] == int(found[1]))
        thread["comments"][int(found[2]) - 1] |= json.loads(body)
        return reply(200, thread["comments"][0])
    return reply(404, {"message": "not found"})


Handler = Callable[[Fake, str, str, dict[str, str], bytes], Reply]


@contextmanager
def serving(fake: Fake, handle: Handler) -> Iterator[str]:
    """The address at which `handle` answers."""

    class _Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake.requests.append((self.command, self.path))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, content = handle(fake, self.command, self.path, headers, body)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = _any  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), _Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


SYSTEM = """
FACTS = {f"What is the colour of house {i}?": f"House {i} is painted {c}." for i, c in
         ((i, ["red", "green", "blue"][i % 3]) for i in range(30))}

def answer(question):
    fact = FACTS[question]
    return {"answer": fact, "contexts": [fact + " It has a door."]}
"""
WORSE = SYSTEM.replace("fact = FACTS[question]", 'fact = "Nobody knows that of this building."')


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Repository:
    """A bare repository, a clone to write commits in, and fresh clones for jobs."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Repository:
        root.mkdir(parents=True, exist_ok=True)
        git(root, "init", "-q", "--bare", "remote.git")
        git(root, "clone", "-q", "remote.git", "work")
        work = root / "work"
        git(work, "symbolic-ref", "HEAD", "refs/heads/main")
        lines = (
            json.dumps(
                {
                    "id": f"h{i}",
                    "question": f"What is the colour of house {i}?",
                    "reference": f"House {i} is painted {['red', 'green', 'blue'][i % 3]}.",
                }
            )
            for i in range(30)
        )
        (work / "golden.jsonl").write_text("\n".join(lines))
        (work / "thresholds.toml").write_text(
            "[metrics.faithfulness]\nmax_drop = 0.02\n[metrics.context_recall]\nmax_drop = 0.02\n"
        )
        (work / "ragstone.toml").write_text(
            '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "python:houses:answer"\nconcurrency = 2\n'
        )
        (work / ".gitignore").write_text("ragstone-run/\nragstone-baselines/\n__pycache__/\n")
        return cls(root)

    def commit(self, message: str, system: str = SYSTEM, *, branch: str = "main") -> str:
        """A commit of `system` at the tip of `branch`, which starts at main; its id."""
        work = self.root / "work"
        if branch != "main" and branch not in git(work, "branch", "--format=%(refname:short)").split():
            git(work, "branch", branch, "main")
        if git(work, "symbolic-ref", "--short", "HEAD") != branch:
            git(work, "checkout", "-q", branch)
        (work / "houses.py").write_text(f"# {message}\n{system}")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", message)
        git(work, "push", "-q", "origin", branch)
        return git(work, "rev-parse", "HEAD")

    def job(self, name: str, commit: str, *options: str) -> Path:
        """A fresh clone for a job, with `commit` checked out and no branch, as CI systems do."""
        folder = self.root / "jobs" / name
        folder.parent.mkdir(exist_ok=True)
        remote = (self.root / "remote.git").as_uri()
        git(self.root, "clone", "-q", *options, remote, str(folder))
        if not options:
            git(folder, "checkout", "-q", "--detach", commit)
        return folder
