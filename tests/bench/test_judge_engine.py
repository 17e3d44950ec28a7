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


def bench(*arguments: str) -> Any:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, str(SCRIPT), "--latency-ms", "1", "--port", port, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_score_is_there_and_a_second_run_asks_nothing() -> None:
    first, again = bench("--samples", "5", "--again")
    assert first["cells"] == {"scored": 30, "not_applicable": 5}
    assert first["chat"] == 25 + 3  # the planted answers
    assert again["cells"] == first["cells"]
    assert again["chat"] + again["embeddings"] == 0
    assert 0 < first["start_s"] < first["wall_s"]
    assert first["cpu_ms_per_call"] > 0
    assert "ratio" not in again


STOPPED = ("--samples", "60", "--latency-ms", "60", "--stop")


@pytest.mark.parametrize(("signal", "code"), [("INT", 130), ("TERM", 143)])
def test_after_a_stop_nothing_is_paid_twice_and_all_of_it_is_reported(signal: str, code: int) -> None:
    (found,) = bench(*STOPPED, signal)
    assert found["exit"] == [code, 0]
    assert found["scored"] == 60
    assert (found["chat_again"], found["embedded_again"]) == (0, 0)
    assert found["reported_calls"] == found["calls"][1]
    assert found["reported_usd"] == pytest.approx(found["spent_usd"], abs=1e-5)


def test_after_a_kill_no_more_is_paid_twice_than_was_in_flight() -> None:
    (found,) = bench(*STOPPED, "KILL")
    assert found["exit"] == [-9, 0]
    assert found["scored"] == 60
    assert found["chat_again"] <= 64
    # 64 chat calls and 16 requests for embeddings.
    assert found["calls"][1] - 80 <= found["reported_calls"] <= found["calls"][1]
