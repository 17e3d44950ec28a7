"""A GitHub on loopback: keeps state, speaks the REST API, and holds both sides to the published description.

Two servers: the API, and a storage host that artifacts are downloaded from. Faults are scripted per request.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import posixpath
import re
import socket
import struct
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.github.api.openapi import Contract
from tests.github.api.payloads import FORK_ID as FORK_ID
from tests.github.api.payloads import HEAD_SHA, REPOSITORY_ID
from tests.loopback import answering

WORKFLOW_ID = 42
BASE_SHA = "c" * 40
TOKEN = "ghs_the-workflow-token"
ALL_RIGHTS = frozenset({"contents", "actions", "pull-requests"})


@dataclass
class Actor:
    """Who a token stands for. `type` Bot: an installation, which may not ask for /user."""

    login: str
    type: str = "Bot"
    reads: frozenset[str] = ALL_RIGHTS
    writes: frozenset[str] = ALL_RIGHTS


@dataclass
class Fault:
    """What happens to the next `times` requests that match. `after_write`: the request is carried out first."""

    method: str
    path: str
    status: int = 0
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "fault"
    after_write: bool = False
    how: str = "status"  # status, reset, truncated, slow, garbage
    delay_s: float = 0.0


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Refusal(Exception):  # noqa: N818 - a reply, not an error of the tests
    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message or {403: "Resource not accessible by integration", 404: "Not Found"}.get(status, "no")


class FakeGitHub:
    """The state of one repository, ``acme/rag``, and two servers. Use as a context manager."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.actors: dict[str, Actor] = {TOKEN: Actor("github-actions[bot]")}
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.artifacts: dict[int, tuple[dict[str, Any], bytes]] = {}
        self.workflows = {"gate.yml": WORKFLOW_ID}
        self.merged: set[str] = {"d" * 40, "b" * 40}
        """The commits that the branch holds: those of runs as they are added, and of what a runner checks out."""
        self.files: dict[str, dict[str, bytes | str]] = {BASE_SHA: {}}
        """Commit to path to content; a text is where a link leads."""
        self.parents: dict[str, list[str]] = {}
        """Commit to its parents."""
        self.trees: dict[str, str] = {}
        """Commit to Git's name for its files."""
        self.branches: dict[str, str] = {"main": BASE_SHA}
        self.protected: set[str] = {"main"}
        self.renamed: dict[str, str] = {}
        """A branch's old name to its new one: GitHub redirects, and clients follow."""
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.storage_seen: list[Seen] = []
        self.storage_faults: list[Fault] = []
        self.problems: list[str] = []
        self.hide_new_comments = 0
        self._lock = threading.RLock()
        self._next_id = 10_000

    def _like(self, example: str, **changed: Any) -> dict[str, Any]:
        """A published reply, with `changed` fields."""
        return {**self.contract.example(example), **changed}

    # -- set-up of state -------------------------------------------------------------------------------------------

    def add_comment(self, number: int, body: str, login: str = "someone", type_: str = "User") -> dict[str, Any]:
        identity = self._id()
        comment = self._like(
            "issue-comment",
            id=identity,
            body=body,
            url=f"{self.repository_url}/issues/comments/{identity}",
            html_url=f"https://github.com/acme/rag/pull/{number}#issuecomment-{identity}",
            issue_url=f"https://api.github.com/repos/acme/rag/issues/{number}",
        )
        comment["user"].update(login=login, type=type_)
        self.comments.append({"number": number, "comment": comment})
        return comment

    def add_run(
        self,
        run_id: int,
        *,
        event: str = "push",
        branch: str | None = "main",
        workflow_id: int = WORKFLOW_ID,
        head_repository_id: int | None = REPOSITORY_ID,
        sha: str = "d" * 40,
        conclusion: str = "success",
        status: str = "completed",
        created_at: str | None = None,
        artifact: Mapping[str, bytes] | bytes | None = None,
        tree: str | None = None,
        attempt: int = 1,
    ) -> dict[str, Any]:
        """A run of a workflow, and what it uploaded. `tree` is Git's name for the files of its commit."""
        run = self._like(
            "workflow-run",
            id=run_id,
            workflow_id=workflow_id,
            event=event,
            status=status,
            conclusion=conclusion,
            head_branch=branch,
            head_sha=sha,
            url=f"{self.repository_url}/actions/runs/{run_id}",
            html_url=f"https://github.com/acme/rag/actions/runs/{run_id}",
            created_at=created_at or f"2026-11-{1 + run_id % 28:02d}T00:00:00Z",
            run_attempt=attempt,
        )
        if tree is not None:
            run["head_commit"].update(id=sha, tree_id=tree)
        run["repository"].update(id=REPOSITORY_ID, full_name="acme/rag")
        if head_repository_id is None:
            run["head_repository"] = None
        else:
            run["head_repository"].update(id=head_repository_id)
        self.runs.append(run)
        if artifact is not None:
            self.add_artifact(run_id, artifact)
        return run

    def add_artifact(
        self, run_id: int, files: Mapping[str, bytes] | bytes, *, name: str = "ragstone-run", **changed: Any
    ) -> dict[str, Any]:
        archive = files if isinstance(files, bytes) else zip_of(files)
        identity = self._id()
        run = next((run for run in self.runs if run["id"] == run_id), None)
        artifact = self._like(
            "artifact",
            id=identity,
            name=name,
            size_in_bytes=len(archive),
            expired=False,
            digest=f"sha256:{hashlib.sha256(archive).hexdigest()}",
        )
        head = run["head_repository"] if run else None
        artifact["workflow_run"].update(
            id=run_id,
            repository_id=REPOSITORY_ID,
            head_repository_id=head["id"] if head else REPOSITORY_ID,
            head_branch=(run["head_branch"] if run else None) or "main",
        )
        artifact.update(changed)
        self.artifacts[identity] = (artifact, archive)
        return artifact

    def add_pull(self, number: int, *, owner: str, branch: str, sha: str, head_id: int, base: str = "main") -> None:
        pull = self.contract.example("pull-request-simple-items")[0]
        pull.update(number=number, state="open", requested_teams=[])
        pull["head"].update(label=f"{owner}:{branch}", ref=branch, sha=sha)
        pull["head"]["repo"].update(id=head_id)
        pull["head"]["repo"]["owner"].update(login=owner)
        pull["base"].update(ref=base)
        pull["base"]["repo"].update(id=REPOSITORY_ID)
        self.pulls.append(pull)

    def add_fork_run(
        self, artifact: Mapping[str, bytes] | bytes | None = None, *, base: str = "main"
    ) -> dict[str, Any]:
        """The run 555 of the fork's pull request 7, which a trusted job reports."""
        self.add_pull(7, owner="mallory", branch="main", sha=HEAD_SHA, head_id=FORK_ID, base=base)
        return self.add_run(555, event="pull_request", head_repository_id=FORK_ID, sha=HEAD_SHA, artifact=artifact)

    def fail(self, method: str, path: str, status: int = 0, **more: Any) -> None:
        self.faults.append(Fault(method, path, status, **more))

    def bodies(self, number: int = 7) -> list[str]:
        return [entry["comment"]["body"] for entry in self.comments if entry["number"] == number]

    def sent(self, method: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.method == method]

    # -- serving ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> FakeGitHub:
        with contextlib.ExitStack() as stack:
            api = stack.enter_context(answering(_server(self._answer)))
            storage = stack.enter_context(answering(_server(self._answer_storage)))
            self._servers = stack.pop_all()
        self.api_url = f"http://127.0.0.1:{api.server_port}"
        self.storage_url = f"http://localhost:{storage.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()

    @property
    def repository_url(self) -> str:
        return f"{self.api_url}/repos/acme/rag"

    def _answer(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            self.problems += self.contract.problems_of_request(seen.method, seen.path, seen.query, seen.body)
            fault = _next_fault(self.faults, seen)
        if fault is None or fault.after_write:
            reply = self._carry_out(seen)
        if fault is not None:
            reply = Reply(fault.status or 200, _refused(fault.message), dict(fault.headers), fault)
        if fault is None or fault.how == "status":
            body = reply.body if reply.status != 204 else None
            self.problems += self.contract.problems_of_reply(seen.method, seen.path, reply.status, body)
        return reply

    def _carry_out(self, seen: Seen) -> Reply:
        with self._lock:
            try:
                actor = self._actor(seen)
                return self._route(seen, actor)
            except Refusal as refusal:
                body = {"message": refusal.message, "documentation_url": "https://docs.github.com/rest", "status": "x"}
                return Reply(refusal.status, body)

    def _actor(self, seen: Seen) -> Actor:
        given = seen.headers.get("authorization", "").removeprefix("token ").removeprefix("Bearer ")
        actor = self.actors.get(given)
        if actor is None:
            raise Refusal(401, "Bad credentials")
        return actor

    def _route(self, seen: Seen, actor: Actor) -> Reply:
        path = seen.path
        if path == "/user":
            return self._user(actor)
        if not path.startswith("/repos/acme/rag"):
            raise Refusal(404)
        path = path.removeprefix("/repos/acme/rag")
        for method, pattern, right, name in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == seen.method:
                allowed = actor.reads if method == "GET" else actor.writes
                if right not in allowed:
                    raise Refusal(403)
                found: Reply = getattr(self, name)(seen, actor, *match.groups())
                return found
        raise Refusal(404)

    def _user(self, actor: Actor) -> Reply:
        if actor.type == "Bot":
            raise Refusal(403)
        example = "private-user-response-with-public-and-private-profile-information"
        return Reply(200, self._like(example, login=actor.login, user_view_type="private"))

    def _repository(self, seen: Seen, actor: Actor) -> Reply:
        described = {"id": REPOSITORY_ID, "full_name": "acme/rag", "default_branch": "main", "url": self.repository_url}
        repository = self._like("full-repository-default-response", **described)
        for one in (repository, repository["source"], repository["parent"]):
            one.setdefault("language", None)  # required by the schema, left out of the published example
        return Reply(200, repository)

    def _list_comments(self, seen: Seen, actor: Actor, number: str) -> Reply:
        found = [entry["comment"] for entry in self.comments if entry["number"] == int(number)]
        if self.hide_new_comments > 0:
            self.hide_new_comments -= 1
            found = found[:-1]
        return _listing(seen, found)

    def _create_comment(self, seen: Seen, actor: Actor, number: str) -> Reply:
        if len(seen.body["body"]) > 65_536:
            raise Refusal(422, "Validation Failed: body is too long")
        return Reply(201, self.add_comment(int(number), seen.body["body"], actor.login, actor.type))

    def _change_comment(self, seen: Seen, actor: Actor, identity: str) -> Reply:
        comment = _one([entry["comment"] for entry in self.comments], "id", identity)
        comment["body"] = seen.body["body"]
        return Reply(200, comment)

    def _delete_comment(self, seen: Seen, actor: Actor, identity: str) -> Reply:
        self.comments = [entry for entry in self.comments if entry["comment"]["id"] != int(identity)]
        return Reply(204, None)

    def _workflow(self, seen: Seen, actor: Actor, workflow: str) -> Reply:
        if workflow not in self.workflows:
            raise Refusal(404)
        identity = self.workflows[workflow]
        url = f"{self.repository_url}/actions/workflows/{identity}"
        return Reply(200, self._like("workflow", id=identity, path=f".github/workflows/{workflow}", url=url))

    def _list_runs(self, seen: Seen, actor: Actor, workflow: str) -> Reply:
        found = [run for run in self.runs if run["workflow_id"] == int(workflow)]
        found.sort(key=lambda run: str(run["created_at"]), reverse=True)
        by = {"branch": "head_branch", "event": "event", "status": "status"}
        return _listing(seen, found, "workflow_runs", **{name: itemgetter(field) for name, field in by.items()})

    def _run(self, seen: Seen, actor: Actor, identity: str) -> Reply:
        return Reply(200, _one(self.runs, "id", identity))

    def _run_artifacts(self, seen: Seen, actor: Actor, identity: str) -> Reply:
        found = [artifact for artifact, _ in self.artifacts.values() if artifact["workflow_run"]["id"] == int(identity)]
        return _listing(seen, found, "artifacts", name=itemgetter("name"))

    def _download(self, seen: Seen, actor: Actor, identity: str) -> Reply:
        if int(identity) not in self.artifacts:
            raise Refusal(404)
        return Reply(302, None, {"Location": f"{self.storage_url}/blob/{identity}?sig=secret-signature"})

    def _compare(self, seen: Seen, actor: Actor, base: str, head: str) -> Reply:
        status = "ahead" if unquote(base) in self.merged else "diverged"
        return Reply(200, self._like("commit-comparison", status="identical" if base == head else status))

    def _branch(self, seen: Seen, actor: Actor, name: str) -> Reply:
        name = unquote(name)
        if name not in self.branches:
            raise Refusal(404)
        branch = self._like("branch-get", name=self.renamed.get(name, name), protected=name in self.protected)
        branch["commit"].update(sha=self.branches[name])
        return Reply(200, branch)

    def _contents(self, seen: Seen, actor: Actor, path: str) -> Reply:
        files = self._commit(seen.query["ref"])
        path = unquote(path)
        folder = [name for name in files if name.startswith(f"{path}/")]
        if folder:
            return Reply(200, self.contract.example("content-file-response-if-content-is-a-directory"))
        body = files.get(path)
        if body is None:
            raise Refusal(404)
        if isinstance(body, str):
            # A link to a file of the repository is answered with that file.
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), body))
            if inside not in files:
                described = {"path": path, "name": posixpath.basename(path), "target": body}
                return Reply(200, self._like("content-file-response-if-content-is-a-symlink", **described))
            body = files[inside]
            assert isinstance(body, bytes)
        small = len(body) <= 1024 * 1024
        found = self._like(
            "content-file-response-if-content-is-a-file",
            path=path,
            name=posixpath.basename(path),
            size=len(body),
            sha=_blob_sha(body),
            encoding="base64" if small else "none",
            content=base64.encodebytes(body).decode() if small else "",
        )
        return Reply(200, found)

    def _blob(self, seen: Seen, actor: Actor, sha: str) -> Reply:
        for body in (body for files in self.files.values() for body in files.values()):
            if isinstance(body, bytes) and _blob_sha(body) == sha:
                content = base64.encodebytes(body).decode()
                return Reply(200, self._like("blob", sha=sha, size=len(body), encoding="base64", content=content))
        raise Refusal(404)

    def _tarball(self, seen: Seen, actor: Actor, sha: str) -> Reply:
        self._commit(sha)
        return Reply(302, None, {"Location": f"{self.storage_url}/tarball/{sha}"})

    def _git_commit(self, seen: Seen, actor: Actor, sha: str) -> Reply:
        if sha not in self.parents and sha not in self.trees:
            raise Refusal(404)
        commit = self.contract.example("git-commit")
        sample = commit["parents"][0]
        commit.update(sha=sha, parents=[{**sample, "sha": parent} for parent in self.parents.get(sha, [])])
        commit["tree"].update(sha=self.trees.get(sha, commit["tree"]["sha"]))
        return Reply(200, commit)

    def _tree(self, seen: Seen, actor: Actor, sha: str) -> Reply:
        tree = self.contract.example("git-tree-response-recursively-retrieving-a-tree")
        sample = tree["tree"][0]
        tree["tree"] = [
            {
                **sample,
                "path": path,
                "type": "blob",
                "mode": "120000" if isinstance(body, str) else "100644",
                "sha": _blob_sha(body if isinstance(body, bytes) else body.encode()),
                "size": len(body),
            }
            for path, body in self._commit(sha).items()
        ]
        tree["truncated"] = False
        return Reply(200, tree)

    def _commit(self, sha: str) -> dict[str, bytes | str]:
        if sha not in self.files:
            raise Refusal(404, "No commit found for the ref")
        return self.files[sha]

    def _list_pulls(self, seen: Seen, actor: Actor) -> Reply:
        found = [pull for pull in self.pulls if pull["state"] == seen.query.get("state", "open")]
        return _listing(seen, found, head=lambda pull: pull["head"]["label"])

    def _answer_storage(self, seen: Seen) -> Reply:
        self.storage_seen.append(seen)
        if "authorization" in seen.headers:
            # As Azure does: a forwarded token is an error.
            return Reply(401, {"message": "InvalidAuthenticationInfo"})
        fault = _next_fault(self.storage_faults, seen)
        if fault is not None and fault.how == "status":
            return Reply(fault.status, {"message": fault.message}, dict(fault.headers))
        kind, _, name = seen.path.rpartition("/")
        if kind == "/tarball":
            return Reply(200, tar_of(self.files[name], f"acme-rag-{name[:7]}"), {}, fault)
        return Reply(200, self.artifacts[int(name)][1], {}, fault)

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id


