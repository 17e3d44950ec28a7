"""What docs/metrics.md says of labels by text, on a few samples of the benchmark."""

from __future__ import annotations

import pytest
from rechunking import CUTS, measure, synthetic

pytestmark = pytest.mark.heavy

CASES = synthetic(60)


@pytest.mark.parametrize("how", CUTS)
def test_cutting_anew_drops_nothing_and_deleted_evidence_is_named(how: str) -> None:
    found = measure(CASES, CUTS[how])
    assert found.drops == 0
    assert found.deleted >= 0.95 * found.n
    assert found.not_rechunked <= 0.05 * found.n
    assert found.lower >= 0.95 * found.n
    assert found.deleted_by_id >= 0.9 * found.of_ids > 0
