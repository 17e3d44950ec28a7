"""The bench of broken systems, on one set and a few systems: what it prints, and that the gate finds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "broken_systems.py"

pytestmark = pytest.mark.heavy


def bench(*arguments: str) -> list[str]:
    command = [sys.executable, str(SCRIPT), "--sets", "ferry", "--sizes", "50", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("judge", ["offline", "perfect"])
@pytest.mark.parametrize("name", ["doesn't know", "copies all contexts", "off topic", "unchanged"])
def test_a_broken_system_is_found_and_a_healthy_one_passes(judge: str, name: str) -> None:
    lines = bench("--judges", judge, "--only", name)
    assert lines[lines.index("Misses:") + 1] == ""
