"""The workflow of `init` starts a service with what its folder has, waits for it, and says how it is reached."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstone.pipeline.init.entrypoints import Proposal
from ragstone.pipeline.init.survey import survey
from ragstone.pipeline.init.write import write_starter
from tests.system.conftest import server  # noqa: F401 - a fixture
from tests.system.service import Server


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


FASTAPI = {"app/main.py": "app: FastAPI = FastAPI(title='x')\n", "requirements.txt": "fastapi"}
FLASK = {"server.py": "web = Flask(__name__)\n"}


@pytest.mark.parametrize(
    ("files", "start", "requirements"),
    [
        (FASTAPI, "uvicorn app.main:app --port 8000", "services/rag/requirements.txt"),
        (FLASK, "flask --app server:web run --port 8000", None),
    ],
    ids=["FastAPI", "Flask"],
)
def test_a_python_service_is_started_in_the_actions_container(
    tmp_path: Path, files: dict[str, str], start: str, requirements: str | None
) -> None:
    run, gate = steps(tmp_path, "http://127.0.0.1:8000/ask", files, "services/rag")
    assert run == []
    assert gate["with"]["setup"].splitlines()[0] == f"(cd services/rag/ && {start}) &"
    assert "entrypoint" not in gate["with"]
    assert gate["with"].get("requirements") == requirements


def test_keys_that_the_system_reads_come_from_the_secrets_of_the_repository(tmp_path: Path) -> None:
    source = "import os\nkey, url = os.environ['SHOP_TOKEN'], os.environ['SHOP_URL']\ndef answer(question): ...\n"
    _, gate = steps(tmp_path, "python:rag:answer", {"rag.py": source})
    assert gate["env"] == {"SHOP_TOKEN": "${{ secrets.SHOP_TOKEN }}"}
    assert "# SHOP_URL:" in (tmp_path / ".github/workflows/ragstone.yml").read_text()
    assert 'env = ["SHOP_TOKEN", "SHOP_URL"]' in (tmp_path / "ragstone.toml").read_text()


@pytest.mark.usefixtures("processes")
def test_the_setup_waits_until_the_service_listens(tmp_path: Path, server: Server) -> None:  # noqa: F811
    files = {"main.py": "app = FastAPI()\n"}
    _, gate = steps(tmp_path / "repo", f"http://127.0.0.1:{server.port}/ask", files)
    fake = tmp_path / "uvicorn"
    fake.write_text(f"#!/bin/sh\necho $@ > {shlex.quote(str(tmp_path / 'asked'))}\n")
    fake.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shell = ["bash", "-eo", "pipefail", "-c", f"{gate['with']['setup']}\nwait"]
    assert subprocess.run(shell, env=environ, timeout=60, check=False, cwd=tmp_path / "repo").returncode == 0
    assert (tmp_path / "asked").read_text() == f"main:app --port {server.port}\n"


def test_a_service_elsewhere_or_of_an_unknown_kind_is_not_started(tmp_path: Path) -> None:
    run, gate = steps(tmp_path / "a", "https://rag.example.org/ask?key=secret", {"Dockerfile": ""})
    assert (run, set(gate["with"])) == ([], {"config"})
    text = (tmp_path / "a/.github/workflows/ragstone.yml").read_text()
    assert "The service is not started here: https://rag.example.org/ask?key=*** must answer" in text
    run, gate = steps(tmp_path / "b", "http://127.0.0.1:8000/ask", {"main.go": "", "package.json": "[]"})
    assert (run, set(gate["with"])) == ([], {"config"})
    assert "# setup: ./serve &" in (tmp_path / "b/.github/workflows/ragstone.yml").read_text()
