"""Baselines on one's own machine: never the run itself, never one that failed."""

from __future__ import annotations

from pathlib import Path

from tests.cli.project import BROKEN, LINES_OFF, ONE_DROP, make_project, ragstone, read_json


def test_a_run_is_not_written_over_its_own_baseline(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", n=30, policy=LINES_OFF + ONE_DROP)
    ragstone(["gate"], project, exit_code=0)
    good = read_json(project / "ragstone-run" / "manifest.json")
    (project / "houses.py").write_text(BROKEN, encoding="utf-8")
    refused = ragstone(["gate", "--baseline", "ragstone-run"], project, exit_code=2)
    assert "mv ragstone-run baseline" in refused.stderr
    assert read_json(project / "ragstone-run" / "manifest.json") == good
    (project / "ragstone-run").rename(project / "baseline")
    for _ in range(2):
        ragstone(["gate", "--baseline", "baseline"], project, exit_code=1)
