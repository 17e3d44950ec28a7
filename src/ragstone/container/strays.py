"""Finds and kills what is left of the user's code. Linux only, and only as root."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ragstone.errors import SystemUnderTestError

_STAND_IN = 65_531
"""An unused user id: the gate switches to it while killing processes, so that they can't kill the gate."""

_SHOWN = 5


def end_strays(uid: int, *, patience_s: float = 10.0, kill: Callable[[int], None] | None = None) -> None:
    """Kill every process of `uid`, and wait until none is left.

    Raises SystemUnderTestError that names those that don't die within `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    while True:
        # A killed process can't fork any more, so what is not found afterwards doesn't exist.
        (kill or kill_all_of)(uid)
        left = living(uid)
        if not left:
            return
        if time.monotonic() >= deadline:
            named = ", ".join(f"{pid} ({name})" for pid, name in sorted(left.items())[:_SHOWN])
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            raise SystemUnderTestError(
                f"processes of your system don't end, though they were killed: {named}{more}. They could still change "
                "what the gate found, so nothing is published.",
                hint="Look for what blocks them, such as a network file system or a device that hangs.",
            )
        time.sleep(0.01)


def kill_all_of(uid: int) -> None:
    """Send SIGKILL to every process of `uid` in one step of the kernel's, which no chain of forks outruns.

    That is what `kill(-1)` does for a process that may signal them and nobody else. We keep a saved id of root's, which
    bars them from signalling us and lets us come back.
    """
    os.setresuid(_STAND_IN if uid != _STAND_IN else _STAND_IN - 1, uid, 0)
    try:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
    finally:
        os.setresuid(0, 0, 0)


def living(uid: int) -> dict[int, str]:
    """The processes of `uid` that have a thread which is not dead, by pid, with their names."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = _status(entry)
                if str(uid) in fields.get("Uid", "").split() and _has_living_thread(entry):
                    found[int(entry.name)] = fields.get("Name", "?")
    return found


def _status(entry: Path) -> dict[str, str]:
    lines = (entry / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _has_living_thread(entry: Path) -> bool:
    """Whether one does. A process whose first thread has ended is shown as a zombie while the others run on."""
    for task in (entry / "task").iterdir():
        with suppress(OSError):
            if _status(task).get("State", "Z")[:1] not in ("Z", "X"):
                return True
    return False
