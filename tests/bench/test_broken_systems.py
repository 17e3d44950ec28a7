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


SYSTEMS = (
    *("unchanged", "politer", "other contexts in another order"),
    *("doesn't know", "repeats the question", "call of a tool", "off topic", "another question, and answers that one"),
    *("copies all contexts", "twenty times", "shuffles", "salad", "cuts answers", "beside the point"),
    *("retrieves nothing", "in reverse", "pads its contexts"),
)


@pytest.mark.parametrize("judge", ["offline", "perfect"])
def test_broken_systems_are_found_and_healthy_ones_pass(judge: str) -> None:
    lines = bench("--judges", judge, "--only", *SYSTEMS)
    names = "; ".join(line.split("|")[1] for line in lines if line.startswith("| "))
    assert names.count(";") >= len(SYSTEMS)
    assert lines[lines.index("Misses:") + 1] == ""
