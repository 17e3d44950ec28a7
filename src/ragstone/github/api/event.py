"""The event that started this job: its payload and the runner's variables, read once
into a typed Event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import ConfigError, parse_errors
from ragstone.settings.variables import Variables

MAX_PAYLOAD_BYTES = 30 * 1024 * 1024
"""GitHub caps webhook payloads at 25 MB."""

HOSTS = (
    *(
        "github.com",
        "api.github.com",
        "codeload.github.com",
        "*.actions.githubusercontent.com",
    ),
    *("*.blob.core.windows.net", "ghcr.io", "pkg-containers.githubusercontent.com"),
)
"""What a job on github.com needs for its checkout, image, artifacts and comment."""

DEPENDABOT = "dependabot[bot]"


class EventKind(StrEnum):
    """The events that Ragstone handles specifically; any other is OTHER."""

    PULL_REQUEST = "pull_request"
    PULL_REQUEST_TARGET = "pull_request_target"
    PUSH = "push"
    SCHEDULE = "schedule"
    WORKFLOW_DISPATCH = "workflow_dispatch"
    MERGE_GROUP = "merge_group"
    RELEASE = "release"
    WORKFLOW_RUN = "workflow_run"
    OTHER = "other"


class _Payload(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)


class _User(_Payload):
    login: str


class _Repository(_Payload):
    id: int | None = None
    full_name: str | None = None
    default_branch: str | None = None
    owner: _User | None = None


class Side(_Payload):
    """One side of a pull request: a branch and its commit. `repo` is None if the
    repository no longer exists."""

    ref: str
    sha: str
    repo: _Repository | None = None


class PullRequest(_Payload):
    """A pull request, as a payload or GitHub's API describes it."""

    number: int = Field(gt=0)
    head: Side
    base: Side
    user: _User | None = None

    @property
    def is_fork(self) -> bool:
        """Whether the head's repository is another one, or no longer exists. By id:
        names change, and can be reused."""
        head, base = self.head.repo, self.base.repo
        return head is None or base is None or head.id is None or head.id != base.id


class UpstreamRun(_Payload):
    """The run that a workflow_run job follows. Read from GitHub's payload, never from
    that run's artifacts."""

    run_id: int = Field(gt=0, alias="id")
    event: str
    head_sha: str
    head_branch: str | None = None
    head_repository: _Repository | None = None

    @property
    def head_owner(self) -> str | None:
        """The login of the owner of the run's repository."""
        return (
            self.head_repository.owner.login
            if self.head_repository and self.head_repository.owner
            else None
        )


class _HeadCommit(_Payload):
    message: str | None = None


class _MergeGroup(_Payload):
    base_ref: str | None = None
    base_sha: str | None = None


