"""The workflow of `init` starts a service with what its folder has, waits for it, and says how it is reached."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from ragstone.pipeline.init import write_starter
from ragstone.pipeline.survey.look import survey
from ragstone.pipeline.survey.proposal import Proposal
from tests.system.conftest import server  # noqa: F401 - a fixture
from tests.system.service import Server


def steps(root: Path, entrypoint: str, files: dict[str, str], place: str = ".") -> tuple[list[str], dict[str, str]]:
    """The commands before the gate's step, line by line, and its inputs."""
    (root / ".git").mkdir(parents=True)
    for name, text in files.items():
        (root / place / name).parent.mkdir(parents=True, exist_ok=True)
        (root / place / name).write_text(text, encoding="utf-8")
    write_starter(root / place, proposal=Proposal(entrypoint, "named", 0), found=survey(root / place, ports=()))
    job = yaml.safe_load((root / ".github/workflows/ragstone.yml").read_text(encoding="utf-8"))["jobs"]["gate"]["steps"]
    gate = next(number for number, step in enumerate(job) if step.get("id") == "gate")
    return [line for step in job[:gate] for line in step.get("run", "").splitlines()], job[gate]["with"]


@pytest.mark.parametrize(
    ("files", "start", "port"),
    [
        (
            {"compose.yaml": "services:\n  api:\n    ports:\n      - '9000:8000'\n", "Dockerfile": ""},
            ["docker compose --file services/rag/compose.yaml up --detach --build"],
            9000,
        ),
        (
            {
                "docker-compose.yml": "services:\n  db:\n    ports: [5432:5432]\n",
                "Dockerfile": "FROM x\nEXPOSE 80/tcp\n",
            },
            ["docker build --tag service services/rag", "docker run --detach --publish 8000:80 service"],
            8000,
        ),
        (
            {"package.json": json.dumps({"scripts": {"start": "node ."}}), "package-lock.json": "{}"},
            [
                'docker run --detach --publish 8000:8000 --volume "$PWD"/services/rag:/app --workdir /app '
                "--env PORT=8000 --env HOSTNAME=0.0.0.0 node:lts "
                'sh -c "npm ci && npm run build --if-present && npm start"'
            ],
            8000,
        ),
    ],
    ids=["compose", "Dockerfile", "npm"],
)
def test_a_service_in_containers_is_started_on_the_runner_and_reached_from_the_action(
    tmp_path: Path, files: dict[str, str], start: list[str], port: int
) -> None:
    run, inputs = steps(tmp_path, "http://127.0.0.1:8000/ask", files, "services/rag")
    assert run[:-1] == start
    assert f"http://127.0.0.1:{port}" in run[-1]
    assert inputs["entrypoint"] == f"http://172.17.0.1:{port}/ask"
    assert "setup" not in inputs


@pytest.mark.parametrize(
    ("files", "start"),
    [
        (
            {"app/main.py": "app: FastAPI = FastAPI(title='x')\n", "requirements.txt": "fastapi"},
            "uvicorn --app-dir services/rag --port 8000 app.main:app &",
        ),
        ({"server.py": "web = Flask(__name__)\n"}, "(cd services/rag && flask --app server:web run --port 8000) &"),
    ],
    ids=["FastAPI", "Flask"],
)
def test_a_python_service_is_started_in_the_actions_container(
    tmp_path: Path, files: dict[str, str], start: str
) -> None:
    run, inputs = steps(tmp_path, "http://127.0.0.1:8000/ask", files, "services/rag")
    assert run == []
    assert inputs["setup"].splitlines()[0] == start
    assert "entrypoint" not in inputs
    assert inputs.get("requirements") == ("services/rag/requirements.txt" if "requirements.txt" in files else None)


@pytest.mark.usefixtures("processes")
def test_the_setup_waits_until_the_service_listens(tmp_path: Path, server: Server) -> None:  # noqa: F811
    _, inputs = steps(tmp_path / "repo", f"http://127.0.0.1:{server.port}/ask", {"main.py": "app = FastAPI()\n"})
    fake = tmp_path / "uvicorn"
    fake.write_text(f"#!/bin/sh\necho $@ > {shlex.quote(str(tmp_path / 'asked'))}\n")
    fake.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shell = ["bash", "-eo", "pipefail", "-c", f"{inputs['setup']}\nwait"]
    assert subprocess.run(shell, env=environ, timeout=60, check=False).returncode == 0
    assert (tmp_path / "asked").read_text() == f"--app-dir . --port {server.port} main:app\n"


def test_a_service_elsewhere_or_of_an_unknown_kind_is_not_started(tmp_path: Path) -> None:
    run, inputs = steps(tmp_path / "a", "https://rag.example.org/ask?key=secret", {"Dockerfile": ""})
    assert (run, set(inputs)) == ([], {"config"})
    text = (tmp_path / "a/.github/workflows/ragstone.yml").read_text()
    assert "The service is not started here: https://rag.example.org/ask?key=*** must answer" in text
    run, inputs = steps(tmp_path / "b", "http://127.0.0.1:8000/ask", {"main.go": "", "package.json": "[]"})
    assert (run, set(inputs)) == ([], {"config"})
    assert "# setup: ./serve &" in (tmp_path / "b/.github/workflows/ragstone.yml").read_text()
