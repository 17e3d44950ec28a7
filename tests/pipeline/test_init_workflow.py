"""The workflow that `init` writes: keys come from the secrets, and a service is the user's to start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import survey
from ragstone.pipeline.init.write import write_starter


def gate_step(root: Path, entrypoint: str, files: dict[str, str]) -> dict[str, Any]:
    (root / ".git").mkdir(parents=True)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    write_starter(root, Proposal(entrypoint, "named"), survey(root))
    job = yaml.safe_load((root / ".github/workflows/ragstone.yml").read_text(encoding="utf-8"))["jobs"]["gate"]
    [step] = [step for step in job["steps"] if step.get("id") == "gate"]
    return dict(step)


def test_keys_that_the_system_reads_come_from_the_secrets_of_the_repository(tmp_path: Path) -> None:
    source = "import os\nkey, url = os.environ['SHOP_TOKEN'], os.environ['SHOP_URL']\ndef answer(question): ...\n"
    gate = gate_step(tmp_path, "python:rag:answer", {"rag.py": source})
    assert gate["env"] == {"SHOP_TOKEN": "${{ secrets.SHOP_TOKEN }}"}
    assert "# SHOP_URL:" in (tmp_path / ".github/workflows/ragstone.yml").read_text()
    assert 'env = ["SHOP_TOKEN", "SHOP_URL"]' in (tmp_path / "ragstone.toml").read_text()


def test_a_service_of_this_machine_gets_its_requirements_and_one_elsewhere_none(tmp_path: Path) -> None:
    files = {"requirements.txt": "fastapi"}
    here = gate_step(tmp_path / "here", "http://127.0.0.1:8000/ask", files)
    assert here["with"] == {"config": "ragstone.toml", "requirements": "requirements.txt"}
    assert "# setup: ./serve &" in (tmp_path / "here/.github/workflows/ragstone.yml").read_text()
    elsewhere = gate_step(tmp_path / "elsewhere", "https://rag.example.org/ask?key=secret", files)
    assert elsewhere["with"] == {"config": "ragstone.toml"}
    assert "secret" not in (tmp_path / "elsewhere/.github/workflows/ragstone.yml").read_text().replace("secrets", "")
