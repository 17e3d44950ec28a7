"""The guardian: kills Ragstone's children when Ragstone itself is killed. Standard
library only, run as a script.

Ragstone writes ``+PID`` for each child it starts and ``-PID`` when that child is gone.
When stdin ends, for whatever reason, every child still listed is killed with its whole
process group. The guardian runs in its own session, so that a signal to Ragstone's
group doesn't reach it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys


def kill_group(pid: int) -> None:
    """Kill the process `pid` and its whole group (POSIX) or tree (Windows). Never
    raises for a dead process."""
    if sys.platform == "win32":
        system_root = os.environ.get("SYSTEMROOT", r"C:\Windows")
        taskkill = os.path.join(system_root, "System32", "taskkill.exe")  # noqa: PTH118
        subprocess.run(  # noqa: S603
            [taskkill, "/F", "/T", "/PID", str(pid)], capture_output=True, check=False
        )
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def main() -> None:
    """Keep the list of children until stdin ends, then kill them."""
    children = set()
    for line in sys.stdin.buffer:
        pid = int(line[1:])
        if line.startswith(b"+"):
            children.add(pid)
        else:
            children.discard(pid)
    for pid in children:
        kill_group(pid)


if __name__ == "__main__":
    main()
