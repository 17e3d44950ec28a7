"""A job on the branch itself asks its judge again about fixed texts, and says first that the judge moved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.github.builders import FACTS, Checkout, Outcome
from tests.judge.conftest import FakeLlm, Loop
from tests.pipeline.project import doubting


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm())
    loop.close()


def gate(checkout: Checkout, fake: FakeLlm, event: str) -> Outcome:
    judge = {"RAGSTONE_JUDGE": "openai:gpt-4o-mini", "RAGSTONE_JUDGE_API_KEY": "sk-0123456789"}
    return checkout.gate(event, **judge, RAGSTONE_JUDGE_BASE_URL=f"{fake.url}/v1")


def test_a_judge_that_moved_over_night_is_the_first_thing_in_the_summary(checkout: Checkout, fake: FakeLlm) -> None:
    assert gate(checkout, fake, "push").code == 0
    checkout.uploaded()
    fake.seen.clear()
    assert gate(checkout, fake, "pull_request").code == 0
    assert fake.kinds() == [], "a pull request asks nothing again"
    doubting(fake, "")
    found = gate(checkout, fake, "schedule")
    assert fake.kinds() == ["verdicts"] * len(FACTS)
    assert f"The judge's behaviour changed: {len(FACTS)} of {len(FACTS)} verdicts differ" in found.summary
    # No score is of it: nothing had changed but the judge.
    assert found.outputs["faithfulness"] == "1"
