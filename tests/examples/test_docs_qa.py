"""The example is a real system with a real golden set: its gate passes, and its worse variant fails."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from tests.cli.project import ragstone

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "docs-qa"


@pytest.fixture(scope="session")
def interpreter(processes: None) -> Path:
    """The example's own interpreter; `make` makes it where it isn't there yet."""
    subprocess.run(
        ["make", "examples/docs-qa/.venv/.installed"], cwd=ROOT, check=True, timeout=600, capture_output=True
    )
    return EXAMPLE / ".venv/bin/python"


@pytest.fixture(scope="session")
def golden() -> GoldenSet:
    return load_golden_set("golden.jsonl", root=EXAMPLE)


def system(interpreter: Path, code: str) -> Any:
    """What `code` prints as JSON, run by the example's interpreter beside its modules."""
    done = subprocess.run([interpreter, "-c", code], cwd=EXAMPLE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def gate(out: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON report and printed verdict of the gate on the example."""
    command = ["gate", "--config", str(EXAMPLE / "ragstone.toml"), "--baseline", str(EXAMPLE / "baseline")]
    done = ragstone([*command, "--out", str(out), "--verbose", *arguments], ROOT)
    report = out / "report.json"
    assert report.is_file(), done.stderr
    return done.returncode, json.loads(report.read_text(encoding="utf-8")), done.stdout


def test_every_relevant_section_is_a_section_of_the_documentation(golden: GoldenSet, interpreter: Path) -> None:
    sections = set(system(interpreter, "import json, pages; print(json.dumps([p.id for p in pages.read_passages()]))"))
    lost = {name: str(sample.origin) for sample in golden for name in sample.relevant_ids if name not in sections}
    assert lost == {}


def test_the_gate_passes_on_the_example(interpreter: Path, tmp_path: Path) -> None:
    code, report, printed = gate(tmp_path / "run")
    assert code == 0, printed
    failed = [check for check in report["checks"] if check["status"] in {"fail", "error"}]
    assert failed == []
    floors = [check for check in report["checks"] if check["kind"] == "floor"]
    assert len(floors) >= 5
    assert all(check["status"] == "pass" for check in floors), printed


def test_the_gate_fails_on_the_regressed_variant_and_says_why(interpreter: Path, tmp_path: Path) -> None:
    code, report, printed = gate(tmp_path / "run", "--entrypoint", "python:regressed:answer")
    assert code == 1, printed
    assert report["verdict"]["status"] == "fail"
    failed = {(check["metric"], check["kind"]) for check in report["checks"] if check["status"] == "fail"}
    assert {("faithfulness", "floor"), ("faithfulness", "drop"), ("context_recall", "drop"), ("mrr", "drop")} <= failed
    for words in ("Faithfulness", "Context recall", "golden.jsonl:", "Look at retrieval first", "version 7.2"):
        assert words in printed
    comment = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    drawn = (ROOT / "docs" / "images" / "pictures.txt").read_text(encoding="utf-8")
    assert without_times(comment).startswith(without_times(drawn).rstrip()), (
        "the pictures of the README are stale: make pictures"
    )


def without_times(comment: str) -> str:
    """A comment without the line on what an answer took, which differs from run to run."""
    return "\n".join(line for line in comment.splitlines() if not line.startswith("Per answer:"))
