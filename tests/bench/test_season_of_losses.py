"""A season with many losses, drawn: who is stopped, and how long main is broken."""

from __future__ import annotations

import pytest
import season_of_losses

pytestmark = pytest.mark.heavy


def test_losses_are_stopped_or_break_main_until_it_is_repaired() -> None:
    found = season_of_losses.simulate(120, 80, 3)
    tried, stopped = found.tried.total(), found.stopped.total()
    pulls = found.healthy[season_of_losses.PULLS] + found.healthy[season_of_losses.PULLS_TO_BROKEN]
    assert pulls + tried == found.merges - 1, "the first merge has nothing to be compared with"
    assert 0 < stopped < tried
    assert 0 < found.broken_at_least <= found.broken <= 40 * (tried - stopped) + 40
    assert found.red.total() <= 0.05 * found.healthy.total()
    assert found.clean >= 0.9 * found.healthy.total()
