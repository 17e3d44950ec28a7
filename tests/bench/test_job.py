"""The benchmark of a job, on few samples."""

from __future__ import annotations

import shlex
from pathlib import Path

import job
import pytest
from processes import RAGSTONE

pytestmark = pytest.mark.usefixtures("processes")


def test_every_job_is_measured(tmp_path: Path) -> None:
    command = shlex.join([*RAGSTONE, "gate", "--github"])
    measured = list(job.jobs(tmp_path, samples=12, changed=5, rounds=1, command=command))
    assert [name for name, _ in measured] == ["main", "pull request"]
    assert all(finished.cpu_s > 0 for _, finished in measured)
    comment = (tmp_path / "workspace" / "ragstone-run" / "report.html").read_text(encoding="utf-8")
    assert "baseline" in comment
