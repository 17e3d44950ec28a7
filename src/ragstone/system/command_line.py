"""command: entrypoints: any program that reads one JSON object a line and writes one JSON object a line."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from time import perf_counter

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.system import worker
from ragstone.system.child import Child, ChildContext
from ragstone.system.payload import failed, read
from ragstone.system.pool import Attempt
from ragstone.system.response import SystemFailureKind

MAX_LINE_BYTES = 10_000_000
_AT_ONCE_S = 0.3
_SECRET_OPTION = re.compile(
    r"(?i)(?P<option>-{0,2}[\w-]*(?:key|token|secret|passw(?:or)?d|credential|auth)[\w-]*)(?P<between>\s+|=)(?P<value>\S+)"
)


class CommandPeer:
    """One process of the command. A question is one line; the next line of its stdout is the answer."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        startup_timeout_s: float,
        context: ChildContext,
        first: bool = True,
    ) -> None:
        self._argv = tuple(argv)
        self._timeout_s = timeout_s
        self._startup_timeout_s = startup_timeout_s
        self._context = context
        self._first = first
        self._child: Child | None = None
        self._answers = 0

    async def start(self) -> None:
        """Start the program. Raises SystemUnderTestError if it can't be, or if the first one ends at once in error."""
        child = self._child = await Child.spawn(self._argv, self._context, limit=MAX_LINE_BYTES)
        if self._first and await child.wait(_AT_ONCE_S) and child.status != 0:
            detail = child.tail.text()
            shown = f"\n\n{detail}\n" if detail else ""
            raise SystemUnderTestError(
                f"the command {await child.ending()} as soon as it was started.{shown}",
                where=f"command:{self._argv[0]}",
                hint=f"Run it by hand in {self._context.directory}; it must wait for questions on stdin.",
            )

    async def ask(self, sample: Sample) -> Attempt:
        child = self._child
        if child is None or (child.exited and self._answers > 0):
            return Attempt(None, reusable=False)
        child.tail.clear()
        request = {"id": sample.id, "question": sample.question}
        child.write(json.dumps(request).encode("ascii") + b"\n")
        allowed = self._timeout_s + (self._startup_timeout_s if self._answers == 0 else 0.0)
        try:
            async with asyncio.timeout(allowed):
                value, latency_s = await self._reply(child)
        except TimeoutError:
            return self._lost(sample, SystemFailureKind.TIMEOUT, f"No answer within {allowed:g} s.")
        except EOFError:
            how = await child.ending()
            if child.status == 0 and self._answers > 0:
                return Attempt(None, reusable=False)  # it answers so many questions and ends; this one is for the next
            return self._lost(sample, SystemFailureKind.CRASHED, f"The command {how} while it had this question.")
        except ValueError as error:
            return self._lost(sample, SystemFailureKind.BAD_RETURN, str(error))
        if isinstance(value, dict) and str(value.get("id", sample.id)) != sample.id:
            message = f"Answered with id {worker.shown(value['id'], 80)}; expected {sample.id!r}, or no id."
            return self._lost(sample, SystemFailureKind.BAD_RETURN, message)
        self._answers += 1
        if isinstance(value, dict) and isinstance(value.get("error"), str) and "answer" not in value:
            kind = SystemFailureKind.RAISED
            return Attempt(failed(sample.id, kind, value["error"], child.tail.text(), latency_s), reusable=True)
        return Attempt(read(sample.id, value, latency_s), reusable=True)

    async def end(self, *, kill: bool) -> None:
        if self._child is not None:
            await self._child.end(patience_s=0.0 if kill else 2.0)

    async def _reply(self, child: Child) -> tuple[object, float]:
        """The next line as JSON, and the seconds it took. Raises EOFError, or ValueError that shows the line."""
        started = perf_counter()
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:
                raise ValueError(f"Wrote a line longer than {MAX_LINE_BYTES:,} bytes.") from None
            if not line:
                raise EOFError
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                raise ValueError(
                    f"Wrote a line that is not JSON: {worker.shown(line.decode('utf-8', 'replace').strip())}. "
                    "Expected one JSON object a line on stdout; logs go to stderr."
                ) from None
            if isinstance(value, dict) and value.get("ready") is True and self._answers == 0:
                started = perf_counter()
                continue
            return value, perf_counter() - started

    def _lost(self, sample: Sample, kind: SystemFailureKind, message: str) -> Attempt:
        detail = None if self._child is None else self._child.tail.text()
        return Attempt(failed(sample.id, kind, message, detail), reusable=False)


def without_secrets(command: str) -> str:
    """`command` with the values of options and variables that look like secrets replaced."""
    return _SECRET_OPTION.sub(lambda match: f"{match['option']}{match['between']}***", command)
