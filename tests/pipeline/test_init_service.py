"""The workflow of `init` passes on the keys of a system, and says how a service is reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import survey
from ragstone.pipeline.init.write import write_starter


def steps(root: Path, entrypoint: str, files: dict[str, str], place: str = ".") -> tuple[list[str], dict[str, Any]]:
    """The commands before the gate's step, line by line, and the gate's step."""
    (root / ".git").mkdir(parents=True)
    for name, text in files.items():
        (root / place / name).parent.mkdir(parents=True, exist_ok=True)
        (root / place / name).write_text(text, encoding="utf-8")
    write_starter(root / place, Proposal(entrypoint, "named"), survey(root / place))
    job = yaml.safe_load((root / ".github/workflows/ragstone.yml").read_text(encoding="utf-8"))["jobs"]["gate"]["steps"]
    gate = next(number for number, step in enumerate(job) if step.get("id") == "gate")
    return [line for step in job[:gate] for line in step.get("run", "").splitlines()], job[gate]


def test_keys_that_the_system_reads_come_from_the_secrets_of_the_repository(tmp_path: Path) -> None:
    source = "import os\nkey, url = os.environ['SHOP_TOKEN'], os.environ['SHOP_URL']\ndef answer(question): ...\n"
    _, gate = steps(tmp_path, "python:rag:answer", {"rag.py": source})
    assert gate["env"] == {"SHOP_TOKEN": "${{ secrets.SHOP_TOKEN }}"}
    assert "# SHOP_URL:" in (tmp_path / ".github/workflows/ragstone.yml").read_text()
    assert 'env = ["SHOP_TOKEN", "SHOP_URL"]' in (tmp_path / "ragstone.toml").read_text()


def test_a_service_is_not_started(tmp_path: Path) -> None:
    run, gate = steps(tmp_path / "a", "https://rag.example.org/ask?key=secret", {"Dockerfile": ""})
    assert (run, set(gate["with"])) == ([], {"config"})
    text = (tmp_path / "a/.github/workflows/ragstone.yml").read_text()
    assert "The service is not started here: https://rag.example.org/ask?key=*** must answer" in text
    run, gate = steps(tmp_path / "b", "http://127.0.0.1:8000/ask", {"main.go": "", "package.json": "[]"})
    assert (run, set(gate["with"])) == ([], {"config"})
    assert "# setup: ./serve &" in (tmp_path / "b/.github/workflows/ragstone.yml").read_text()
