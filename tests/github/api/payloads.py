"""Event payloads and runner variables, in the shape that GitHub gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REPOSITORY_ID = 1001
FORK_ID = 2002
REPOSITORY = {
    "id": REPOSITORY_ID,
    "full_name": "acme/rag",
    "default_branch": "main",
    "owner": {"login": "acme", "id": 1},
}
FORK = {"id": FORK_ID, "full_name": "mallory/rag", "default_branch": "main", "owner": {"login": "mallory", "id": 2}}
HEAD_SHA = "a" * 40
MERGE_SHA = "b" * 40


def pull_request(
    *, fork: bool = False, number: int = 7, author: str = "dev", base: str = "main", base_sha: str = "c" * 40
) -> dict[str, Any]:
    return {
        "action": "synchronize",
        "number": number,
        "pull_request": {
            "number": number,
            "head": {"ref": "main" if fork else "topic", "sha": HEAD_SHA, "repo": FORK if fork else REPOSITORY},
            "base": {"ref": base, "sha": base_sha, "repo": REPOSITORY},
            "user": {"login": author},
        },
        "repository": REPOSITORY,
    }


def workflow_run(*, event: str = "pull_request", fork: bool = True) -> dict[str, Any]:
    head = FORK if fork else REPOSITORY
    return {
        "action": "completed",
        "workflow_run": {
            "id": 555,
            "event": event,
            "head_sha": HEAD_SHA,
            "head_branch": "main" if fork else "topic",
            "head_repository": head,
            "workflow_id": 42,
            "conclusion": "failure",
        },
        "repository": REPOSITORY,
    }


def payload_of(event: str) -> dict[str, Any]:
    if event == "pull_request":
        return pull_request()
    if event == "workflow_run":
        return workflow_run()
    if event == "merge_group":
        return {"merge_group": {"base_ref": "refs/heads/main", "head_sha": MERGE_SHA}, "repository": REPOSITORY}
    return {"repository": REPOSITORY}


def runner(event: str, *, ref: str = "refs/heads/main", **more: str) -> dict[str, str]:
    """The variables that the runner sets, without its files."""
    refs = {"pull_request": "refs/pull/7/merge", "merge_group": "refs/heads/gh-readonly-queue/main/pr-7-abc"}
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": event,
        "GITHUB_REPOSITORY": "acme/rag",
        "GITHUB_REPOSITORY_ID": str(REPOSITORY_ID),
        "GITHUB_SHA": MERGE_SHA,
        "GITHUB_REF": refs.get(event, ref),
        "GITHUB_RUN_ID": "900",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_WORKFLOW_REF": "acme/rag/.github/workflows/gate.yml@refs/heads/main",
        "GITHUB_ACTOR": "dev",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_API_URL": "https://api.github.com",
        **more,
    }


def with_payload(environ: dict[str, str], payload: object, folder: Path) -> dict[str, str]:
    path = folder / "event.json"
    path.write_text(json.dumps(payload), encoding="utf-8")
    return {**environ, "GITHUB_EVENT_PATH": str(path)}
