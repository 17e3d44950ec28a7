"""A child process in its own session, with its pipes and log, and guaranteed
termination."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from ragstone.errors import SystemUnderTestError
from ragstone.settings.variables import Environ
from ragstone.system.environment import RunAs

MAX_LOG_BYTES = 10_000_000
TAIL_BYTES = 4_000
_CUT = b"\n[ragstone] the log has reached its limit; the rest is left out\n"


class SystemLog:
    """The log file shared by all children of one system. `path` None keeps nothing on
    disk.

    Never raises for a full or read-only disk, because an unwritable log must not fail a
    run.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._written = 0

    def write(self, data: bytes) -> None:
        if self._path is None or self._written >= MAX_LOG_BYTES:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("ab", buffering=0)
                self._written = self._file.tell()
            room = max(0, MAX_LOG_BYTES - self._written)
            self._file.write(data[:room])
            if len(data) > room:
                self._file.write(_CUT)
            self._written += len(data)
        except OSError:
            self._path = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Tail:
    """The last bytes that one child wrote. Call `clear` for each new question."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        joined = self._data + data[-TAIL_BYTES:]
        self._data = joined[-TAIL_BYTES:]

    def clear(self) -> None:
        self._data = b""

    def text(self) -> str | None:
        return self._data.decode("utf-8", "replace").strip() or None


_DRAIN_S = 0.05
_END_S = 30.0


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


def guardian_of(pid: int) -> subprocess.Popen[bytes] | None:
    """A process that kills the group of `pid` when Ragstone ends without a line to it,
    as when Ragstone is killed; None without a POSIX shell.

    It has a session of its own, which a signal to Ragstone's group doesn't reach.
    """
    with contextlib.suppress(OSError):
        return subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", f"read -r line || kill -9 -{pid}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )
    return None


class ChildContext(Struct, frozen=True):
    """The settings shared by all children of one system."""

    directory: Path
    environ: Environ
    log: SystemLog
    run_as: RunAs | None
    missing_variable_hint: Callable[[str], str | None]
    """What a failure that says so much has to do with variables that the system doesn't
    get."""


class Child:
    """One running child. `stdout` is read by the caller; stderr goes to the log and to
    `tail`."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        protocol: _Protocol,
    ) -> None:
        self.pid: int = transport.get_pid()
        self.stdout = protocol.stdout
        self.tail = protocol.tail
        self._transport = transport
        self._protocol = protocol
        self._ending = asyncio.Lock()
        self._gone = False
        self._guardian = guardian_of(self.pid)

    @classmethod
    async def spawn(
        cls, argv: Sequence[str], context: ChildContext, *, limit: int
    ) -> Child:
        """Start `argv`, no shell. `limit` bounds a line of stdout, in bytes. Raises
        SystemUnderTestError."""
        loop = asyncio.get_running_loop()
        user = context.run_as
        arguments: Any = {} if user is None else user.popen_arguments()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _Protocol(context.log, limit),
                *argv,
                cwd=context.directory,
                env=dict(context.environ),
                start_new_session=True,
                **arguments,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SystemUnderTestError(
                f"can't start '{argv[0]}': {reason}.",
                hint=f"It must be executable; paths start from {context.directory}, and no shell is used.",
            ) from None
        return cls(transport, protocol)

    @property
    def exited(self) -> bool:
        return self._protocol.exited.done()

    def send(self, message: object) -> None:
        """Queue `message` for stdin, as a line of JSON. The timeout catches a child
        that doesn't read it."""
        pipe: Any = self._transport.get_pipe_transport(0)
        if pipe is not None and not pipe.is_closing():
            pipe.write(json.dumps(message).encode("ascii") + b"\n")

    async def show_stack(self) -> None:
        """Ask a Python worker to write its stacks to the log, and give it a moment; it
        ends another program."""
        if sys.platform != "win32" and not self.exited:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            await asyncio.sleep(0.1)

    async def wait(self, timeout_s: float) -> bool:
        finished, _ = await asyncio.wait([self._protocol.exited], timeout=timeout_s)
        return bool(finished)

    async def end(self, *, patience_s: float = 0.0) -> None:
        """Close stdin, wait up to `patience_s`, then kill the whole group. Safe to call
        twice."""
        async with self._ending:
            if self._gone:
                return
            if patience_s > 0 and not self.exited:
                self._close_stdin()
                await self.wait(patience_s)
            kill_group(self.pid)
            try:
                await self.wait(_END_S)
            finally:
                if self._guardian is not None:
                    self._guardian.communicate(b"\n")
                self._transport.close()
            # Closing pipes takes two iterations of the event loop; otherwise it may stop
            # with half-closed transports.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self._gone = True

    def _close_stdin(self) -> None:
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()

    async def ending(self) -> str:
        """How the child ended, in words (or that it closed its output but is still
        running)."""
        if not await self.wait(1.0):
            return "closed its output without answering"
        status = self.status
        if status is None or status >= 0:
            return f"exited with status {status}"
        names = {int(number): number.name for number in signal.Signals}
        return f"was killed by {names.get(-status, f'signal {-status}')}"

    @property
    def status(self) -> int | None:
        return self._transport.get_returncode()


class _Protocol(asyncio.SubprocessProtocol):
    def __init__(self, log: SystemLog, limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self.tail = Tail()
        self.stdout = asyncio.StreamReader(limit=limit)
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._cut_off = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        process: Any = transport
        self.stdout.set_transport(process.get_pipe_transport(1))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            if not self._cut_off:
                self.stdout.feed_data(data)
        else:
            self.tail.add(data)
            self._log.write(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            self._cut()

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)
        # A forked grandchild may keep the pipe open forever, so read what is in it and
        # treat it as ended.
        self._loop.call_later(_DRAIN_S, self._cut)

    def _cut(self) -> None:
        self._cut_off = True
        self.stdout.feed_eof()
