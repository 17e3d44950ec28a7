"""The worker processes of a process, from the kernel's own account."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether `pid` runs; a zombie that nobody has collected yet doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def all_end(pids: Sequence[int]) -> bool:
    """Whether all of these processes end in the next seconds."""
    deadline = time.monotonic() + 30
    while any(is_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def workers_of(pid: int) -> list[int]:
    """The processes that `pid` has spawned to judge."""
    workers = []
    for folder in Path("/proc").iterdir():
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1] if folder.name.isdigit() else "0"
            if int(parent) == pid and b"judge_in_process" in (folder / "cmdline").read_bytes():
                workers.append(int(folder.name))
        except OSError:
            continue
    return workers
