from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from ragstone.github.api.client import GitHubApi, RetryPolicy
from tests.github.api.fake import TOKEN, FakeGitHub
from tests.github.api.openapi import Contract, load_contract

QUICK = RetryPolicy(timeout_s=5, first_pause_s=0.001, max_pause_s=60, total_pause_s=180, settle_s=0.001)


@pytest.fixture(scope="session")
def contract() -> Contract:
    return load_contract()


@pytest.fixture
def github(contract: Contract) -> Iterator[FakeGitHub]:
    """A fresh fake GitHub. At the end, every message of both sides must have been as GitHub describes it."""
    with FakeGitHub(contract) as fake:
        yield fake
    assert fake.problems == []


@pytest.fixture
def pauses() -> list[float]:
    """The pauses that the client asked for; none is slept."""
    return []


@pytest.fixture
def connect(github: FakeGitHub, pauses: list[float]) -> Iterator[Callable[..., GitHubApi]]:
    made: list[GitHubApi] = []

    def build(token: str = TOKEN, retry_policy: RetryPolicy = QUICK) -> GitHubApi:
        place = {"repository": "acme/rag", "api_url": github.api_url}
        api = GitHubApi(SecretStr(token), **place, retry_policy=retry_policy, sleep=pauses.append)
        made.append(api)
        return api

    yield build
    for api in made:
        api.close()


@pytest.fixture
def api(connect: Callable[..., GitHubApi]) -> GitHubApi:
    return connect()
