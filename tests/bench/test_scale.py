"""The benchmark of size, on few samples."""

from __future__ import annotations

from pathlib import Path

import pytest
import scale


@pytest.mark.heavy
def test_every_step_of_a_size_is_measured(tmp_path: Path) -> None:
    measured = list(scale.steps(30, tmp_path, scale.HEADLINE))
    assert [name for name, _ in measured] == ["run", "gate", "report"]
    assert all(step.cpu_s > 0 and step.wall_s > 0 and step.peak_mib > 0 for _, step in measured)
    assert (tmp_path / "report.html").is_file()
