"""python: entrypoints: `worker.py` in the user's interpreter, one process per peer."""

from __future__ import annotations

import asyncio
import functools
import inspect
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
from ragstone.system import worker
from ragstone.system.child import Child, ChildContext
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields, has_folder
from ragstone.system.payload import FailedReply, Greeting, WorkerReply, answered, failed
from ragstone.system.pool import Attempt, Pool, lost
from ragstone.system.response import System, SystemFailureKind, beside_question

# An answer of worker.MAX_CHARACTERS, each written as two \uXXXX escapes, and its frame.
MAX_FRAME_BYTES = 13 * worker.MAX_CHARACTERS
_READ_LIMIT = 1 << 20
_RECYCLE_SHARE = 0.8
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
    f"exec(compile(read(int(read(10))), {worker.SOURCE_NAME!r}, 'exec'), names)\n"
    "del read, os\n"
    "names['main']()\n"
)


@dataclass(eq=False)
class PythonPeer:
    """One worker process: the interpreter `python` runs the attribute `spec`, ``package.module:attribute`` or
    ``file.py:attribute``.

    Nothing that is imported for it may be in the folder `not_from`. If the settings have `functions`, the worker calls
    these functions of custom metrics (metric to spec) instead, and each question is a request as `worker.Functions`
    reads it. `hint` says how to choose another interpreter.
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

    @property
    def _memory_limit_bytes(self) -> int | None:
        return self.settings.memory_limit_mb and self.settings.memory_limit_mb * 1_000_000

    async def start(self) -> None:
        """Start the interpreter and import the entrypoint. Raises SystemUnderTestError with the user's traceback."""
        settings = self.settings
        child = self._child = await Child.spawn([self.python, "-c", _BOOTSTRAP], self.context, limit=_READ_LIMIT)
        token = secrets.token_hex(16)
        child.write(worker.frame(inspect.getsource(worker).encode("utf-8")))
        hello = {
            "token": token,
            "entrypoint": self.spec,
            "fields": answer_fields(settings)._asdict(),
            "part": settings.part,
            "takes_contexts": settings.takes_contexts,
            "functions": dict(settings.functions),
            "not_from": None if self.not_from is None else str(self.not_from),
        }
        child.write(worker.frame(json.dumps(hello).encode("ascii")))
        try:
            async with asyncio.timeout(settings.startup_timeout_s):
                await self._skip_noise(child, token)
                greeting = Greeting.model_validate((await _receive(child))[0])
        except TimeoutError:
            await child.show_stack()
            raise self._failure(f"not ready after {settings.startup_timeout_s:g} s.", child.tail.text()) from None
        except (EOFError, ValueError):
            how = await child.ending()
            raise self._failure(f"the worker {how} while starting.", child.tail.text()) from None
        if greeting.ready is None:
            fault = greeting.failed or FailedReply(message="the worker did not start.")
            raise self._failure(fault.message, fault.detail)
        self.accepts = frozenset(greeting.ready.accepts)
        rss, limit = greeting.ready.rss_bytes, self._memory_limit_bytes
        if rss is not None and limit is not None and rss > limit:
            raise self._failure(f"it uses {_mb(rss)} after importing, over the limit of {_mb(limit)}.", None)

    async def ask(self, sample: Sample) -> Attempt:
        child = self._child
        if child is None or child.exited:
            return Attempt(None, reusable=False)  # died while idle; no question is lost
        self._number += 1
        child.tail.clear()
        asked = {"number": self._number, "question": sample.question, **beside_question(sample, self.settings.part)}
        body = json.dumps(asked)
        started = perf_counter()
        child.write(worker.frame(body.encode("ascii")))
        heard = _Heard(self._number)
        over = asyncio.create_task(self._over_memory(child))
        reply = asyncio.create_task(_listen(child, heard))
        returned = asyncio.create_task(heard.returned.wait())
        first = asyncio.FIRST_COMPLETED
        try:
            done, _ = await asyncio.wait([over, reply, returned], timeout=self.settings.timeout_s, return_when=first)
            if done == {returned}:
                # The system has answered in time; serialising the answer doesn't count.
                done, _ = await asyncio.wait([over, reply], timeout=_WRITING_S, return_when=first)
            return await self._outcome(child, sample, reply if reply in done else None, over in done, started, heard)
        finally:
            for task in (over, reply, returned):
                task.cancel()
            await asyncio.gather(over, reply, returned, return_exceptions=True)

    async def end(self, *, kill: bool) -> None:
        if self._child is not None:
            await self._child.end(patience_s=0.0 if kill else 2.0)

    async def _outcome(
        self,
        child: Child,
        sample: Sample,
        reply: asyncio.Task[tuple[object, float]] | None,
        over_memory: bool,
        started: float,
        heard: _Heard,
    ) -> Attempt:
        if reply is None and over_memory:
            limit = _mb(self._memory_limit_bytes or 0)
            message = f"The worker was killed: it used more than {limit} of memory."
            return lost(sample, SystemFailureKind.CRASHED, message, child)
        if reply is None:
            await child.show_stack()
            message = f"No answer within {self.settings.timeout_s:g} s."
            if heard.returned.is_set():
                message = f"An answer was returned, but could not be read within {_WRITING_S:g} s."
            return lost(sample, SystemFailureKind.TIMEOUT, message, child)
        try:
            received, arrived = reply.result()
            # Measured by this process, because the system under test could change the worker's clock.
            latency_s = (heard.returned_at or arrived) - started
            first_text_s = None if heard.text_at is None else heard.text_at - started
            return self._read(sample, WorkerReply.model_validate(received), latency_s, first_text_s)
        except EOFError:
            message = f"The worker {await child.ending()} while answering this question."
        except (ValueError, RecursionError):
            message = "Something else wrote to the worker's channel."
        return lost(sample, SystemFailureKind.CRASHED, message, child)

    def _read(self, sample: Sample, reply: WorkerReply, latency_s: float, first_text_s: float | None = None) -> Attempt:
        if reply.number != self._number:
            raise ValueError(reply.number)
        limit = self._memory_limit_bytes
        reusable = limit is None or reply.rss_bytes is None or reply.rss_bytes < _RECYCLE_SHARE * limit
        if reply.payload is not None:
            return Attempt(answered(sample.id, reply.payload, latency_s, first_text_s), reusable)
        error = reply.error
        if error is None:
            raise ValueError(reply)
        kind = SystemFailureKind(error.kind)
        response = failed(sample.id, kind, error.message, error.detail, latency_s=latency_s)
        return Attempt(response, reusable=reusable)

    async def _over_memory(self, child: Child) -> None:
        """Return once the worker's resident memory exceeds the limit (Linux; elsewhere never)."""
        limit = self._memory_limit_bytes
        if limit is None:
            await asyncio.Event().wait()
        while (worker.rss_bytes(child.pid) or 0) <= (limit or 0):  # noqa: ASYNC110 (a process has no event for this)
            await asyncio.sleep(0.25)

    async def _skip_noise(self, child: Child, token: str) -> None:
        """Skip the output of hooks such as sitecustomize before the worker redirects stdout."""
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
        ran = f"It was run by {self.python} in {self.context.directory}."
        return SystemUnderTestError(
            text,
            where=self.spec if self.settings.functions else f"python:{self.spec}",
            hint=f"{ran} {self.hint}",
        )


