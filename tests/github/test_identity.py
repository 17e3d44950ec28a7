"""A job that judges with its own identity: no key, and no token in anything that is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.github.api.fake import FakeGitHub
from tests.github.api.test_text_channels import acting
from tests.github.builders import CONFIG, Checkout, pull_request
from tests.judge.conftest import FakeLlm, Loop, fill_in
from tests.judge.issuer import REQUEST_TOKEN, Issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    loop = Loop()
    yield Issuer(loop.serve(FakeLlm()))
    loop.close()


@pytest.fixture
def checkout(checkout: Checkout) -> Checkout:
    checkout.write("ragstone.toml", f'{CONFIG}[judge]\nname = "anthropic:claude-haiku-4-5"\n')
    return checkout


def gate(checkout: Checkout, issuer: Issuer, *event: Any, **more: str) -> Any:
    given = issuer.environ | {"RAGSTONE_JUDGE_BASE_URL": issuer.fake.url} | more
    return checkout.gate(*event, **{name: value for name, value in given.items() if value})


def written(checkout: Checkout) -> str:
    files = [path for folder in (checkout.root, checkout.files) for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@pytest.mark.attack(
    by="pull request", tries="have the ID token sent elsewhere", stopped_by="endpoints come only from the environment"
)
def test_a_job_judges_without_a_key_and_its_tokens_are_masked_and_written_nowhere(
    github: FakeGitHub, checkout: Checkout, issuer: Issuer
) -> None:
    def repeating_tokens(schema: Any, prompt: str) -> Any:
        """A judge that says what it was called with, as a server that logs might."""
        filled = fill_in(schema, prompt)
        if "answer" in filled:
            filled["answer"]["statements"] = [f"My token is {issuer.tokens[-1]}.", f"Or {issuer.job_tokens[-1]}."]
        return filled

    issuer.fake.fill = repeating_tokens
    found = gate(checkout, issuer)
    assert found.code in (0, 1), found.log
    assert len(issuer.exchanges) == 1
    masks = [line for line in acting(found.log) if line.startswith("::add-mask::")]
    secrets = [*issuer.job_tokens, *issuer.tokens]
    assert masks == [f"::add-mask::{secret}" for secret in secrets]
    rest = "\n".join(line for line in found.log.splitlines() if line not in masks)
    shown = f"{rest}{found.summary}{json.dumps(found.outputs)}{checkout.comments}{written(checkout)}"
    assert "My token is ***" in shown
    for secret in (*secrets, REQUEST_TOKEN):
        assert secret not in shown


def test_a_fork_gets_no_id_token_and_is_not_judged(checkout: Checkout, issuer: Issuer) -> None:
    found = gate(
        checkout,
        issuer,
        "pull_request",
        pull_request(fork=True),
        ACTIONS_ID_TOKEN_REQUEST_TOKEN="",
        ACTIONS_ID_TOKEN_REQUEST_URL="",
    )
    assert "Not judged: no key on pull requests from forks" in found.summary
    assert issuer.job_tokens == []