ROUTES = (
    ("GET", "", "contents", "_repository"),
    ("GET", r"/issues/(\d+)/comments", "pull-requests", "_list_comments"),
    ("POST", r"/issues/(\d+)/comments", "pull-requests", "_create_comment"),
    ("PATCH", r"/issues/comments/(\d+)", "pull-requests", "_change_comment"),
    ("DELETE", r"/issues/comments/(\d+)", "pull-requests", "_delete_comment"),
    ("GET", r"/actions/workflows/([^/]+)/runs", "actions", "_list_runs"),
    ("GET", r"/actions/workflows/([^/]+)", "actions", "_workflow"),
    ("GET", r"/actions/runs/(\d+)", "actions", "_run"),
    ("GET", r"/actions/runs/(\d+)/artifacts", "actions", "_run_artifacts"),
    ("GET", r"/actions/artifacts/(\d+)/zip", "actions", "_download"),
    ("GET", r"/compare/([^/]+)\.\.\.([^/]+)", "contents", "_compare"),
    ("GET", r"/branches/(.+)", "contents", "_branch"),
    ("GET", r"/contents/(.+)", "contents", "_contents"),
    ("GET", r"/git/blobs/([^/]+)", "contents", "_blob"),
    ("GET", r"/git/trees/([^/]+)", "contents", "_tree"),
    ("GET", r"/git/commits/([^/]+)", "contents", "_git_commit"),
    ("GET", r"/tarball/([^/]+)", "contents", "_tarball"),
    ("GET", "/pulls", "pull-requests", "_list_pulls"),
)


