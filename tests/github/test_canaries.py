"""When a job on GitHub asks its judge again: where the branch runs for itself, not for a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.github.api.fake import FakeGitHub
from tests.github.builders import FACTS, Checkout
from tests.github.runs import artifact_of
from tests.judge.conftest import FakeLlm, Loop, fill_in


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm())
    loop.close()


@pytest.fixture
def checkout(github: FakeGitHub, checkout: Checkout, fake: FakeLlm) -> Checkout:
    """A checkout whose branch has a baseline that this judge made."""
    assert gate(checkout, fake, "push").code == 0
    github.add_run(1, artifact=artifact_of(checkout.out))
    fake.seen.clear()
    return checkout


def gate(checkout: Checkout, fake: FakeLlm, event: str, **more: str) -> Any:
    given = {
        "RAGSTONE_JUDGE": "openai:gpt-4o-mini",
        "RAGSTONE_JUDGE_BASE_URL": f"{fake.url}/v1",
        "RAGSTONE_JUDGE_API_KEY": "sk-0123456789",
    }
    return checkout.gate(event, **given, **more)


@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_the_branchs_own_run_asks_again_and_says_what_it_came_to(checkout: Checkout, fake: FakeLlm, event: str) -> None:
    found = gate(checkout, fake, event)
    assert fake.kinds() == ["verdicts"] * len(FACTS)
    assert f"0 of {len(FACTS)} verdicts differ" in found.summary


def test_a_judge_that_moved_over_night_is_the_first_thing_in_the_summary(checkout: Checkout, fake: FakeLlm) -> None:
    def stricter(schema: Any, prompt: str) -> Any:
        filled = fill_in(schema, prompt)
        for verdict in filled["verdicts"]:
            verdict |= {"verdict": "unsupported", "evidence": []}
        return filled

    fake.fill = stricter
    found = gate(checkout, fake, "schedule")
    assert f"The judge's behaviour changed: {len(FACTS)} of {len(FACTS)} verdicts differ" in found.summary
    # No score is of it: nothing had changed but the judge.
    assert found.outputs["faithfulness"] == "1"


@pytest.mark.parametrize("more", [{}, {"RAGSTONE_CANARIES": "0"}])
def test_a_pull_request_asks_nothing_again(checkout: Checkout, fake: FakeLlm, more: dict[str, str]) -> None:
    found = gate(checkout, fake, "push" if more else "pull_request", **more)
    assert found.code == 0, found.log
    assert fake.kinds() == [], found.log
