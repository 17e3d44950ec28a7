"""A command in a process of its own, and what it costs. Linux only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RAGSTONE = (sys.executable, "-m", "ragstone")


@dataclass(frozen=True)
class Finished:
    """How a process and its children ended, and what they took: user and system time, the largest resident set."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    exit_code: int
    output: str


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Finished:
    """Run `command` in `folder` until it ends."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Finished(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode, text)


def run_gate(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Finished:
    """Run a command that may say no. Ends the program if it fails."""
    finished = run(command, folder, environment)
    if finished.exit_code not in (0, 1, 8):
        raise SystemExit(f"{' '.join(command)} ended with {finished.exit_code}:\n{finished.output}")
    return finished


def gate(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Run `ragstone gate` in `folder`: its report and its comment. Ends the program if there is no report."""
    finished = run([*RAGSTONE, "gate", *arguments], folder)
    out = folder / "ragstone-run"
    if not (out / "report.json").is_file():
        raise SystemExit(f"{folder}: exit {finished.exit_code}\n{finished.output}")
    return json.loads((out / "report.json").read_text("utf-8")), (out / "report.md").read_text("utf-8")
