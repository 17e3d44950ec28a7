"""A server of Weights & Biases on loopback: what its SDK asks of one to write a run, with what it has been sent.

GraphQL for runs and artifacts, the stream of a run's figures, and uploads to the addresses that GraphQL gave.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.loopback import answering

Json = dict[str, Any]


class Server(ThreadingHTTPServer):
    """Refuses everything with `status` and what it `says`, if that is set.

    `refused` are operations of GraphQL that it does not know.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status: int | None = None
        self.says = "refused"
        self.no_uploads = False
        self.runs: dict[str, Json] = {}
        self.history: dict[str, list[Json]] = {}
        self.summaries: dict[str, Json] = {}
        self.artifacts: dict[str, Json] = {}
        self.uploads: dict[str, bytes] = {}
        self.refused: list[Json] = []
        self.users: set[str] = set()
        self.sent: list[Json] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def graphql(self, operation: str, given: Json) -> Json | None:
        answer = getattr(self, f"_{operation}", None)
        return None if answer is None else answer(given)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no failure of a test."""

    def streamed(self, path: str, body: Json) -> None:
        run = path.split("/")[-2]
        for name, part in body.get("files", {}).items():
            lines = [json.loads(line) for line in part["content"]]
            if name == "wandb-history.jsonl":
                self.history.setdefault(run, []).extend(lines)
                self.runs[run]["historyLineCount"] = len(self.history[run])
                self.runs[run]["historyTail"] = json.dumps([json.dumps(self.history[run][-1])])
            elif name == "wandb-summary.json":
                self.summaries[run] = lines[-1]
                self.runs[run]["summaryMetrics"] = json.dumps(lines[-1])

    def _Viewer(self, _: Json) -> Json:
        viewer = {"id": "u", "entity": "team", "username": "user", "flags": "{}", "teams": {"edges": []}}
        return {"data": {"viewer": {**viewer, "email": "user@example.org"}, "serverInfo": None}}

    def _RunResumeStatus(self, given: Json) -> Json:
        project = {"id": "p", "name": given["project"], "entity": {"id": "e", "name": "team"}}
        return {"data": {"model": {**project, "bucket": self.runs.get(given["name"])}}}

    def _UpsertBucket(self, given: Json) -> Json:
        name = given["name"]
        inserted = name not in self.runs
        run = self.runs.setdefault(
            name,
            {
                **dict.fromkeys(("displayName", "description", "sweepName", "notes", "wandbConfig")),
                **dict.fromkeys(("config", "summaryMetrics"), "{}"),
                **dict.fromkeys(("historyTail", "eventsTail"), "[]"),
                **dict.fromkeys(("historyLineCount", "logLineCount", "eventsLineCount"), 0),
                "id": f"bucket-{name}",
                "name": name,
                "tags": [],
                "project": {"id": "p", "name": given["project"], "entity": {"id": "e", "name": "team"}},
            },
        )
        run |= {key: given[key] for key in ("displayName", "config") if given.get(key) is not None}
        # What the SDK tells a run that was begun from one that was only planned by.
        run["wandbConfig"] = json.dumps(json.loads(run["config"]).get("_wandb", {}).get("value", {}))
        self.sent.append(given)
        return {"data": {"upsertBucket": {"bucket": run, "inserted": inserted}}}

    def _CreateRunFiles(self, given: Json) -> Json:
        files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in given["files"]]
        return {"data": {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}}

    def _ArtifactType(self, _: Json) -> Json:
        return {"data": {"project": {"artifact": None}}}

    def _CreateArtifact(self, given: Json) -> Json:
        wanted = given["input"]
        name = wanted["artifactCollectionName"]
        known = self.artifacts.get(name)
        if known is None or known["digest"] != wanted["digest"]:
            self.artifacts[name] = {**wanted, "id": f"artifact-{len(self.artifacts)}-{name}", "state": "PENDING"}
        found = {key: self.artifacts[name][key] for key in ("id", "state")}
        return {"data": {"createArtifact": {"artifact": {**found, "artifactSequence": {"latestArtifact": None}}}}}

    def _ServerFeaturesQuery(self, _: Json) -> Json:
        return {"data": {"serverInfo": {"features": []}}}

    def _CreateArtifactManifest(self, given: Json) -> Json:
        artifact = given["artifactID"]
        file = {"id": "f", "uploadUrl": f"{self.url}/upload/{artifact}/{given['name']}", "uploadHeaders": []}
        return {"data": {"createArtifactManifest": {"artifactManifest": {"id": f"manifest-{artifact}", "file": file}}}}

    _UpdateArtifactManifest = _CreateArtifactManifest

    def _CreateArtifactFiles(self, given: Json) -> Json:
        nodes = []
        for file in given["input"]["artifactFiles"]:
            place = f"{file['artifactID']}/{file['name']}"
            node = {"storagePath": place, "uploadUrl": f"{self.url}/upload/{place}", "uploadHeaders": []}
            nodes.append({"node": {**node, "uploadMultipartUrls": None, "artifact": {"id": file["artifactID"]}}})
        return {"data": {"createArtifactFiles": {"files": {"edges": nodes}}}}

    def _CommitArtifact(self, given: Json) -> Json:
        found = next(one for one in self.artifacts.values() if one["id"] == given["artifactID"])
        found["state"] = "COMMITTED"
        return {"data": {"commitArtifact": {"artifact": {key: found[key] for key in ("id", "digest")}}}}

    def _ArtifactByID(self, given: Json) -> Json:
        found = next(one for one in self.artifacts.values() if one["id"] == given["id"])
        project = {"id": "p", "internalId": "1", "name": found["projectName"], "entity": {"name": found["entityName"]}}
        collection = {"name": found["artifactCollectionName"], "project": project}
        artifact = {
            **dict.fromkeys(("description", "commitHash", "historyStep", "updatedAt")),
            "ttlDurationSeconds": -1,
            **{key: found[key] for key in ("id", "state", "digest", "metadata")},
            "__typename": "Artifact",
            "artifactSequence": {"__typename": "ArtifactSequence", **collection},
            "versionIndex": 0,
            "artifactType": {"name": found["artifactTypeName"]},
            "ttlIsInherited": False,
            "tags": [],
            "size": 1,
            "fileCount": 3,
            "createdAt": "2026-11-22T00:00:00Z",
            "aliases": [],
        }
        return {"data": {"artifact": artifact}}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.users.add(self.headers.get("authorization", ""))
        reply: Json | None = {}
        status = self.server.status or 200
        if status != 200:
            reply = {"errors": [{"message": self.server.says}]}
        elif self.path.endswith("/graphql"):
            asked = json.loads(body)
            operation = asked.get("operationName") or asked["query"].split("(")[0].split()[-1]
            reply = self.server.graphql(operation, asked.get("variables") or {})
            if reply is None:
                self.server.refused.append(asked)
                reply, status = {"errors": [{"message": f"unknown operation {operation}"}]}, 400
        elif self.path.endswith("/file_stream"):
            self.server.streamed(self.path, json.loads(body))
        elif self.server.no_uploads:
            status, reply = 403, {}
        else:
            self.server.uploads[self.path] = body
        text = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = _any  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: object) -> None: ...


@contextmanager
def tracking() -> Iterator[Server]:
    with answering(Server()) as server:
        yield server
