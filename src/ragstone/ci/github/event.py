"""The event that started this job: its payload and the runner's variables, read once into a typed Event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstone.ci.github.platform import GITHUB
from ragstone.ci.platform import Variables
from ragstone.errors import ConfigError

MAX_PAYLOAD_BYTES = 30 * 1024 * 1024
"""GitHub caps webhook payloads at 25 MB."""

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


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The pull request of this job. `is_fork` is also True if the head repository no longer exists."""

    number: int
    head_sha: str
    head_repository: str | None
    base_ref: str
    base_sha: str
    is_fork: bool
    author: str | None = None


@dataclass(frozen=True, slots=True)
class UpstreamRun:
    """The run that a workflow_run job follows. Read from GitHub's payload, never from that run's artifacts."""

    run_id: int
    event: str
    head_sha: str
    head_branch: str | None
    head_owner: str | None
    head_repository_id: int | None
    workflow_id: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """What started this job.

    `branch` is the branch that the job runs on (None for pull requests, tags and merge queues); `sha` the commit
    that is checked out; `report_sha` the commit that links in reports should point at (a pull request's head, not
    the merge commit, which vanishes). `workflow` is the file name of the workflow, without its folder.
    """

    kind: EventKind
    name: str
    repository: str
    repository_id: int | None
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
    attempt: int = 1

    @property
    def report_sha(self) -> str:
        return self.pull_request.head_sha if self.pull_request else self.sha

    @property
    def run_url(self) -> str:
        return self.url_of(self.run_id)

    def url_of(self, run_id: int) -> str:
        """The page of a run of this repository."""
        return f"{self.server_url}/{self.repository}/actions/runs/{run_id}"

    @property
    def without_secrets(self) -> bool:
        """True if GitHub provides neither secrets nor a write token: for pull requests from forks and Dependabot."""
        pull = self.pull_request
        if self.kind is not EventKind.PULL_REQUEST or pull is None:
            return False
        return pull.is_fork or self.actor == DEPENDABOT or pull.author == DEPENDABOT


class _Payload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _User(_Payload):
    login: str


class _Repository(_Payload):
    id: int | None = None
    full_name: str | None = None
    default_branch: str | None = None
    owner: _User | None = None


class _Head(_Payload):
    ref: str
    sha: str
    repo: _Repository | None = None


class _PullRequest(_Payload):
    number: int = Field(gt=0)
    head: _Head
    base: _Head
    user: _User | None = None


class _HeadCommit(_Payload):
    message: str | None = None


class _MergeGroup(_Payload):
    base_ref: str | None = None
    base_sha: str | None = None


class _WorkflowRun(_Payload):
    id: int = Field(gt=0)
    event: str
    head_sha: str
    head_branch: str | None = None
    head_repository: _Repository | None = None
    workflow_id: int | None = None


class _Document(_Payload):
    repository: _Repository | None = None
    pull_request: _PullRequest | None = None
    merge_group: _MergeGroup | None = None
    head_commit: _HeadCommit | None = None
    workflow_run: _WorkflowRun | None = None


def load_event(environ: Mapping[str, str]) -> Event:
    """Read the payload in GITHUB_EVENT_PATH, and build the Event.

    Raises ConfigError outside a GitHub job, or if the payload can't be read.
    """
    variables = GITHUB.variables(environ)
    path = variables.get("GITHUB_EVENT_PATH")
    if not path or not variables.get("GITHUB_REPOSITORY"):
        raise ConfigError(
            "this is not a GitHub Actions job: GITHUB_EVENT_PATH or GITHUB_REPOSITORY is not set.",
            hint="Remove --github, or run inside a job.",
        )
    try:
        if Path(path).stat().st_size > MAX_PAYLOAD_BYTES:
            raise ConfigError(f"the event's payload is larger than {MAX_PAYLOAD_BYTES} bytes.", where=path)
        payload = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the event's payload can't be read: {error}", where=path) from None
    return build_event(environ, payload)


def build_event(environ: Mapping[str, str], payload: Any) -> Event:
    """The Event of `payload` (decoded JSON) under the runner's variables. Raises ConfigError for a wrong shape."""
    variables = GITHUB.variables(environ)
    try:
        document = _Document.model_validate(payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "payload"
        raise ConfigError(f"the event's payload is not as expected: '{place}': {first['msg']}.") from None
    name = variables.get("GITHUB_EVENT_NAME")
    kind = EventKind(name) if name in set(EventKind) - {EventKind.OTHER} else EventKind.OTHER
    repository = document.repository or _Repository()
    full_name = variables.get("GITHUB_REPOSITORY") or repository.full_name or ""
    pull = _pull_request(document, full_name)
    if kind in (EventKind.PULL_REQUEST, EventKind.PULL_REQUEST_TARGET) and pull is None:
        raise ConfigError(f"a {name} event without a pull request in its payload.")
    if kind is EventKind.WORKFLOW_RUN and document.workflow_run is None:
        raise ConfigError("a workflow_run event without a workflow run in its payload.")
    return Event(
        kind=kind,
        name=name,
        repository=full_name,
        repository_id=_number(variables, "GITHUB_REPOSITORY_ID") or repository.id,
        default_branch=repository.default_branch,
        sha=variables.get("GITHUB_SHA"),
        branch=_branch(kind, variables.get("GITHUB_REF")),
        run_id=_number(variables, "GITHUB_RUN_ID") or 0,
        workflow=_workflow_file(variables.get("GITHUB_WORKFLOW_REF")),
        actor=variables.get("GITHUB_ACTOR") or None,
        server_url=(variables.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/"),
        api_url=(variables.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/"),
        merge_base_branch=_merge_base(document),
        merge_base_sha=document.merge_group.base_sha if document.merge_group else None,
        pull_request=pull,
        upstream=_upstream(document.workflow_run),
        message=document.head_commit.message if document.head_commit else None,
        attempt=_number(variables, "GITHUB_RUN_ATTEMPT") or 1,
    )


def _pull_request(document: _Document, repository: str) -> PullRequest | None:
    pull = document.pull_request
    if pull is None:
        return None
    head = pull.head.repo
    base_id = (document.repository.id if document.repository else None) or (
        pull.base.repo.id if pull.base.repo else None
    )
    # By id first: names can be reused and change with a rename.
    same = head is not None and (
        head.id == base_id if head.id is not None and base_id is not None else head.full_name == repository
    )
    return PullRequest(
        number=pull.number,
        head_sha=pull.head.sha,
        head_repository=head.full_name if head else None,
        base_ref=pull.base.ref,
        base_sha=pull.base.sha,
        is_fork=not same,
        author=pull.user.login if pull.user else None,
    )


def _upstream(run: _WorkflowRun | None) -> UpstreamRun | None:
    if run is None:
        return None
    head = run.head_repository
    return UpstreamRun(
        run_id=run.id,
        event=run.event,
        head_sha=run.head_sha,
        head_branch=run.head_branch,
        head_owner=head.owner.login if head and head.owner else None,
        head_repository_id=head.id if head else None,
        workflow_id=run.workflow_id,
    )


def _merge_base(document: _Document) -> str | None:
    if document.merge_group is None or document.merge_group.base_ref is None:
        return None
    return document.merge_group.base_ref.removeprefix("refs/heads/")


def _branch(kind: EventKind, ref: str) -> str | None:
    if kind in (EventKind.PULL_REQUEST, EventKind.MERGE_GROUP) or not ref.startswith("refs/heads/"):
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
