"""The benchmark of size, on few samples."""

from __future__ import annotations

from pathlib import Path

import pytest
import scale


@pytest.mark.heavy
def test_every_step_of_a_size_is_measured(tmp_path: Path) -> None:
    measurements = list(scale.steps(30, tmp_path, scale.HEADLINE))
    assert [each.step for each in measurements] == ["run", "gate", "report"]
    assert all(each.cpu_s > 0 and each.wall_s > 0 and each.peak_mib > 0 for each in measurements)
    assert (tmp_path / "report.html").is_file()
    assert scale.table(measurements).count("\n") == 1 + len(measurements)
