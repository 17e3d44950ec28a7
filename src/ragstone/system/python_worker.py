"""python: entrypoints: the worker in the user's interpreter, one process per peer."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import secrets
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.child import Child, ChildContext
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields, has_folder
from ragstone.system.payload import (
    Greeting,
    WireFailure,
    WorkerMessage,
    answered,
    failed,
)
from ragstone.system.pool import Attempt, Pool, lost
from ragstone.system.response import (
    System,
    SystemFailureKind,
    beside_question,
    session_id,
)
from ragstone.system.worker.contexts import MAX_CHARACTERS
from ragstone.system.worker.join import worker_source
from ragstone.system.worker.protocol import FRAME_DIGITS, frame
from ragstone.system.worker.wording import SOURCE_NAME

# An answer of MAX_CHARACTERS, each written as two \uXXXX escapes, and its frame.
MAX_FRAME_BYTES = 13 * MAX_CHARACTERS
_READ_LIMIT = 1 << 20
_WRITING_S = 60.0
"""Time for the worker to serialise the returned value, and for Ragstone to read it."""
ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_BOOTSTRAP = (
    "import os\n"
    "def read(n):\n"
    " data = b''\n"
    " while len(data) < n:\n"
    "  chunk = os.read(0, n - len(data))\n"
    "  if not chunk: os._exit(1)\n"
    "  data += chunk\n"
    " return data\n"
    "names = {'__name__': 'ragstone_worker'}\n"
    f"exec(compile(read(int(read({FRAME_DIGITS}))), {SOURCE_NAME!r}, 'exec'), names)\n"
    "del read, os\n"
    "names['main']()\n"
)


@dataclass(eq=False)
class PythonPeer:
    """One worker process: the interpreter `python` runs the attribute `spec`,
    ``package.module:attribute`` or ``file.py:attribute``.

    Nothing that is imported for it may be in the folder `not_from`. If the settings
    have `functions`, the worker calls these functions of custom metrics (metric to
    spec) instead, and each question is a request, as `WorkerFunctions` writes it.
    `hint` says how to choose another interpreter.
    """

    python: str
    spec: str
    settings: SystemSettings
    context: ChildContext
    hint: str
    not_from: Path | None = None
    accepts: frozenset[str] | None = field(default=None, init=False)
    _child: Child | None = field(default=None, init=False)
    _number: int = field(default=0, init=False)
    _session: str | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start the interpreter and import the entrypoint. Raises SystemUnderTestError
        with the user's traceback."""
        settings = self.settings
        child = self._child = await Child.spawn(
            [self.python, "-c", _BOOTSTRAP], self.context, limit=_READ_LIMIT
        )
        token = secrets.token_hex(16)
        hello = {
            "token": token,
            "entrypoint": self.spec,
            "fields": answer_fields(settings)._asdict(),
            "part": settings.part,
            "functions": dict(settings.functions),
            "not_from": None if self.not_from is None else str(self.not_from),
        }
        child.write(frame(worker_source().encode("utf-8")))
        child.write(frame(json.dumps(hello).encode("ascii")))
        try:
            async with asyncio.timeout(settings.startup_timeout_s):
                await self._skip_noise(child, token)
                body, _ = await _receive(child)
                greeting = Greeting.model_validate_json(body)
        except TimeoutError:
            await child.show_stack()
            raise self._failure(
                f"not ready after {settings.startup_timeout_s:g} s.", child.tail.text()
            ) from None
        except (EOFError, ValueError):
            how = await child.ending()
            raise self._failure(
                f"the worker {how} while starting.", child.tail.text()
            ) from None
        if greeting.ready is None:
            failure = greeting.failed or WireFailure(
                message="the worker did not start."
            )
            raise self._failure(failure.message, failure.detail)
        self.accepts = frozenset(greeting.ready.accepts)

    async def ask(self, sample: Sample) -> Attempt:
        child = self._child
        if child is None or child.exited:
            return Attempt(None, reusable=False)  # died while idle; no question is lost
        self._number += 1
        child.tail.clear()
        question = {"number": self._number, "question": sample.question}
        request = {**question, **beside_question(sample, self.settings.part)}
        exchange = _Exchange(child, self._number, self.settings.timeout_s)
        building_s = (
            self.settings.startup_timeout_s if self._begins_session(sample) else 0.0
        )
        child.write(frame(json.dumps(request).encode("ascii")))
        try:
            async with asyncio.timeout(
                building_s + self.settings.timeout_s
            ) as deadline:
                reply = await exchange.reply(deadline)
            return _attempt(sample, reply, exchange)
        except TimeoutError:
            await child.show_stack()
            message = f"No answer within {self.settings.timeout_s:g} s."
            if exchange.returned_at is not None:
                message = f"An answer was returned, but could not be read within {_WRITING_S:g} s."
            return lost(sample, SystemFailureKind.TIMEOUT, message, child)
        except EOFError:
            message = (
                f"The worker {await child.ending()} while answering this question."
            )
        except ValueError:
            message = "Something else wrote to the worker's channel."
        return lost(sample, SystemFailureKind.CRASHED, message, child)

    def _begins_session(self, sample: Sample) -> bool:
        """Whether `sample` is the first question of a session, for which an object may
        have to be built."""
        session = session_id(sample)
        begins = session is not None and session != self._session
        self._session = session
        return begins

    async def end(self, *, kill: bool) -> None:
        if self._child is not None:
            await self._child.end(patience_s=0.0 if kill else 2.0)

    async def _skip_noise(self, child: Child, token: str) -> None:
        """Skip the output of hooks such as sitecustomize before the worker redirects
        stdout."""
        while True:
            line = await child.stdout.readline()
            if not line:
                raise EOFError
            if line.strip() == token.encode("ascii"):
                return
            child.tail.add(line)
            self.context.log.write(line)

    def _failure(self, message: str, detail: str | None) -> SystemUnderTestError:
        text = message if not detail else f"{message}\n\n{detail.rstrip()}\n"
        where = self.spec if self.settings.functions else f"python:{self.spec}"
        hint = f"It was run by {self.python} in {self.context.directory}. {self.hint}"
        return SystemUnderTestError(text, where=where, hint=hint)