class _Document(_Payload):
    repository: _Repository = _Repository()
    pull_request: PullRequest | None = None
    merge_group: _MergeGroup = _MergeGroup()
    head_commit: _HeadCommit | None = None
    workflow_run: UpstreamRun | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What started this job.

    `branch` is the branch that the job runs on (None for pull requests, tags and merge
    queues); `sha` the commit that is checked out; `report_sha` the commit that links in
    reports should point at (a pull request's head, not the merge commit, which
    vanishes). `workflow` is the file name of the workflow, without its folder.
    """

    kind: EventKind
    name: str
    repository: str
    default_branch: str | None
    sha: str
    branch: str | None
    run_id: int
    workflow: str | None
    actor: str | None
    server_url: str
    api_url: str
    merge_base_branch: str | None = None
    merge_base_sha: str | None = None
    pull_request: PullRequest | None = None
    upstream: UpstreamRun | None = None
    message: str | None = None

    @property
    def report_sha(self) -> str:
        return self.pull_request.head.sha if self.pull_request else self.sha

    @property
    def run_url(self) -> str:
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"

    @property
    def without_secrets(self) -> bool:
        """True if GitHub provides neither secrets nor a write token: for pull requests
        from forks and Dependabot."""
        pull = self.pull_request
        if self.kind is not EventKind.PULL_REQUEST or pull is None:
            return False
        author = pull.user.login if pull.user is not None else None
        return pull.is_fork or DEPENDABOT in (self.actor, author)


def load_event(environ: Mapping[str, str]) -> Event:
    """Read the payload in GITHUB_EVENT_PATH, and build the Event.

    Raises ConfigError outside a GitHub job, or if the payload can't be read.
    """
    variables = Variables(environ)
    path = variables.get("GITHUB_EVENT_PATH")
    if not path or not variables.get("GITHUB_REPOSITORY"):
        raise ConfigError(
            "this is not a GitHub Actions job: GITHUB_EVENT_PATH or GITHUB_REPOSITORY is not set.",
            hint="Remove --github, or run inside a job.",
        )
    try:
        if Path(path).stat().st_size > MAX_PAYLOAD_BYTES:
            raise ConfigError(
                f"the event's payload is larger than {MAX_PAYLOAD_BYTES} bytes.",
                where=path,
            )
        payload = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the event's payload can't be read: {error}", where=path
        ) from None
    return build_event(environ, payload)


def build_event(environ: Mapping[str, str], payload: Any) -> Event:
    """The Event of `payload` (decoded JSON) under the runner's variables. Raises
    ConfigError for a wrong shape."""
    variables = Variables(environ)
    with parse_errors(None, "the event's payload is not as expected"):
        document = _Document.model_validate(payload)
    name = variables.get("GITHUB_EVENT_NAME")
    kind = (
        EventKind(name)
        if name in set(EventKind) - {EventKind.OTHER}
        else EventKind.OTHER
    )
    pull = document.pull_request
    if kind in (EventKind.PULL_REQUEST, EventKind.PULL_REQUEST_TARGET) and pull is None:
        raise ConfigError(f"a {name} event without a pull request in its payload.")
    if kind is EventKind.WORKFLOW_RUN and document.workflow_run is None:
        raise ConfigError("a workflow_run event without a workflow run in its payload.")
    return Event(
        kind=kind,
        name=name,
        repository=variables.get("GITHUB_REPOSITORY")
        or document.repository.full_name
        or "",
        default_branch=document.repository.default_branch,
        sha=variables.get("GITHUB_SHA"),
        branch=_branch(kind, variables.get("GITHUB_REF")),
        run_id=_number(variables, "GITHUB_RUN_ID") or 0,
        workflow=_workflow_file(variables.get("GITHUB_WORKFLOW_REF")),
        actor=variables.get("GITHUB_ACTOR") or None,
        server_url=(variables.get("GITHUB_SERVER_URL") or "https://github.com").rstrip(
            "/"
        ),
        api_url=(variables.get("GITHUB_API_URL") or "https://api.github.com").rstrip(
            "/"
        ),
        merge_base_branch=(document.merge_group.base_ref or "").removeprefix(
            "refs/heads/"
        )
        or None,
        merge_base_sha=document.merge_group.base_sha,
        pull_request=pull,
        upstream=document.workflow_run,
        message=document.head_commit.message if document.head_commit else None,
    )


def _branch(kind: EventKind, ref: str) -> str | None:
    if kind in (EventKind.PULL_REQUEST, EventKind.MERGE_GROUP) or not ref.startswith(
        "refs/heads/"
    ):
        return None
    return ref.removeprefix("refs/heads/")


def _workflow_file(reference: str) -> str | None:
    """``owner/name/.github/workflows/gate.yml@refs/heads/x`` → ``gate.yml``."""
    path = reference.partition("@")[0]
    name = path.rpartition("/")[2]
    return name if name.endswith((".yml", ".yaml")) else None


def _number(variables: Variables, name: str) -> int | None:
    value = variables.get(name)
    return int(value) if value.isascii() and value.isdigit() else None
