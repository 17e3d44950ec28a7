"""A command loads what it needs: it does not wait for what only another command, or another judge, imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

HEAVY = ("scipy", "numpy", "jinja2", "github", "openai", "anthropic")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "golden.jsonl").write_text(
        '{"id": "a", "question": "How far is the Moon?", "reference": "Far away."}\n'
    )
    (tmp_path / "out.jsonl").write_text('{"id": "a", "answer": "Far.", "contexts": ["The Moon is far."]}\n')
    return tmp_path


def loaded_by(project: Path, *words: str) -> list[str]:
    code = f"""
import sys
from ragstone.cli.main import main
try:
    main({list(words)!r})
except SystemExit as ended:
    print(ended.code, *(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def test_a_run_does_not_load_what_only_the_gate_needs(project: Path) -> None:
    run = ("run", "--golden", "golden.jsonl", "--entrypoint", "file:out.jsonl", "--metrics", "faithfulness,token_f1")
    assert loaded_by(project, *run, "--out", "whole") == ["0"]


def test_a_gate_with_the_offline_judge_loads_no_client_and_no_scipy(project: Path) -> None:
    (project / "thresholds.toml").write_text("[metrics.token_f1]\nmin = 0.1\nmax_drop = 0.9\n")
    gate = ("gate", "--golden", "golden.jsonl", "--entrypoint", "file:out.jsonl", "--metrics", "faithfulness,token_f1")
    code, *loaded = loaded_by(project, *gate, "--out", "first")
    assert code == "0"
    assert set(loaded) == {"numpy", "jinja2"}
    code, *loaded = loaded_by(project, *gate, "--out", "second", "--baseline", "first")
    assert code == "0"
    assert set(loaded) == {"numpy", "jinja2"}