class PythonCallable(EntrypointKind):
    schemes = ("python",)
    form = "python:package.module:attribute"
    uses_interpreter = True

    def is_valid(self, rest: str) -> bool:
        return names_attribute(rest)

    def build(self, rest: str, settings: SystemSettings, around: Surroundings) -> System:
        return python_pool(rest, settings, around)


def names_attribute(spec: str) -> bool:
    """Whether `spec` is ``package.module:attribute`` or ``file.py:attribute``."""
    module, colon, attribute = spec.rpartition(":")
    named = module.endswith(".py") or ATTRIBUTE.fullmatch(module)
    return bool(colon and named and ATTRIBUTE.fullmatch(attribute))


def python_pool(spec: str, settings: SystemSettings, around: Surroundings) -> Pool:
    """Workers for the attribute `spec`, or for `settings.functions`, of which `spec` is the name."""
    context = around.child_context(settings)
    python = _interpreter(settings.python, around.root, around.environ)
    local = Path(context.directory, ".venv", *_in_venv())
    hint = (
        f"If the system is installed in {local}, set python in [system] to it."
        if settings.python is None and local.exists() and str(local) != python
        else "To use another interpreter, set python in [system]."
    )
    new = functools.partial(PythonPeer, python, spec, settings, context, hint, around.not_from)
    return Pool(f"python:{spec}", settings, new, context)


def _interpreter(python: str | None, root: Path, environ: Mapping[str, str]) -> str:
    """The configured interpreter, else that of the active environment, else Ragstone's own."""
    if python is not None:
        place = str((root / python).absolute()) if has_folder(python) else python
        found = shutil.which(place, path=environ.get("PATH"))
        if found is None:
            raise ConfigError(
                f"the interpreter '{python}' was not found.",
                where="system.python",
                hint="Use a path such as .venv/bin/python, or a name on PATH such as python3.12.",
            )
        return found
    in_conda = ("python.exe",) if sys.platform == "win32" else ("bin", "python")
    for variable, inside in (("VIRTUAL_ENV", _in_venv()), ("CONDA_PREFIX", in_conda)):
        if environ.get(variable) and (active := Path(environ[variable], *inside)).exists():
            return str(active)
    return sys.executable


def _in_venv() -> tuple[str, str]:
    return ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")


def check_function(spec: str, *, where: str) -> None:
    """Raise ConfigError unless `spec` is ``package.module:function`` or ``file.py:function``."""
    if not names_attribute(spec):
        raise ConfigError(
            f"'{spec}' names no function.", where=where, hint="Write package.module:function, or file.py:function."
        )


class _Heard:
    """The worker's events for a question before its reply, and when they arrived."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.text_at: float | None = None
        self.returned_at: float | None = None
        self.returned = asyncio.Event()

    def take(self, message: object, arrived: float) -> bool:
        """Record `message` if it is such an event, and return whether it is. Raises ValueError for another question."""
        if not isinstance(message, dict) or "event" not in message:
            return False
        if message.get("number") != self._number:
            raise ValueError(message)
        if message["event"] == "text" and self.text_at is None:
            self.text_at = arrived
        elif message["event"] == "returned":
            self.returned_at = arrived
            self.returned.set()
        return True


async def _listen(child: Child, heard: _Heard) -> tuple[object, float]:
    """The reply, and when it began to arrive; events before it go to `heard`."""
    while True:
        message, arrived = await _receive(child)
        if not heard.take(message, arrived):
            return message, arrived


async def _receive(child: Child) -> tuple[object, float]:
    """The next message, and when it began to arrive."""
    try:
        size = int(await child.stdout.readexactly(10))
        arrived = perf_counter()
        if size > MAX_FRAME_BYTES:
            raise ValueError(size)
        return json.loads(await child.stdout.readexactly(size)), arrived
    except asyncio.IncompleteReadError:
        raise EOFError from None


def _mb(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB"
