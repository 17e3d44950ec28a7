"""Reads the event that started this job, from its payload and the runner's variables,
into an Event."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from ragstone.errors import ConfigError, parse_errors
from ragstone.files import read_regular
from ragstone.settings.variables import Environ, Variables

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
"""Hosts that a job on github.com must reach for its checkout, image, artifacts and
comment."""

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

    @classmethod
    def _missing_(cls, _name: object) -> EventKind:
        return cls.OTHER


def _optional(*path: str) -> Any:
    """A field at `path` in the payload; None if there is nothing."""
    return Field(None, validation_alias=AliasPath(*path))


class _Payload(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="ignore", frozen=True)


class PullRequest(_Payload):
    """A pull request, as a payload describes it."""

    number: int = Field(gt=0)
    head_sha: str = Field(validation_alias=AliasPath("head", "sha"))
    head_repository_id: int | None = _optional("head", "repo", "id")
    """None if the repository no longer exists."""
    base_branch: str = Field(validation_alias=AliasPath("base", "ref"))
    base_sha: str = Field(validation_alias=AliasPath("base", "sha"))
    base_repository_id: int | None = _optional("base", "repo", "id")
    author: str | None = _optional("user", "login")

    @property
    def is_fork(self) -> bool:
        """Whether the head's repository is another one, or no longer exists."""
        # Compared by id, because names change, and can be reused.
        head_id = self.head_repository_id
        return head_id is None or head_id != self.base_repository_id


class UpstreamRun(_Payload):
    """The run that a workflow_run job follows, as GitHub's payload describes it."""

    run_id: int = Field(gt=0, validation_alias="id")
    event: str
    head_sha: str
    head_owner: str | None = _optional("head_repository", "owner", "login")
    """The login of the owner of the run's repository."""


class Event(_Payload):
    """The event that started this job."""

    kind: EventKind
    name: str
    repository: str
    sha: str
    """The commit that is checked out."""
    branch: str | None
    """The branch that the job runs on; None for pull requests, tags and merge
    queues."""
    run_id: int
    workflow: str | None
    """The file name of the workflow, without its folder."""
    actor: str | None
    server_url: str
    api_url: str
    default_branch: str | None = _optional("payload", "repository", "default_branch")
    merge_base_ref: str | None = _optional("queue", "merge_group", "base_ref")
    merge_base_sha: str | None = _optional("queue", "merge_group", "base_sha")
    pull_request: PullRequest | None = _optional("payload", "pull_request")
    upstream: UpstreamRun | None = _optional("payload", "workflow_run")
    message: str | None = _optional("payload", "head_commit", "message")
    """The message of the commit that was pushed."""

    @property
    def merge_base_branch(self) -> str | None:
        """The branch that a merge queue merges into; None for other events."""
        return (self.merge_base_ref or "").removeprefix("refs/heads/") or None

    @property
    def report_sha(self) -> str:
        """The commit that links in reports point to. For a pull request it is the head,
        not the commit of the merge, which GitHub deletes later."""
        return self.pull_request.head_sha if self.pull_request else self.sha

    @property
    def run_url(self) -> str:
        return self.address_of("actions", "runs", str(self.run_id))

    def address_of(self, *path: str) -> str:
        """The address of a page of this repository, for readers."""
        return "/".join((self.server_url, self.repository, *path))

    @property
    def without_secrets(self) -> bool:
        """Whether GitHub gives this job neither secrets nor a write token: for pull
        requests from forks and from Dependabot."""
        pull = self.pull_request
        if self.kind is not EventKind.PULL_REQUEST or pull is None:
            return False
        return pull.is_fork or DEPENDABOT in (self.actor, pull.author)


def load_event(environ: Environ) -> Event:
    """Read the payload in GITHUB_EVENT_PATH, and build the Event.

    Raises ConfigError outside of a GitHub job, or if the payload can't be read.
    """
    variables = Variables(environ)
    path = variables.get("GITHUB_EVENT_PATH")
    if not path or not variables.get("GITHUB_REPOSITORY"):
        raise ConfigError(
            "this is not a GitHub Actions job: GITHUB_EVENT_PATH or GITHUB_REPOSITORY is not set.",
            hint="Leave out --github, or run Ragstone in a job of GitHub Actions.",
        )
    try:
        payload = json.loads(read_regular(Path(path), limit=MAX_PAYLOAD_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the event's payload can't be read: {error}", where=path
        ) from None
    return build_event(environ, payload)


def build_event(environ: Environ, payload: Any) -> Event:
    """Make the Event of `payload` (decoded JSON) and the runner's variables in
    `environ`. Raises ConfigError for a payload of another shape."""
    variables = Variables(environ)
    name = variables.get("GITHUB_EVENT_NAME")
    ref = variables.get("GITHUB_REF")
    kind = EventKind(name)
    # The refs of these events are no branches of the repository's own.
    has_other_ref = kind in (EventKind.PULL_REQUEST, EventKind.MERGE_GROUP)
    is_on_branch = ref.startswith("refs/heads/") and not has_other_ref
    run_id = variables.get("GITHUB_RUN_ID")
    # Such as ``owner/name/.github/workflows/gate.yml@refs/heads/x``.
    workflow = variables.get("GITHUB_WORKFLOW_REF").partition("@")[0]
    server_url = variables.get("GITHUB_SERVER_URL") or "https://github.com"
    api_url = variables.get("GITHUB_API_URL") or "https://api.github.com"
    fields = {
        "payload": payload,
        "queue": payload if kind is EventKind.MERGE_GROUP else None,
        "kind": kind,
        "name": name,
        "repository": variables.get("GITHUB_REPOSITORY"),
        "sha": variables.get("GITHUB_SHA"),
        "branch": ref.removeprefix("refs/heads/") if is_on_branch else None,
        "run_id": int(run_id) if run_id.isdecimal() else 0,
        "workflow": workflow.rpartition("/")[2]
        if workflow.endswith((".yml", ".yaml"))
        else None,
        "actor": variables.get("GITHUB_ACTOR") or None,
        "server_url": server_url.rstrip("/"),
        "api_url": api_url.rstrip("/"),
    }
    with parse_errors(None, "the event's payload is not as expected"):
        event = Event.model_validate(fields)
    needs_pull = kind in (EventKind.PULL_REQUEST, EventKind.PULL_REQUEST_TARGET)
    if needs_pull and event.pull_request is None:
        raise ConfigError(f"the payload of this {name} event has no pull request.")
    if kind is EventKind.WORKFLOW_RUN and event.upstream is None:
        raise ConfigError("the payload of this workflow_run event has no workflow run.")
    return event
