"""A folder of recorded answers on houses, the gate on it, and a change that makes a third of the answers worse."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.rounds.context import RunContext
from ragstone.pipeline.gate import GatedRun
from ragstone.settings.load import load_settings
from ragstone.settings.settings import Settings
from tests.cli.project import make_project
from tests.pipeline.asked import gate

N = 30
POLICY = "[gate]\nconfirm = false\n[metrics.faithfulness]\nmax_drop = 0.02\n"
CONFIG = '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:outputs.jsonl"\n'


def make_houses(path: Path, policy: str = POLICY) -> Path:
    make_project(path, n=N, policy=policy)
    (path / "ragstone.toml").write_text(CONFIG, encoding="utf-8")
    _answer(path)
    return path


def regress(project: Path) -> None:
    _answer(project, worse=True)


def _answer(project: Path, *, worse: bool = False) -> None:
    rows = []
    for number, line in enumerate((project / "golden.jsonl").read_text(encoding="utf-8").splitlines()):
        sample = json.loads(line)
        answer = "Bananas were invented in 1834." if worse and number % 3 == 0 else sample["reference"]
        contexts = [{"id": f"d{number}", "text": f"{sample['reference']} It has a door."}]
        rows.append({"question": sample["question"], "answer": answer, "contexts": contexts})
    (project / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def settings(project: Path, **overrides: Any) -> Settings:
    """Settings by their names in the config, as ``gate__baseline``."""
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return load_settings(directory=project, environ={}, overrides={"run.metrics": ("faithfulness",), **given})


def context(*secrets: str) -> RunContext:
    return RunContext(environ={"PATH": "/usr/bin"}, now=lambda: datetime.now(UTC), redact=Redactor(secrets))


def gated(project: Path, out: str, *secrets: str, **overrides: Any) -> GatedRun:
    return asyncio.run(gate(settings(project, run__out=out, **overrides), context(*secrets)))