@dataclass
class Reply:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    fault: Fault | None = None


def _refused(message: str) -> dict[str, str]:
    return {"message": message, "documentation_url": "https://docs.github.com/rest"}


def _next_fault(faults: list[Fault], seen: Seen) -> Fault | None:
    for fault in faults:
        if fault.times > 0 and fault.method == seen.method and re.search(fault.path, seen.path):
            fault.times -= 1
            return fault
    return None


def _listing(seen: Seen, items: list[Any], key: str | None = None, **by: Callable[[Any], object]) -> Reply:
    """A page of `items`, below `key`. `by` is what parameters of the query filter by."""
    for name, field_of in by.items():
        items = [item for item in items if seen.query.get(name, field_of(item)) == field_of(item)]
    size = int(seen.query.get("per_page", 30))
    start = (int(seen.query.get("page", 1)) - 1) * size
    page = items[start : start + size]
    return Reply(200, page if key is None else {"total_count": len(items), key: page})


def _one(items: list[dict[str, Any]], key: str, number: str) -> dict[str, Any]:
    for item in items:
        if item[key] == int(number):
            return item
    raise Refusal(404)


def _blob_sha(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """The same bytes at any time, as they are part of the names of tests."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o600 << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def tar_of(files: Mapping[str, bytes | str], top: str) -> bytes:
    """The archive of a commit, as GitHub makes it."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz", format=tarfile.PAX_FORMAT) as opened:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.mode = 0o664
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                opened.addfile(entry)
            else:
                entry.size = len(content)
                opened.addfile(entry, io.BytesIO(content))
    return body.getvalue()


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a connection that was reset on purpose


def _server(answer: Callable[[Seen], Reply]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body go out apart; the body would wait for an acknowledgement

        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            target = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(raw) if raw else None
            reply = answer(Seen(self.command, target.path, dict(parse_qsl(target.query)), headers, body))
            with contextlib.suppress(OSError):
                _send(self, reply)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return _Quiet(("127.0.0.1", 0), Handler)


def _send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    body = (
        reply.body if isinstance(reply.body, bytes) else b"" if reply.body is None else json.dumps(reply.body).encode()
    )
    how = reply.fault.how if reply.fault else "status"
    if how == "slow":
        assert reply.fault is not None
        time.sleep(reply.fault.delay_s)
    if how == "reset":
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(handler.connection.detach())  # close() alone would wait for the files made of it
        handler.close_connection = True
        return
    if how == "garbage":
        body = b"{not json"
    handler.send_response(reply.status)
    handler.send_header("Content-Type", "application/json; charset=utf-8")
    handler.send_header("Content-Length", str(len(body) + (1000 if how == "truncated" else 0)))
    for name, value in reply.headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
    if how == "truncated":
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
