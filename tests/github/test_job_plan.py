from __future__ import annotations

import pytest

from ragstone.errors import ConfigError
from ragstone.github.api.event import build_event
from ragstone.github.inputs import read_inputs
from ragstone.github.job_plan import BaselineSource, JobPlan, JobTask, make_plan
from tests.github.api.payloads import payload_of, pull_request, runner, workflow_run

MAIN, TOPIC, TAG = "refs/heads/main", "refs/heads/topic", "refs/tags/v1"


def plan(name: str, payload: object | None = None, ref: str = MAIN, **inputs: str) -> JobPlan:
    event = build_event(runner(name, ref=ref), payload_of(name) if payload is None else payload)
    return make_plan(event, read_inputs({f"INPUT_{key.upper().replace('_', '-')}": v for key, v in inputs.items()}))


def test_a_pull_request_is_compared_with_its_base_and_commented_on() -> None:
    found = plan("pull_request", pull_request(fork=True))
    assert found == JobPlan(JobTask.GATE, BaselineSource.ARTIFACT, pull_request=7)


@pytest.mark.parametrize(
    ("name", "ref", "notifies"),
    [
        ("schedule", MAIN, True),
        ("workflow_dispatch", MAIN, False),
        ("push", MAIN, True),
        ("push", TOPIC, False),
        ("merge_group", MAIN, False),
        ("release", MAIN, False),
        ("pull_request", "", False),
    ],
)
def test_who_is_told_depends_on_the_event_and_its_branch(name: str, ref: str, notifies: bool) -> None:
    found = plan(name, ref=ref)
    assert found.notifies == notifies
    is_pull = name == "pull_request"
    assert found.pull_request == (7 if is_pull else None)


def test_no_branch_is_the_default_one_if_the_event_names_none() -> None:
    assert not plan("push", {}, ref=TAG).notifies


@pytest.mark.parametrize("value", ["artifact", "commit", "none", "runs/old"])
def test_the_baseline_comes_from_where_the_input_says(value: str) -> None:
    source = BaselineSource(value) if "/" not in value else BaselineSource.PATH
    assert plan("push", baseline=value).baseline is source
    found = plan("workflow_run", baseline=value)
    assert found.baseline is (BaselineSource.ARTIFACT if value == "commit" else source), "a fork may forge the commit's"
    assert (found.task, found.pull_request) == (JobTask.REPORT, None)


@pytest.mark.attack(by="fork", tries="`pull_request_target`", stopped_by="refused")
def test_an_event_that_gives_secrets_to_foreign_code_or_has_no_pull_request_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not run on pull_request_target"):
        plan("pull_request_target", pull_request(fork=True))
    with pytest.raises(ConfigError, match="follows a run of 'push'"):
        plan("workflow_run", workflow_run(event="push"))
