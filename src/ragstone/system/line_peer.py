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

# How long an idle child may take to exit by itself once its stdin is closed.
_END_PATIENCE_S = 2.0


class Attempt(Struct, frozen=True):
    """The outcome of asking one peer once."""

    response: Response | None
    """None if the peer ended through no fault of this question: ask another peer."""
    is_peer_reusable: bool


class LinePeer(Struct, eq=False):
    """One child. A question is one line; the next line of its stdout is the answer.

    A line ``{"ready": true}`` before the answer restarts its time limit: the child has
    prepared a session, and begins to answer only then.
    """

    settings: SystemSettings
    context: ChildContext
    fields: Fields
    """Where the answer is in a reply."""
    display_name = "process"
    """What messages call the child."""
    # An answer of MAX_CHARACTERS, each written as two \uXXXX escapes (12 bytes), and
    # room for the JSON around it.
    max_line_bytes = 13 * MAX_CHARACTERS
    invalid_line_failure = SystemFailureKind.CRASHED
    """The failure if a line can't be a reply."""
    timeout_hint = ""
    """A sentence for the message of a timeout."""
    child: Child | None = None
    answers_given: int = 0
    is_proven: bool = False
    """Whether the child has answered, or said that it can."""
    session: str | None = None
    """The session of the last question."""
    accepts: frozenset[str] | None = None
    """The extras that the system takes besides the question, known from the start; None
    if that can't be known."""

    async def start(self) -> None:
        """Start the child. Raises SystemUnderTestError if it can't answer questions."""
        raise NotImplementedError

    def start_error(
        self, message: str, output: str | None, *, where: str, hint: str
    ) -> SystemUnderTestError:
        """The error of a child that can't be asked, with its last `output`."""
        detail = f"\n\n{output.rstrip()}\n" if output else ""
        return SystemUnderTestError(message + detail, where=where, hint=hint)

    async def ask(self, sample: Sample) -> Attempt:
        child = self.child
        if child is None or (child.has_exited and self.is_proven):
            # It died while it was idle, so this question can't be the reason.
            return Attempt(None, is_peer_reusable=False)
        child.tail.clear()
        question = {"id": sample.id, "question": sample.question}
        child.send({**question, **question_extras(sample, self.settings.part)})
        timeout_s = self.settings.timeout_s
        session = session_id(sample)
        is_new_session = session not in (None, self.session)
        if not self.is_proven or is_new_session:
            # The child may still start, or build an object for the session.
            timeout_s += self.settings.startup_timeout_s
        self.session = session
        kind = self.invalid_line_failure
        try:
            async with asyncio.timeout(timeout_s) as time_limit:
                reply, latency_s = await self._reply(child, time_limit)
            response = _read_reply(reply, sample, latency_s, child, self.fields)
            self.answers_given += 1
            self.is_proven = True
            return Attempt(response, is_peer_reusable=True)
        except TimeoutError:
            await child.show_stack()
            kind = SystemFailureKind.TIMEOUT
            message = f"No answer within {timeout_s:g} s.{self.timeout_hint}"
        except EOFError:
            ending = await child.describe_ending()
            if child.status == 0 and self.answers_given > 0:
                # A program may exit after some questions; the next process gets this
                # one.
                return Attempt(None, is_peer_reusable=False)
            kind = SystemFailureKind.CRASHED
            message = f"The {self.display_name} {ending} while answering this question."
        except ValueError as error:
            message = str(error)
        response = failed(sample.id, kind, message, child.tail.text())
        return Attempt(response, is_peer_reusable=False)

    async def end(self, *, kill: bool) -> None:
        """End the child, which may finish first unless `kill` is true."""
        if self.child is not None:
            await self.child.end(patience_s=0.0 if kill else _END_PATIENCE_S)

    async def _reply(
        self, child: Child, time_limit: asyncio.Timeout
    ) -> tuple[Any, float]:
        """Read the next line. Returns its JSON, and the seconds that the answer took.
        Raises EOFError at the end of the output, and ValueError for a line that is too
        long or is not JSON.

        Times are measured here, because the system under test could change the clock of
        a worker.
        """
        loop = asyncio.get_running_loop()
        started_s = perf_counter()
        has_said_ready = False
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:
                raise ValueError(
                    f"Wrote a line longer than {self.max_line_bytes:,} bytes."
                ) from None
            arrived_s = perf_counter()
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
            if has_said_ready or not says_ready:
                return reply, arrived_s - started_s
            # Only once, so that a child can't put off its time limit for ever.
            has_said_ready = True
            started_s = arrived_s
            time_limit.reschedule(loop.time() + self.settings.timeout_s)


def _read_reply(
    reply: Any, sample: Sample, latency_s: float, child: Child, fields: Fields
) -> Response:
    """Read a reply of `child`: an answer, or the error that it reports. Raises
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
            if not isinstance(detail, str):
                detail = None
            return failed(sample.id, kind, error, detail, latency_s)
        case _:
            return read(sample.id, reply, latency_s, fields)
