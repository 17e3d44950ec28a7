"""A process of some user, while a test looks at it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sleeping(uid: int, gid: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["/bin/sleep", "60"], user=uid, group=gid, extra_groups=[], cwd="/")
    try:
        yield process
    finally:
        process.kill()
        process.wait()
