"""Decides what a job is to do, from its event and its inputs alone, before anything
else."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.github.api.event import Event, EventKind
from ragstone.github.inputs import ActionInputs


class JobTask(StrEnum):
    """The task of a job."""

    # Evaluate the system, and decide.
    GATE = "gate"
    # Decide on the run that a pull request had without secrets (workflow_run), and post
    # the result.
    REPORT = "report"


class BaselineSource(StrEnum):
    """What a run is compared with."""

    # The newest good run of the baseline branch.
    ARTIFACT = "artifact"
    # The base commit, whose system is asked in the same job; as ARTIFACT if there is
    # none.
    COMMIT = "commit"
    NONE = "none"
    # A run directory in the workspace: any other value of the input.
    PATH = "path"

    @classmethod
    def _missing_(cls, _path: object) -> BaselineSource:
        return cls.PATH


class JobPlan(Struct, frozen=True):
    """What a job is to do."""

    task: JobTask
    baseline: BaselineSource
    pull_request: int | None = None
    """The number of the pull request to comment on; for REPORT it is found later,
    through the API."""
    notifies: bool = False
    """Whether a message is sent to the webhook if the gate does not pass."""


def make_plan(event: Event, inputs: ActionInputs) -> JobPlan:
    """Make the plan for `event`.

    Raises ConfigError for events on which Ragstone must not run: pull_request_target,
    and a workflow_run that follows no pull request.
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
            # The fork's artifact has a run of the base commit, which may be forged.
            source = BaselineSource.ARTIFACT
        return JobPlan(JobTask.REPORT, source)
    pull = event.pull_request if event.kind is EventKind.PULL_REQUEST else None
    is_on_main = event.branch is not None and event.branch == event.default_branch
    is_push_to_main = event.kind is EventKind.PUSH and is_on_main
    return JobPlan(
        JobTask.GATE,
        source,
        pull_request=None if pull is None else pull.number,
        notifies=is_push_to_main or event.kind is EventKind.SCHEDULE,
    )
