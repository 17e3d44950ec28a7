"""What to do for this event: decided once, from the event and the inputs, before
anything else."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.github.api.event import Event, EventKind
from ragstone.github.inputs import ActionInputs


class JobTask(StrEnum):
    """GATE evaluates and decides. REPORT renders the result of a pull request's own run
    (workflow_run)."""

    GATE = "gate"
    REPORT = "report"


class BaselineSource(StrEnum):
    """What to compare with. COMMIT: the base commit, asked in the same job; ARTIFACT
    where there is none."""

    ARTIFACT = "artifact"
    COMMIT = "commit"
    NONE = "none"
    PATH = "path"

    @classmethod
    def _missing_(cls, _path: object) -> BaselineSource:
        return cls.PATH


class JobPlan(Struct, frozen=True):
    """What this job does."""

    task: JobTask
    baseline: BaselineSource
    pull_request: int | None = None
    """The number to comment on; for REPORT it is found through the API."""
    notifies: bool = False
    """Whether a webhook is told if it does not pass."""


def make_plan(event: Event, inputs: ActionInputs) -> JobPlan:
    """The plan for `event`. Pure.

    Raises ConfigError for events on which Ragstone must not run: pull_request_target
    gives secrets and a write token to a job that would run a pull request's code; a
    workflow_run that follows no pull request has nothing to post.
    """
    if event.kind is EventKind.PULL_REQUEST_TARGET:
        raise ConfigError(
            "Ragstone does not run on pull_request_target: that event gives secrets and a write token to a job "
            "that runs the pull request's code.",
            hint="Use `on: pull_request`, and the workflow_run workflow in docs/github-action.md to comment for forks.",
        )
    source = BaselineSource(inputs.baseline)
    upstream = event.upstream
    if event.kind is EventKind.WORKFLOW_RUN and upstream is not None:
        if upstream.event != EventKind.PULL_REQUEST:
            raise ConfigError(
                f"this workflow_run job follows a run of '{upstream.event}', not a pull request.",
                hint="Guard the job with `if: github.event.workflow_run.event == 'pull_request'`.",
            )
        if source is BaselineSource.COMMIT:
            # Its run in a fork's artifact may be forged, like the rest of it.
            source = BaselineSource.ARTIFACT
        return JobPlan(JobTask.REPORT, source)
    pull = event.pull_request if event.kind is EventKind.PULL_REQUEST else None
    is_on_main = event.branch is not None and event.branch == event.default_branch
    is_main = event.kind is EventKind.PUSH and is_on_main
    return JobPlan(
        JobTask.GATE,
        source,
        pull_request=None if pull is None else pull.number,
        notifies=is_main or event.kind is EventKind.SCHEDULE,
    )
