"""A pull request to a branch that anybody may push: the branch says nothing about review, so nothing in it counts."""

from __future__ import annotations

import pytest

from ragstone.errors import ConfigError
from ragstone.settings.load import load_settings
from tests.github.api.fake import FakeGitHub
from tests.github.api.payloads import HEAD_SHA, pull_request, workflow_run
from tests.github.builders import Checkout
from tests.github.runs import artifact_of
from tests.github.test_trusted_config import KEY, METRICS

EVIL = "evil-base"
EVIL_SHA = "9" * 40
NEITHER = "neither the default branch nor protected"
SEEING = '#!/bin/sh\nenv > seen\nwhile read -r line; do echo \'{"answer": "So."}\'; done\n'
"""A system that writes down its environment."""


@pytest.fixture
def checkout(github: FakeGitHub, checkout: Checkout) -> Checkout:
    """A checkout of a pull request, and a branch that its author pushed a minute ago."""
    github.branches[EVIL] = EVIL_SHA
    github.files[EVIL_SHA] = {}
    return checkout


TO_EVIL = pull_request(base=EVIL, base_sha=EVIL_SHA)


@pytest.mark.attack(
    by="pull request",
    tries="an unreviewed base branch of its own",
    stopped_by="an error. **Not prevented**: a branch that a pattern (`release/*`) protects counts once pushed",
)
def test_nothing_of_a_change_for_such_a_base_is_evaluated(checkout: Checkout) -> None:
    seen = checkout.root / "seen"
    env = '[system]\nentrypoint = "command:sh rag.sh"\nenv = ["DB_PASSWORD"]\n'
    for name, text in (
        ("rag.sh", SEEING),
        ("ragstone.toml", f'[golden]\npaths = "golden.jsonl"\n{env}{METRICS}[gate]\nfail_on = "never"\n'),
    ):
        checkout.write(name, text)
        checkout.github.files[EVIL_SHA][name] = text.encode()
    given = {"DB_PASSWORD": "hunter2-hunter2", "OPENAI_API_KEY": KEY}
    for more in ({}, {"RAGSTONE_FAIL_ON": "never"}, {"GITHUB_TOKEN": ""}):
        found = checkout.gate("pull_request", TO_EVIL, **given, **more)
        assert (found.code, found.outputs["passed"], found.verdict) == (2, "false", "error")
        assert "the branch that this change is proposed for" in found.summary
    for text in (*checkout.comments, found.summary):
        assert f"'{EVIL}'" in text.replace("\\", "")
    assert NEITHER in checkout.comments[0]
    assert not seen.exists()
    checkout.github.protected.add(EVIL)
    checkout.gate("pull_request", TO_EVIL, **given)
    assert "hunter2-hunter2" in seen.read_text()


def test_the_baseline_of_a_change_for_a_protected_branch_is_that_branchs(checkout: Checkout) -> None:
    assert checkout.gate("push").code == 0
    checkout.uploaded()
    checkout.github.add_run(2, branch=EVIL, sha=EVIL_SHA, artifact=artifact_of(checkout.out))
    checkout.github.merged.add(EVIL_SHA)
    checkout.github.protected.add(EVIL)
    assert checkout.gate("pull_request", TO_EVIL).baseline == "2"


@pytest.mark.attack(by="pull request", tries="choose the baseline's branch", stopped_by="only a reviewed one")
def test_baseline_branch_names_a_reviewed_branch(checkout: Checkout) -> None:
    for branch in (EVIL, "no-such-branch"):
        found = checkout.gate("push", None, RAGSTONE_BASELINE_BRANCH=branch)
        assert found.code == 2, found.log
        assert f"'{branch}' is {NEITHER}" in found.log
    checkout.github.protected.add(EVIL)
    for branch in (EVIL, "main"):
        assert checkout.gate("pull_request", None, RAGSTONE_BASELINE_BRANCH=branch).code == 0
    assert checkout.gate("pull_request", None, RAGSTONE_BASELINE_BRANCH=EVIL, GITHUB_TOKEN="").code == 2
    checkout.write("ragstone.toml", '[gate]\nbaseline_branch = "evil-base"\n')
    with pytest.raises(ConfigError, match=r"'gate\.baseline_branch' must not be set in a file"):
        load_settings(directory=checkout.root, environ={})


def test_a_forks_run_for_such_a_base_is_not_reported(checkout: Checkout) -> None:
    assert checkout.gate("pull_request", pull_request(fork=True)).code == 0
    files = artifact_of(checkout.out)
    checkout.github.add_fork_run(files, base=EVIL)
    checkout.github.files[HEAD_SHA] = {}
    before = list(checkout.comments)
    found = checkout.gate("workflow_run", workflow_run())
    assert found.code == 0
    assert any(NEITHER in line for line in found.annotations)
    assert checkout.comments == before
