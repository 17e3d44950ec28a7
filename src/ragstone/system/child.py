"""A child process in a session of its own, with pipes and a log, which always ends when
Ragstone does."""

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
_CUT_NOTICE = b"\n[ragstone] the log has reached its limit; the rest is left out\n"
# How long after the exit of a child its pipe is still read.
_DRAIN_S = 0.05
# How long to wait for the exit of a killed child.
_KILL_TIMEOUT_S = 30.0
_STACK_PAUSE_S = 0.1


class SystemLog:
    """The log file shared by all children of one system. Without a `path`, nothing is
    written.

    Never raises for a full or read-only disk, because an unwritable log must not fail a
    run.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._size_bytes = 0

    def write(self, data: bytes) -> None:
        if self._path is None or self._size_bytes >= MAX_LOG_BYTES:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("ab", buffering=0)
                self._size_bytes = self._file.tell()
            free_bytes = max(0, MAX_LOG_BYTES - self._size_bytes)
            self._file.write(data[:free_bytes])
            if len(data) > free_bytes:
                self._file.write(_CUT_NOTICE)
            self._size_bytes += len(data)
        except OSError:
            self._path = None  # write nothing more

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Tail:
    """The last bytes of output of one child. Call `clear` for each new question."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        joined = self._data + data[-TAIL_BYTES:]
        self._data = joined[-TAIL_BYTES:]

    def clear(self) -> None:
        self._data = b""

    def text(self) -> str | None:
        """The bytes as text; None if there are none."""
        return self._data.decode("utf-8", "replace").strip() or None


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


def start_guardian(pid: int) -> subprocess.Popen[bytes] | None:
    """Start a shell that kills the group of `pid` if Ragstone itself is killed. Returns
    None if there is no POSIX shell.

    The shell waits for a line, which dismisses it. If Ragstone ends without having
    written one, the shell reads the end of its stdin, and kills. It runs in a session
    of its own, which a signal to Ragstone's group doesn't reach.
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
    """What all children of one system share."""

    directory: Path
    environ: Environ
    log: SystemLog
    run_as: RunAs | None
    missing_variable_hint: Callable[[str], str | None]
    """A hint for the text of a failure that names a variable which the system doesn't
    get; None for any other text."""


class Child:
    """One running child. The caller reads `stdout`; stderr goes to the log and to
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
        self._end_lock = asyncio.Lock()
        self._has_ended = False
        self._guardian = start_guardian(self.pid)

    @classmethod
    async def spawn(
        cls, argv: Sequence[str], context: ChildContext, *, max_line_bytes: int
    ) -> Child:
        """Start `argv` without a shell. A line of stdout may have at most
        `max_line_bytes`. Raises SystemUnderTestError."""
        loop = asyncio.get_running_loop()
        user = context.run_as
        user_arguments: Any = {} if user is None else user.popen_arguments()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _Protocol(context.log, max_line_bytes),
                *argv,
                cwd=context.directory,
                env=dict(context.environ),
                start_new_session=True,
                **user_arguments,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SystemUnderTestError(
                f"can't start '{argv[0]}': {reason}.",
                hint=f"It must be executable; paths start from {context.directory}, and no shell is used.",
            ) from None
        return cls(transport, protocol)

    @property
    def has_exited(self) -> bool:
        return self._protocol.exited.done()

    def send(self, message: object) -> None:
        """Queue `message` for stdin, as a line of JSON. Doesn't wait until it is read:
        a child that doesn't read runs into the timeout of its answer."""
        pipe: Any = self._transport.get_pipe_transport(0)
        if pipe is not None and not pipe.is_closing():
            pipe.write(json.dumps(message).encode("ascii") + b"\n")

    async def show_stack(self) -> None:
        """Signal a Python worker to write its stacks to the log, and wait a moment for
        it. The signal ends a program that doesn't handle it."""
        if sys.platform != "win32" and not self.has_exited:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            await asyncio.sleep(_STACK_PAUSE_S)

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the exit of the child, at most `timeout_s`. Returns whether it has
        exited."""
        finished, _ = await asyncio.wait([self._protocol.exited], timeout=timeout_s)
        return bool(finished)

    async def end(self, *, patience_s: float = 0.0) -> None:
        """Kill the whole group of the child. Before that, close stdin and wait up to
        `patience_s` for its exit, unless that is 0. Safe to call twice."""
        async with self._end_lock:
            if self._has_ended:
                return
            if patience_s > 0 and not self.has_exited:
                self._close_stdin()
                await self.wait(patience_s)
            kill_group(self.pid)
            try:
                await self.wait(_KILL_TIMEOUT_S)
            finally:
                if self._guardian is not None:
                    self._guardian.communicate(b"\n")
                self._transport.close()
            # Closing pipes takes two iterations of the event loop. Without them, the
            # loop may stop with half-closed transports.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self._has_ended = True

    def _close_stdin(self) -> None:
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()

    async def describe_ending(self) -> str:
        """How a child ended that has closed its output, as a phrase such as "exited
        with status 1"."""
        if not await self.wait(1.0):
            return "closed its output without answering"
        status = self.status
        if status is None or status >= 0:
            return f"exited with status {status}"
        number = -status  # how asyncio reports a child that a signal killed
        names = {int(member): member.name for member in signal.Signals}
        return f"was killed by {names.get(number, f'signal {number}')}"

    @property
    def status(self) -> int | None:
        return self._transport.get_returncode()


class _Protocol(asyncio.SubprocessProtocol):
    def __init__(self, log: SystemLog, max_line_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self.tail = Tail()
        self.stdout = asyncio.StreamReader(limit=max_line_bytes)
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._is_stdout_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        process: Any = transport
        self.stdout.set_transport(process.get_pipe_transport(1))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            if not self._is_stdout_ended:
                self.stdout.feed_data(data)
        else:
            self.tail.add(data)
            self._log.write(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            self._end_stdout()

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)
        # A process that the child started may keep the pipe open forever, so stop
        # reading once what is in the pipe has been read.
        self._loop.call_later(_DRAIN_S, self._end_stdout)

    def _end_stdout(self) -> None:
        self._is_stdout_ended = True
        self.stdout.feed_eof()
