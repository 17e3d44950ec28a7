"""The lock on a run directory: one run at a time writes to it.

The kernel holds it (flock), and lets go when the process ends, however it ends. So a lock can't be left behind by a
process that died or a machine that went down, process ids of other containers are never looked up, and containers that
share a volume see each other's. What stands in the file is for the error message only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

from ragstone.errors import RunDirectoryError
from ragstone.run.directory import LOCK
from ragstone.run.files import writing_to
from ragstone.run.writer import refuse_foreign

_MAX_OWNER_BYTES = 1000
_TRIES = 100
_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@contextlib.contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Keep every other run out of the run directory `path`, which is made if need be.

    Does nothing where a caller holds it already. Raises RunDirectoryError when another run is writing there, when
    something else than a run stands there, and where the file system can't be written to or keeps no locks. Leaves no
    file behind, and no directory that nothing was written to. On Windows nothing is locked.
    """
    refuse_foreign(path)
    place = path.resolve()
    if place in _held.get():
        yield
        return
    made = not path.exists()
    with writing_to(path):
        descriptor = _lock_file(path)
    token = _held.set(_held.get() | {place})
    try:
        yield
    finally:
        _held.reset(token)
        with contextlib.suppress(OSError):
            (path / LOCK).unlink()
        os.close(descriptor)
        if made:
            with contextlib.suppress(OSError):
                path.rmdir()


def _lock_file(path: Path) -> int:
    """The open and locked file. Raises RunDirectoryError for a lock that is held, OSError for what the disk refuses."""
    for _ in range(_TRIES):
        path.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(path / LOCK, flags, 0o644)
        except FileNotFoundError:
            continue  # a run that ended removed the directory under our feet
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, f"{LOCK} in it is not a regular file")
            _lock(descriptor, path)
            if _is_same_file(descriptor, path / LOCK):
                _sign(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # a run that ended removed the file before we had it
    raise OSError(errno.EAGAIN, "it is made and removed all the time")


def _lock(descriptor: int, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            raise RunDirectoryError(
                f"another run is writing to this directory{_owner(descriptor)}.",
                where=str(path),
                hint="Wait until it has ended, or choose another place with --out.",
            ) from None
        raise RunDirectoryError(
            f"its file system keeps no locks ({error.strerror}), so two runs there could mix.",
            where=str(path),
            hint="Choose a place on a local disk with --out.",
        ) from None


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.truncate(descriptor, 0)
    os.write(descriptor, json.dumps(owner).encode())


def _owner(descriptor: int) -> str:
    """` (process 4711 on host ci-7, since …)`, as far as the file says so."""
    try:
        owner = json.loads(os.pread(descriptor, _MAX_OWNER_BYTES, 0))
        return f" (process {int(owner['pid'])} on host {owner['host']}, since {owner['since']})"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return ""
