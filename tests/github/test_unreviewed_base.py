"""A pull request to a branch that anybody may push: the branch says nothing about review, so nothing in it counts."""

from __future__ import annotations

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.settings.load import load_settings
from tests.github.api.fake import BASE_SHA, FakeGitHub
from tests.github.api.payloads import HEAD_SHA, pull_request, workflow_run
from tests.github.builders import CONFIG, POLICY, Checkout, Outcome
from tests.github.runs import artifact_of
from tests.github.test_trusted_config import KEY, METRICS, WAYS_TO_THE_KEY, Listener, config, listener

__all__ = ["listener"]

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


def in_the_evil_base(checkout: Checkout, name: str, text: str) -> None:
    """The same file on both of their branches: compared with its own base, the pull request changes nothing."""
    checkout.write(name, text)
    checkout.github.files[EVIL_SHA][name] = text.encode()


def top_of(found: Outcome) -> str:
    """What is above the numbers."""
    return found.summary.partition("\n|")[0]


def not_passed(found: Outcome) -> None:
    assert found.code != 0, found.log
    assert found.outputs["passed"] == "false"
    assert found.outputs["verdict"] != "pass"
    assert top_of(found).count(f"{EVIL}'") >= 1, found.summary
    assert NEITHER in top_of(found).replace("\\", "")


WAYS = [WAYS_TO_THE_KEY[0], WAYS_TO_THE_KEY[3], WAYS_TO_THE_KEY[5]]


@pytest.mark.parametrize(
    ("judge", "variable", "without_key"),
    [*((*way, "") for way in WAYS), (*WAYS_TO_THE_KEY[0], '[gate]\nwithout_key = "offline"\n')],
)
def test_the_key_does_not_go_where_such_a_base_says(
    checkout: Checkout, listener: Listener, judge: str, variable: str, without_key: str
) -> None:
    text = config(judge.format(url=listener.url)) + without_key
    in_the_evil_base(checkout, "ragstone.toml", text)
    given = {"AWS_REGION": "eu-west-1", variable: KEY, **identity(listener)}
    found = checkout.gate("pull_request", TO_EVIL, **given)
    assert (found.code, "'judge.base_url' differs from the base branch" in found.log) == (2, True)
    not_passed(found)
    # Not even where the default branch has that address, too.
    checkout.github.files[BASE_SHA]["ragstone.toml"] = text.encode()
    found = checkout.gate("pull_request", TO_EVIL, **given)
    assert listener.heard == []
    not_passed(found)
    assert found.code == 8
    assert "no key for a change whose base is not reviewed" in found.summary
    assert KEY not in found.log.replace(f"::add-mask::{KEY}", "")


def identity(listener: Listener) -> dict[str, str]:
    """That of the job, at OpenAI."""
    of_job = {"ACTIONS_ID_TOKEN_REQUEST_URL": f"{listener.url}?x=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "request-token"}
    account = {"OPENAI_IDENTITY_PROVIDER_ID": "idp_1", "OPENAI_SERVICE_ACCOUNT_ID": "sa_1"}
    return {**of_job, **account, "OPENAI_BASE_URL": listener.url}


def test_the_system_sees_no_secret_that_only_such_a_base_passes_on(checkout: Checkout) -> None:
    seen = checkout.root / "seen"
    in_the_evil_base(checkout, "rag.sh", SEEING)
    env = '[system]\nentrypoint = "command:sh rag.sh"\nenv = ["DB_PASSWORD", "OPENAI_API_KEY", "PLAIN"]\n'
    text = f'[golden]\npaths = "golden.jsonl"\n{env}{METRICS}'
    in_the_evil_base(checkout, "ragstone.toml", text)
    given = {"DB_PASSWORD": "hunter2-hunter2", "OPENAI_API_KEY": KEY, "PLAIN": f"Bearer {KEY}"}
    found = checkout.gate("pull_request", TO_EVIL, **given)
    assert found.code == 2, found.log
    assert "passes the secret DB_PASSWORD" in found.log
    assert not seen.exists()
    assert NEITHER in top_of(found)
    # What the default branch passes on, it gets, but for the key of a judge, under any name.
    checkout.github.files[BASE_SHA]["ragstone.toml"] = text.encode()
    not_passed(checkout.gate("pull_request", TO_EVIL, **given))
    assert "hunter2-hunter2" in seen.read_text()
    assert KEY not in seen.read_text()


def test_what_fails_the_job_is_what_the_default_branch_says(checkout: Checkout) -> None:
    limited = CONFIG.replace("[system]", "limit = 1\n[system]")
    in_the_evil_base(checkout, "ragstone.toml", f'{limited}[gate]\nfail_on = "never"\n')
    in_the_evil_base(checkout, "thresholds.toml", "[gate]\nmin_coverage = 0.1\nconfirm = false\n")
    checkout.github.files[BASE_SHA]["thresholds.toml"] = POLICY.encode()
    found = checkout.gate("pull_request", TO_EVIL)
    not_passed(found)
    top = found.summary.replace("\\", "")
    assert top.index(NEITHER) < top.index("This change ")
    for words in ("faithfulness", "'gate.fail_on' is", "'golden.limit' is"):
        assert words in top
    # Bad answers fail, whatever the branch says.
    checkout.write("thresholds.toml", POLICY)
    checkout.answer_badly()
    assert checkout.gate("pull_request", TO_EVIL).code == 1


def test_a_run_that_has_nothing_against_it_is_unproven(checkout: Checkout) -> None:
    found = checkout.gate("pull_request", TO_EVIL)
    assert (found.code, found.verdict) == (8, "inconclusive")
    not_passed(found)
    for text in (*checkout.comments, found.summary):
        assert text.index(NEITHER) < text.index("\n|")
    assert any(line.startswith("::notice") and NEITHER in line for line in found.annotations)
    manifest = RunDirectory.open(checkout.out).manifest
    assert manifest.verdict == "inconclusive"
    assert manifest.baseline is not None
    assert not manifest.baseline.eligible
    never = checkout.gate("pull_request", TO_EVIL, RAGSTONE_FAIL_ON="never")
    assert (never.code, never.verdict) == (0, "inconclusive"), "by the workflow"
    # The very same run for the default branch passes.
    assert checkout.gate("pull_request", pull_request()).code == 0


def test_the_baseline_is_the_default_branchs(checkout: Checkout) -> None:
    assert checkout.gate("push").code == 0
    checkout.uploaded()
    checkout.github.add_run(2, branch=EVIL, sha=EVIL_SHA, artifact=artifact_of(checkout.out))
    checkout.github.merged.add(EVIL_SHA)
    assert checkout.gate("pull_request", TO_EVIL).baseline == "1"
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


def test_a_forks_run_for_such_a_base_is_reported_against_the_default_branch(checkout: Checkout) -> None:
    assert checkout.gate("pull_request", pull_request(fork=True)).code == 0
    files = artifact_of(checkout.out)
    checkout.github.add_fork_run(files, base=EVIL)
    checkout.github.files[HEAD_SHA] = {}
    assert checkout.gate("workflow_run", workflow_run()).verdict == "inconclusive"
    assert NEITHER in checkout.comments[-1]
