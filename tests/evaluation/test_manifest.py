"""Numbers of a manifest that add up over runs."""

from __future__ import annotations

import pytest

from ragstone.evaluation.manifest import Cost


@pytest.mark.parametrize(
    ("first", "second", "total"), [(1.0, 0.5, 1.5), (None, 0.5, None), (0.5, None, None), (None, None, None)]
)
def test_a_cost_that_is_not_known_stays_unknown(first: float | None, second: float | None, total: float | None) -> None:
    assert Cost(usd=first).plus(Cost(usd=second)).usd == total
