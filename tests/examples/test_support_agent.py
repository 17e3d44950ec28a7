"""The agent answers from two hops and two tools, its gate passes, and its worse variant fails with the right reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.project import ragstone

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "support-agent"


def gate(out: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON report and comment of the gate on the example."""
    command = ["gate", "--config", str(EXAMPLE / "ragstone.toml"), "--baseline", str(EXAMPLE / "baseline")]
    done = ragstone([*command, "--out", str(out), *arguments], ROOT)
    report = out / "report.json"
    assert report.is_file(), done.stderr
    comment = (out / "report.md").read_text(encoding="utf-8").replace("\\", "").replace("\u200b", "")
    return done.returncode, json.loads(report.read_text(encoding="utf-8")), comment


def test_the_gate_passes_on_the_agent(processes: None, tmp_path: Path) -> None:
    code, report, comment = gate(tmp_path / "run")
    assert code == 0, comment
    assert [check["name"] for check in report["checks"] if check["status"] != "pass"] == []
    assert [finding["text"] for finding in report["findings"] if finding["kind"] == "step_changes"] == []


def test_the_gate_blocks_the_worse_agent_and_names_the_turn_and_the_hop(processes: None, tmp_path: Path) -> None:
    code, report, comment = gate(tmp_path / "run", "--entrypoint", "python:regressed:Agent")
    assert code == 1, comment
    alerts = [finding["text"] for finding in report["findings"] if finding["level"] == "alert"]
    assert [text.partition(" (")[0] for text in alerts] == [
        "Turn 3 no longer carries the order_id",
        "Hop 2 no longer finds the evidence from `invoices`",
    ]
    assert all(text in comment for text in alerts)
    assert "Blocked: turn 3 broke." in comment
    assert "Look at turn 3 first." in comment
    failed = {(check["metric"], check["kind"]) for check in report["checks"] if check["status"] == "fail"}
    assert {("hop_recall", "drop"), ("answer_correctness", "drop")} <= failed
