"""The benchmark of a job, on few samples: every phase is found, and the comment says what changed."""

from __future__ import annotations

from pathlib import Path

import job
import pytest

pytestmark = pytest.mark.usefixtures("processes")


def test_every_phase_of_a_job_is_measured(tmp_path: Path) -> None:
    found = list(job.jobs(tmp_path, samples=12, changed=5, rounds=1))
    assert len(found) == 2
    for phases in found:
        assert tuple(one.name for one in phases) == job.PHASES
        assert all(one.wall_s >= 0 and one.cpu_s >= 0 for one in phases)
        assert sum(one.cpu_s for one in phases) > 0
    assert job.table(found).count("\n") == 3
    assert (tmp_path / "workspace" / "ragstone-run" / "report.html").is_file()
