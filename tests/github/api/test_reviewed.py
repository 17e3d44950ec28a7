"""Which branch and commit a job trusts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragstone.github.api.client import GitHubApi
from ragstone.github.api.event import Event, build_event
from ragstone.github.api.reviewed import base_commit, reviewed_base
from tests.github.api.fake import FakeGitHub
from tests.github.api.payloads import REPOSITORY, payload_of, pull_request, runner


def pull_to(branch: str, *, repository: dict[str, Any] = REPOSITORY) -> Event:
    payload = pull_request(base=branch, base_sha="e" * 40)
    return build_event(runner("pull_request"), {**payload, "repository": repository})


def queue_for(branch: str) -> Event:
    payload = {"merge_group": {"base_ref": f"refs/heads/{branch}", "base_sha": "e" * 40}, "repository": REPOSITORY}
    return build_event(runner("merge_group"), payload)


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
def test_the_default_branch_is_its_own_base(github: FakeGitHub, api: GitHubApi, event: str) -> None:
    for payload in (payload_of(event), {}):
        base = reviewed_base(api, build_event(runner(event), payload))
        assert base_commit(api, base) is None
        assert base.refusal is None


@pytest.mark.parametrize("event", [pull_to("main"), queue_for("main")])
def test_a_change_for_the_default_branch_has_the_commit_that_github_names(
    github: FakeGitHub, api: GitHubApi, event: Event
) -> None:
    base = reviewed_base(None, event)
    assert (base.branch, base.refusal) == ("main", None)
    assert base_commit(api, base) == "e" * 40
    assert github.seen == []


@pytest.mark.parametrize("ref", ["refs/heads/topic", "refs/tags/main", "refs/tags/v1", "refs/heads/evil-base"])
@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_another_branch_and_a_tag_are_held_against_the_default_branch(
    github: FakeGitHub, api: GitHubApi, event: str, ref: str
) -> None:
    github.branches["main"] = "f" * 40
    base = reviewed_base(api, build_event(runner(event, ref=ref), payload_of("push")))
    assert (base.branch, base_commit(api, base)) == ("main", "f" * 40)


@pytest.mark.parametrize("propose", [pull_to, queue_for])
def test_a_protected_branch_counts_as_reviewed(
    github: FakeGitHub, api: GitHubApi, propose: Callable[[str], Event]
) -> None:
    github.branches["release/1"] = "e" * 40
    github.protected.add("release/1")
    base = reviewed_base(api, propose("release/1"))
    assert (base.branch, base.refusal) == ("release/1", None)
    assert base_commit(api, base) == "e" * 40


@pytest.mark.parametrize("propose", [pull_to, queue_for])
def test_a_branch_that_anybody_may_push_does_not(
    github: FakeGitHub, api: GitHubApi, propose: Callable[[str], Event]
) -> None:
    github.branches["evil-base"] = "e" * 40
    event = propose("evil-base")
    refusal = str(reviewed_base(api, event).refusal)
    assert "'evil-base'" in refusal
    assert "neither the default branch nor protected" in refusal


def test_a_branch_that_is_gone_or_was_renamed_does_not(github: FakeGitHub, api: GitHubApi) -> None:
    assert reviewed_base(api, pull_to("gone")).refusal
    github.branches["old"] = "e" * 40
    github.protected.add("old")
    github.renamed["old"] = "main"  # GitHub answers with the branch as it is called now
    assert reviewed_base(api, pull_to("old")).refusal


@pytest.mark.parametrize("fault", [403, 404, 500, None])
def test_if_github_can_not_be_asked_only_the_default_branch_counts(
    github: FakeGitHub, api: GitHubApi, fault: int | None
) -> None:
    github.branches["release/1"] = "e" * 40
    github.protected.add("release/1")
    assert "without a GitHub token" in str(reviewed_base(None, pull_to("release/1")).refusal)
    if fault is not None:
        github.fail("GET", "/branches/", fault, times=4)
    assert (reviewed_base(api, pull_to("release/1")).refusal is None) is (fault is None)


def test_a_default_branch_that_the_event_does_not_name_is_asked_for(github: FakeGitHub, api: GitHubApi) -> None:
    nameless = {name: value for name, value in REPOSITORY.items() if name != "default_branch"}
    assert reviewed_base(api, pull_to("main", repository=nameless)).refusal is None
    github.branches["evil-base"] = "e" * 40
    assert reviewed_base(api, pull_to("evil-base", repository=nameless)).refusal
    assert reviewed_base(None, pull_to("main", repository=nameless)).refusal


@pytest.mark.parametrize(
    ("group", "unreviewed"),
    [
        ({"base_ref": "refs/heads/main"}, None),
        ({"base_sha": "e" * 40}, "is not known"),
        ({}, None),
    ],
)
def test_a_merge_queue_whose_branch_is_not_named_is_not_reviewed(
    api: GitHubApi, group: dict[str, str], unreviewed: str | None
) -> None:
    event = build_event(runner("merge_group"), {"merge_group": group, "repository": REPOSITORY})
    refusal = reviewed_base(api, event).refusal
    assert (refusal is None) is (unreviewed is None)
    assert str(unreviewed) in str(refusal)
