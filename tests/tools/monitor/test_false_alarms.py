"""Simulated years of daily windows, through the monitor's own functions: few false alarms, and losses found in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from monitoring import SCENARIOS, days_to_find, false_alarms

pytestmark = pytest.mark.heavy

STEADY, WEEKENDS, DRIFTING, BOTH = SCENARIOS


def test_steady_days_raise_at_most_one_false_alarm_a_year() -> None:
    assert false_alarms(STEADY, years=5) <= 1.0


@pytest.mark.parametrize("scenario", [WEEKENDS, DRIFTING, BOTH], ids=lambda scenario: scenario.name)
def test_weekends_and_drifting_traffic_raise_at_most_two_false_alarms_a_year(scenario: object) -> None:
    assert isinstance(scenario, type(STEADY))
    assert false_alarms(scenario, years=4) <= 2.0


@pytest.mark.parametrize(("loss", "slower"), [(0.1, 1.0), (0.0, 3.0)], ids=["10 points", "tripled latency"])
def test_a_real_loss_alerts_within_two_days_at_200_questions_a_day(loss: float, slower: float) -> None:
    delays = days_to_find(replace(STEADY, loss=loss, slower=slower), times=40)
    assert np.mean(delays <= 2) >= 0.95
