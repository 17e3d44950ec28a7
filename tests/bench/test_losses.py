"""The benchmarks of drops, on few draws: losses are found, and nothing else is."""

from __future__ import annotations

import level
import losses
import pytest

from ragstone.gate.verdict import Status

pytestmark = pytest.mark.heavy


def test_a_large_loss_fails_and_no_change_passes() -> None:
    def failures(kind: losses.Kind) -> int:
        decided = [losses.decide(kind, 80, losses.RUNS, losses.RENEWED, "graded", (seed, 80)) for seed in range(6)]
        return [verdict.status for verdict in decided].count(Status.FAIL)

    assert failures(losses.KINDS[0]) == 0
    assert failures(losses.KINDS[4]) >= 4


def test_a_merged_loss_is_found_and_a_healthy_branch_is_not_red() -> None:
    assert level.unchanged(80, seasons=1, seed=1) == {"red": 0.0, "longest": 0}
    found = level.lost(80, seasons=2, seed=1, loss=0.1, metrics=(0,))
    assert found["within 15"] == 1.0
    assert found["absorbed"] == 0.0
