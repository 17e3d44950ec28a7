"""A provider's rate limit costs time, and no call: on servers of many kinds, at every latency."""

from __future__ import annotations

import pytest

from tests.judge.llm.rate_limits import CALLS, Case, cases, measure

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(("latency_s", "most"), [(1.0, 1.3), (5.0, 2.0)], ids=["usual", "slow"])
@pytest.mark.parametrize("case", [*cases()], ids=lambda case: f"{case.name}{'' if case.says else ', silent'}")
def test_no_call_is_lost_and_little_time(case: Case, latency_s: float, most: float) -> None:
    found = measure(case, latency_s)
    assert found.lost == 0
    assert found.ratio < most
    if latency_s == 1.0:
        assert found.refused <= 3 * CALLS
