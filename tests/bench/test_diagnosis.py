"""The benchmark of the diagnosis, on few samples: single faults are blamed rightly."""

from __future__ import annotations

from pathlib import Path

import diagnosis
import pytest


@pytest.mark.parametrize("fault", diagnosis.FAULTS)
def test_a_perfect_judges_faults_are_blamed_rightly(fault: str, tmp_path: Path) -> None:
    found = diagnosis.measure(diagnosis.world(40, 1), fault, "perfect", tmp_path)
    assert found.affected >= 30
    assert found.right >= 0.9 * found.affected
    half = "retrieval" if fault.startswith("re") else "generation"
    assert (found.status, found.side) == ("fail", half)


@pytest.mark.heavy
def test_nine_of_ten_cases_are_blamed_rightly_with_either_judge() -> None:
    found = diagnosis.results(120, 0)
    for judge in ("perfect", "offline"):
        of = [one for one in found if one.judge == judge]
        assert sum(one.right for one in of) >= 0.9 * sum(one.affected for one in of), judge
        assert [one.side for one in of] == ["retrieval", "retrieval", "generation", "generation"]
