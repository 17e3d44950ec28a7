"""What to do for this event: decided once, from the event and the inputs, before
anything else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ragstone.errors import ConfigError
from ragstone.github.api.event import Event, EventKind
from ragstone.github.inputs import ActionInputs, CommentMode


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


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What this job does.

    `baseline_branch` None: that of the job's base, else the repository's default
    branch, to be looked up. `pull_request` is the number to comment on; for REPORT it
    is found through the API. `without_secrets` explains a missing key or a read-only
    token. `notices` are plain sentences for the log. `notifies`: a webhook is told if
    it does not pass.
    """

    task: JobTask
    baseline: BaselineSource
    baseline_branch: str | None
    comment: CommentMode
    pull_request: int | None
    follows_issue: bool
    """Whether the sticky issue is opened, updated or closed."""
    without_secrets: bool
    notices: tuple[str, ...] = ()
    notifies: bool = False


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
    if event.kind is EventKind.WORKFLOW_RUN:
        return _report_plan(event, inputs)
    notices: list[str] = []
    pull = event.pull_request if event.kind is EventKind.PULL_REQUEST else None
    if pull is not None and event.without_secrets:
        notices.append(
            "This pull request comes from a fork or from Dependabot: no secrets, and a read-only token."
        )
    is_scheduled = event.kind is EventKind.SCHEDULE
    is_main = (
        event.kind is EventKind.PUSH
        and event.branch is not None
        and event.branch == event.default_branch
    )
    return JobPlan(
        task=JobTask.GATE,
        baseline=_baseline_source(inputs.baseline),
        baseline_branch=inputs.baseline_branch,
        comment=inputs.comment if pull is not None else CommentMode.OFF,
        pull_request=pull.number if pull is not None else None,
        follows_issue=inputs.report_issue and is_scheduled,
        without_secrets=event.without_secrets,
        notices=tuple(notices),
        notifies=is_main or is_scheduled,
    )


def _report_plan(event: Event, inputs: ActionInputs) -> JobPlan:
    upstream = event.upstream
    if upstream is None or upstream.event != EventKind.PULL_REQUEST:
        raise ConfigError(
            f"this workflow_run job follows a run of '{upstream.event if upstream else 'nothing'}', "
            "not a pull request.",
            hint="Guard the job with `if: github.event.workflow_run.event == 'pull_request'`.",
        )
    source = _baseline_source(inputs.baseline)
    return JobPlan(
        task=JobTask.REPORT,
        # The base commit's run in a fork's artifact may be forged, like the rest of it.
        baseline=BaselineSource.ARTIFACT if source is BaselineSource.COMMIT else source,
        baseline_branch=inputs.baseline_branch,
        comment=inputs.comment,
        pull_request=None,
        follows_issue=False,
        without_secrets=False,
    )


def _baseline_source(value: str) -> BaselineSource:
    return (
        BaselineSource(value)
        if value in ("artifact", "commit", "none")
        else BaselineSource.PATH
    )
