"""The benchmark of the LLM judge, on few samples: its provider answers Ragstone, and fails as configured."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "judge_engine.py"

pytestmark = pytest.mark.heavy


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def bench(*arguments: str) -> Any:
    command = [sys.executable, str(SCRIPT), "--latency-ms", "1", "--port", str(free_port()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_score_is_there_and_a_second_run_asks_nothing() -> None:
    first, again = bench("--samples", "5", "--again")
    assert first["cells"] == {"scored": 20, "not_applicable": 5}
    assert first["chat"] == 20
    assert again["cells"] == first["cells"]
    assert again["chat"] + again["embeddings"] == 0


def test_faults_are_injected_and_nearly_every_score_is_there_all_the_same() -> None:
    (found,) = bench("--samples", "40", "--faults", "--timeout-s", "2")
    assert sum(found["injected"].values()) > 0
    assert found["chat"] > 160
    assert found["finished"] == 40
    assert found["cells"].get("failed", 0) <= 8
