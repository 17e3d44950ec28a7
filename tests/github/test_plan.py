from __future__ import annotations

import pytest

from ragstone.errors import ConfigError
from ragstone.github.api.event import build_event
from ragstone.github.inputs import CommentMode, read_inputs
from ragstone.github.plan import BaselineSource, IssueMode, JobPlan, JobTask, make_plan
from tests.github.api.payloads import payload_of, pull_request, runner, workflow_run


def plan(name: str, payload: object | None = None, ref: str = "refs/heads/main", **inputs: str) -> JobPlan:
    event = build_event(runner(name, ref=ref), payload_of(name) if payload is None else payload)
    return make_plan(event, read_inputs({f"INPUT_{key.upper().replace('_', '-')}": v for key, v in inputs.items()}))


def test_a_pull_request_is_compared_with_its_base_and_commented_on() -> None:
    found = plan("pull_request")
    assert (found.task, found.baseline, found.baseline_branch) == (JobTask.GATE, BaselineSource.ARTIFACT, None)
    assert (found.comment, found.pull_request) == (CommentMode.ALWAYS, 7)
    assert not found.without_secrets


def test_a_fork_is_gated_alike_and_it_is_said_that_secrets_are_missing() -> None:
    found = plan("pull_request", pull_request(fork=True))
    assert found.without_secrets
    assert found.pull_request == 7
    assert "no secrets" in found.notices[0]


@pytest.mark.parametrize("name", ["push", "schedule", "workflow_dispatch", "merge_group", "release"])
def test_without_a_pull_request_there_is_no_comment(name: str) -> None:
    found = plan(name)
    assert found.comment is CommentMode.OFF
    assert found.pull_request is None
    assert found.baseline_branch is None


def test_the_baseline_branch_can_be_named() -> None:
    assert plan("push", baseline_branch="refs/heads/release").baseline_branch == "release"
    assert plan("pull_request", baseline_branch="release").baseline_branch == "release"


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ("artifact", BaselineSource.ARTIFACT),
        ("commit", BaselineSource.COMMIT),
        ("none", BaselineSource.NONE),
        ("runs/old", BaselineSource.PATH),
    ],
)
def test_the_baseline_comes_from_where_the_input_says(value: str, source: BaselineSource) -> None:
    assert plan("push", baseline=value).baseline is source
    of_a_fork = BaselineSource.ARTIFACT if value == "commit" else source
    assert plan("workflow_run", baseline=value).baseline is of_a_fork


@pytest.mark.parametrize(
    ("name", "ref", "mode"),
    [
        ("schedule", "refs/heads/main", IssueMode.OPEN),
        ("workflow_dispatch", "refs/heads/main", IssueMode.FOLLOW),
        ("workflow_dispatch", "refs/heads/topic", IssueMode.OFF),
        ("workflow_dispatch", "refs/tags/v1", IssueMode.OFF),
        ("push", "refs/heads/main", IssueMode.OFF),
        ("pull_request", "", IssueMode.OFF),
    ],
)
def test_only_scheduled_runs_open_an_issue(name: str, ref: str, mode: IssueMode) -> None:
    found = plan(name, ref=ref, report_issue="true")
    assert found.issue is mode
    assert any("report-issue" in notice for notice in found.notices) == (
        mode is IssueMode.OFF and name != "pull_request"
    )
    without = plan(name, ref=ref)
    assert (without.issue, without.notices) == (IssueMode.OFF, ())


@pytest.mark.parametrize(
    ("name", "ref", "notifies"),
    [
        ("push", "refs/heads/main", True),
        ("schedule", "refs/heads/main", True),
        ("push", "refs/heads/topic", False),
        ("workflow_dispatch", "refs/heads/main", False),
        ("pull_request", "", False),
    ],
)
def test_only_the_default_branch_and_scheduled_runs_tell_a_webhook(name: str, ref: str, notifies: bool) -> None:
    assert plan(name, ref=ref).notifies is notifies


@pytest.mark.attack(by="fork", tries="`pull_request_target`", stopped_by="Ragstone refuses to run there")
def test_pull_request_target_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not run on pull_request_target"):
        plan("pull_request_target", pull_request(fork=True))


def test_a_workflow_run_reports_and_never_evaluates() -> None:
    found = plan("workflow_run")
    assert found.task is JobTask.REPORT
    assert found.pull_request is None  # found through the API


def test_a_workflow_run_after_anything_but_a_pull_request_is_refused() -> None:
    with pytest.raises(ConfigError, match="follows a run of 'push'"):
        plan("workflow_run", workflow_run(event="push"))
