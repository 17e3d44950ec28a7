"""A child process that is asked by lines of JSON: a command, or the worker of a python
entrypoint."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import Any

from msgspec import Struct

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.child import Child, ChildContext
from ragstone.system.payload import failed, read
from ragstone.system.response import (
    Response,
    SystemFailureKind,
    question_extras,
    session_id,
)
from ragstone.system.worker.contexts import MAX_CHARACTERS
from ragstone.system.worker.fields import Fields
from ragstone.system.worker.wording import shown


class Attempt(Struct, frozen=True):
    """One attempt: its response (None: not the sample's fault, use another peer), and
    whether the peer is reusable."""

    response: Response | None
    reusable: bool


class LinePeer(Struct, eq=False):
    """One child. A question is one line; the next line of its stdout is the answer.

    ``{"ready": true}`` before it says that the answer begins only now.
    """

    settings: SystemSettings
    context: ChildContext
    fields: Fields
    """Where the answer is in a reply."""
    noun = "process"
    # An answer of MAX_CHARACTERS, each written as two \uXXXX escapes, and what is around it.
    max_line_bytes = 13 * MAX_CHARACTERS
    garbled = SystemFailureKind.CRASHED
    """What a line is that can't be a reply."""
    silence_hint = ""
    """What may be the matter if no reply comes."""
    child: Child | None = None
    answers: int = 0
    is_proven: bool = False
    """Whether it has answered, or said that it can."""
    session: str | None = None
    """That of the last question."""
    accepts: frozenset[str] | None = None
    """What the system takes besides the question, known from the start; None if that
    can't be known."""

    async def start(self) -> None:
        """Start the child. Raises SystemUnderTestError if it can't answer questions."""
        raise NotImplementedError

    def not_started(
        self, message: str, output: str | None, where: str, hint: str
    ) -> SystemUnderTestError:
        """The error of a child that can't be asked, with its last `output`."""
        detail = f"\n\n{output.rstrip()}\n" if output else ""
        return SystemUnderTestError(message + detail, where=where, hint=hint)

    async def ask(self, sample: Sample) -> Attempt:
        child = self.child
        if child is None or (child.exited and self.is_proven):
            return Attempt(None, reusable=False)  # died while idle; no question is lost
        child.tail.clear()
        question = {"id": sample.id, "question": sample.question}
        child.send({**question, **question_extras(sample, self.settings.part)})
        timeout_s = self.settings.timeout_s
        session = session_id(sample)
        if not self.is_proven or session not in (None, self.session):
            # It may still start, or build an object for the session.
            timeout_s += self.settings.startup_timeout_s
        self.session = session
        kind = self.garbled
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                reply, latency_s = await self._reply(child, deadline)
            response = _response_in(reply, sample, latency_s, child, self.fields)
            self.answers += 1
            self.is_proven = True
            return Attempt(response, reusable=True)
        except TimeoutError:
            await child.show_stack()
            kind = SystemFailureKind.TIMEOUT
            message = f"No answer within {timeout_s:g} s.{self.silence_hint}"
        except EOFError:
            how = await child.ending()
            if child.status == 0 and self.answers > 0:
                # It exits after some questions; the next process gets this one.
                return Attempt(None, reusable=False)
            kind = SystemFailureKind.CRASHED
            message = f"The {self.noun} {how} while answering this question."
        except ValueError as error:
            message = str(error)
        response = failed(sample.id, kind, message, child.tail.text())
        return Attempt(response, reusable=False)

    async def end(self, *, kill: bool) -> None:
        if self.child is not None:
            await self.child.end(patience_s=0.0 if kill else 2.0)

    async def _reply(
        self, child: Child, deadline: asyncio.Timeout
    ) -> tuple[Any, float]:
        """The next line as JSON, and the seconds it took. Raises EOFError, or
        ValueError with the line.

        Times are measured here, because the system under test could change the clock of
        a worker.
        """
        now = asyncio.get_running_loop().time
        started, is_ready = perf_counter(), False
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:
                raise ValueError(
                    f"Wrote a line longer than {self.max_line_bytes:,} bytes."
                ) from None
            arrived = perf_counter()
            if not line:
                raise EOFError
            if not line.strip():
                continue
            try:
                reply = json.loads(line)
            except (ValueError, RecursionError):
                raise ValueError(
                    f"Wrote a line that is not JSON: {shown(line.decode('utf-8', 'replace').strip())}. "
                    "Expected one JSON object per line on stdout; logs go to stderr."
                ) from None
            says_ready = isinstance(reply, dict) and reply.get("ready") is True
            if is_ready or not says_ready:
                return reply, arrived - started
            started, is_ready = arrived, True
            deadline.reschedule(now() + self.settings.timeout_s)


def _response_in(
    reply: Any, sample: Sample, latency_s: float, child: Child, fields: Fields
) -> Response:
    """The response in a reply of `child`: an answer, or the error it reports. Raises
    ValueError for the reply to another question."""
    match reply:
        case {"id": identity} if str(identity) != sample.id:
            raise ValueError(
                f"Answered with id {shown(identity, 80)}; expected {sample.id!r}, or no id."
            )
        case {"error": str(error)} if "answer" not in reply:
            kind = SystemFailureKind.RAISED
            if reply.get("kind") == SystemFailureKind.BAD_RETURN:
                kind = SystemFailureKind.BAD_RETURN
            detail = reply.get("detail", child.tail.text())
            text = detail if isinstance(detail, str) else None
            return failed(sample.id, kind, error, text, latency_s)
        case _:
            return read(sample.id, reply, latency_s, fields)
