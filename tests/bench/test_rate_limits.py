"""A provider's rate limit costs time, and no call: on the servers of the benchmark, at every latency."""

from __future__ import annotations

import pytest
from rate_limits import CALLS, Case, cases, measure

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: f"{case.name}{'' if case.says else ', silent'}")
def test_no_call_is_lost_and_little_time(case: Case) -> None:
    found = measure(case, 1.0)
    assert found.lost == 0
    assert found.ratio < 1.3
    assert found.refused <= 0.1 * CALLS


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: f"{case.name}{'' if case.says else ', silent'}")
def test_nor_if_the_model_is_slow(case: Case) -> None:
    found = measure(case, 5.0)
    assert found.lost == 0
    assert found.ratio < 2.0
