"""Which commit's files a job trusts."""

from __future__ import annotations

import pytest

from ragstone.ci.github.client import GitHubApi
from ragstone.ci.github.event import build_event
from ragstone.ci.github.reviewed import base_branch, base_commit, proposed_change
from tests.ci.github.fake import FakeGitHub
from tests.ci.github.payloads import REPOSITORY, payload_of, pull_request, runner


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
def test_the_default_branch_is_its_own_base(github: FakeGitHub, api: GitHubApi, event: str) -> None:
    assert base_commit(api, build_event(runner(event), payload_of(event))) is None
    assert base_commit(api, build_event(runner(event), {})) is None


def test_the_base_of_a_pull_request_and_of_a_queue_is_the_commit_that_github_names(
    github: FakeGitHub, api: GitHubApi
) -> None:
    assert base_commit(api, build_event(runner("pull_request"), pull_request())) == "c" * 40
    queued = {"merge_group": {"base_ref": "refs/heads/main", "base_sha": "e" * 40}, "repository": REPOSITORY}
    assert base_commit(api, build_event(runner("merge_group"), queued)) == "e" * 40


@pytest.mark.parametrize("ref", ["refs/heads/topic", "refs/tags/main", "refs/tags/v1"])
def test_another_branch_and_a_tag_are_held_against_the_default_branch(
    github: FakeGitHub, api: GitHubApi, ref: str
) -> None:
    github.branches["main"] = "f" * 40
    assert base_commit(api, build_event(runner("push", ref=ref), payload_of("push"))) == "f" * 40


def test_runs_and_files_are_those_of_the_same_branch() -> None:
    pull = build_event(runner("pull_request"), pull_request())
    assert base_branch(pull) == "main"
    assert proposed_change(pull) == ("c" * 40, pull.pull_request.head.sha if pull.pull_request else None)
    push = build_event(runner("push"), payload_of("push"))
    assert (base_branch(push), proposed_change(push)) == ("main", None)