def _attempt(sample: Sample, reply: WorkerMessage, exchange: _Exchange) -> Attempt:
    """The response in `reply`. Raises ValueError if it has none."""
    latency_s, first_text_s = exchange.latency_s, exchange.first_text_s
    if reply.payload is not None:
        response = answered(sample.id, reply.payload, latency_s, first_text_s)
        return Attempt(response, reusable=True)
    if reply.error is None:
        raise ValueError(reply)
    error, kind = reply.error, SystemFailureKind(reply.error.kind)
    response = failed(sample.id, kind, error.message, error.detail, latency_s)
    return Attempt(response, reusable=True)


class _Exchange:
    """One question to a worker and its reply.

    Times are measured by this process, because the system under test could change the
    worker's clock.
    """

    def __init__(self, child: Child, number: int, timeout_s: float) -> None:
        self._child = child
        self._number = number
        self._timeout_s = timeout_s
        self._started = perf_counter()
        self._text_at: float | None = None
        self._reply_at = 0.0
        self.returned_at: float | None = None
        """When the user's code had returned; serialising the answer comes after
        that."""

    @property
    def latency_s(self) -> float:
        return (self.returned_at or self._reply_at) - self._started

    @property
    def first_text_s(self) -> float | None:
        return None if self._text_at is None else self._text_at - self._started

    async def reply(self, deadline: asyncio.Timeout) -> WorkerMessage:
        """The reply. Raises EOFError, and ValueError for anything that isn't about this
        question.

        `deadline` is for the user's code; the worker has _WRITING_S afterwards. The
        question counts from when the object of its session is built.
        """
        while True:
            body, arrived = await _receive(self._child)
            message = WorkerMessage.model_validate_json(body)
            if message.number != self._number:
                raise ValueError(message.number)
            if message.event is None:
                self._reply_at = arrived
                return message
            if message.event == "returned":
                self.returned_at = arrived
                deadline.reschedule(asyncio.get_running_loop().time() + _WRITING_S)
            elif message.event == "built":
                self._started = arrived
                deadline.reschedule(asyncio.get_running_loop().time() + self._timeout_s)
            elif self._text_at is None:
                self._text_at = arrived


async def _receive(child: Child) -> tuple[bytes, float]:
    """The next message, and when it began to arrive. Raises EOFError, and ValueError
    for something else."""
    try:
        size = int(await child.stdout.readexactly(FRAME_DIGITS))
        arrived = perf_counter()
        if size > MAX_FRAME_BYTES:
            raise ValueError(size)
        return await child.stdout.readexactly(size), arrived
    except asyncio.IncompleteReadError:
        raise EOFError from None


class PythonCallable(EntrypointKind):
    schemes = ("python",)
    form = "python:package.module:attribute"
    uses_interpreter = True

    def is_valid(self, target: str) -> bool:
        return names_attribute(target)

    def build(
        self, target: str, settings: SystemSettings, around: Surroundings
    ) -> System:
        return python_pool(target, settings, around)


def names_attribute(spec: str) -> bool:
    """Whether `spec` is ``package.module:attribute`` or ``file.py:attribute``."""
    module, colon, attribute = spec.rpartition(":")
    named = module.endswith(".py") or ATTRIBUTE.fullmatch(module)
    return bool(colon and named and ATTRIBUTE.fullmatch(attribute))


def python_pool(spec: str, settings: SystemSettings, around: Surroundings) -> Pool:
    """Workers for the attribute `spec`, or for `settings.functions`, of which `spec` is
    the name."""
    context = around.child_context(settings)
    python = _interpreter(settings.python, around.root, around.environ)
    local = Path(context.directory, ".venv", *_in_venv())
    hint = (
        f"If the system is installed in {local}, set python in [system] to it."
        if settings.python is None and local.exists() and str(local) != python
        else "To use another interpreter, set python in [system]."
    )
    new = functools.partial(
        PythonPeer, python, spec, settings, context, hint, around.not_from
    )
    return Pool(f"python:{spec}", settings, new, context)


def _interpreter(python: str | None, root: Path, environ: Mapping[str, str]) -> str:
    """The configured interpreter, else that of the active environment, else Ragstone's
    own."""
    if python is not None:
        place = str((root / python).absolute()) if has_folder(python) else python
        program = shutil.which(place, path=environ.get("PATH"))
        if program is None:
            raise ConfigError(
                f"the interpreter '{python}' was not found.",
                where="system.python",
                hint="Use a path such as .venv/bin/python, or a name on PATH such as python3.12.",
            )
        return program
    in_conda = ("python.exe",) if sys.platform == "win32" else ("bin", "python")
    for variable, inside in (("VIRTUAL_ENV", _in_venv()), ("CONDA_PREFIX", in_conda)):
        folder = environ.get(variable)
        if folder and Path(folder, *inside).exists():
            return str(Path(folder, *inside))
    return sys.executable


def _in_venv() -> tuple[str, str]:
    return ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")


def check_function(spec: str, *, where: str) -> None:
    """Raise ConfigError unless `spec` is ``package.module:function`` or
    ``file.py:function``."""
    if not names_attribute(spec):
        raise ConfigError(
            f"'{spec}' names no function.",
            where=where,
            hint="Write package.module:function, or file.py:function.",
        )
