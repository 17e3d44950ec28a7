"""The benchmark of size, on few samples: every step ends with the same records."""

from __future__ import annotations

from pathlib import Path

import pytest
import scale


@pytest.mark.heavy
def test_every_step_of_a_size_has_the_same_records_and_is_measured(tmp_path: Path) -> None:
    found = list(scale.steps(130, tmp_path, [1, 2], scale.HEADLINE, dask=[2], side_by_side=2))
    measured = [one for one in found if "plain" not in one.step and "zstd" not in one.step]
    assert [one.step for one in measured] == [
        "run, one process",
        "run, 2 workers",
        "run, 2 Dask workers",
        "run-1 of 2",
        "run-2 of 2",
        "resume",
        "gate",
        "report",
    ]
    assert len({one.records for one in measured if one.records}) == 1
    assert all(one.cpu_s > 0 and one.wall_s > 0 for one in measured)
    assert scale.table(found).count("\n") == 1 + len(found)
