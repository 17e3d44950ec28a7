"""Runs `ragstone migrate` as a user does, and reads what it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ragstone.app.compare import read_side
from ragstone.app.decide import Terms, decide
from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import GateVerdict


def ragstone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from ragstone.cli import main; main()", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def scores(folder: Path) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for row in lines(folder / "migrated/scores.jsonl"):
        found.setdefault(row["metric"], []).append(row["value"])
    return found


def verdict(folder: Path) -> GateVerdict:
    """The verdict on the migrated scores."""
    old = folder / "migrated/thresholds.toml"
    policy = load_policy(old if old.exists() else folder / "thresholds.toml", known_metrics=None)
    return decide(read_side(folder / "migrated/scores.jsonl"), Terms.of(policy, None, None))
