"""The benchmarks of drops, on few draws: losses are found, and nothing else is."""

from __future__ import annotations

import level
import losses
import numpy as np
import pytest

from ragstone.gate.verdict import Status
from ragstone.stats.losses import Change, loss_test

pytestmark = pytest.mark.heavy


def test_a_large_loss_fails_and_no_change_passes() -> None:
    def failures(kind: losses.Kind) -> int:
        decided = [losses.decide(kind, 80, losses.RUNS, losses.RENEWED, "graded", (seed, 80)) for seed in range(6)]
        return [verdict.status for verdict in decided].count(Status.FAIL)

    assert failures(losses.KINDS[0]) == 0
    assert failures(losses.KINDS[4]) >= 4


def test_a_dozen_questions_that_were_always_right_do_not_show_that_none_can_fail() -> None:
    """Nothing changes, six runs before and six answers now, right or wrong: at most twice the stated rate."""
    shown, draws, level = 0, 120, 0.02
    for seed in range(draws):
        system = losses.System(12, np.random.default_rng((seed, 12)), kind=losses.SCORES["right or wrong"])
        for _ in range(10):
            system.ask()
        then, now = (np.stack([system.ask().scores for _ in range(6)], axis=2) for _ in range(2))
        changes = [Change(np.arange(12), now[:, metric], then[:, metric]) for metric in range(4)]
        p_values, p_value_of_mean = loss_test(changes)
        shown += min(p_values.min(), p_value_of_mean) <= level
    assert shown <= 2 * level * draws


def test_a_merged_loss_is_found_and_a_healthy_branch_is_not_red() -> None:
    assert level.unchanged(80, seasons=1, seed=1) == {"red": 0.0, "longest": 0}
    found = level.lost(80, seasons=2, seed=1, loss=0.1, metrics=(0,))
    assert found["within 15"] == 1.0
    assert found["absorbed"] == 0.0
