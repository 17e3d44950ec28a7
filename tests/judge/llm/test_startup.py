"""What a run with an LLM judge imports before its first request: what it needs, and nothing that takes long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import environment, golden_lines
from tests.judge.conftest import KEY

pytestmark = pytest.mark.usefixtures("processes")


def python(code: str, *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-c", code]
    process = subprocess.run(
        command, cwd=cwd, env=environment(env), capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_a_run_sends_its_first_request_before_it_imports_what_it_may_not_need(world: Any, tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text(golden_lines(2))
    answers = [{"id": f"house-{i}", "answer": "It is red.", "contexts": ["It is red."]} for i in range(2)]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    code = (
        "import socket, sys\n"
        "connect, loaded = socket.socket.connect, []\n"
        "def connecting(self, address):\n"
        "    if not loaded and isinstance(address, tuple): loaded.extend(sys.modules)\n"
        "    return connect(self, address)\n"
        "socket.socket.connect = connecting\n"
        "from ragstone.cli.main import main\n"
        "arguments = ['run', '--golden', 'golden.jsonl', '--entrypoint', 'file:answers.jsonl',\n"
        "             '--judge', 'openai:gpt-4o-mini', '--metrics', 'faithfulness', '--out', 'run']\n"
        "try: main(arguments)\n"
        "except SystemExit as left: print(left.code)\n"
        "print(*loaded)\n"
    )
    settings = {"RAGSTONE_JUDGE_API_KEY": KEY, "RAGSTONE_JUDGE_BASE_URL": world.fake.url + "/v1", "NO_PROXY": "*"}
    *_, left, loaded = python(code, cwd=tmp_path, env=settings).splitlines()
    assert left == "0"
    assert "openai" in loaded.split()
    packages = {"numpy", "scipy", "rich", "yaml", "anthropic", "jinja2"}
    assert not packages & set(loaded.split())
