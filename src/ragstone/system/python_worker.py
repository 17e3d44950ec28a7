"""python: entrypoints: the worker in the user's interpreter, one process per peer."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import secrets
import shutil
import sys
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
from ragstone.system.worker.wording import SOURCE_NAME

# An answer of MAX_CHARACTERS, each written as two \uXXXX escapes, and what is around it.
MAX_LINE_BYTES = 13 * MAX_CHARACTERS
ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_BOOTSTRAP = (
    "import json, sys\n"
    "hello = json.loads(sys.stdin.buffer.readline())\n"
    "names = {'__name__': 'ragstone_worker'}\n"
    f"exec(compile(hello['source'], {SOURCE_NAME!r}, 'exec'), names)\n"
    "names['main'](hello)\n"
)


@dataclass(eq=False)
class PythonPeer:
    """One worker process: the interpreter `python` runs the attribute `spec`,
    ``package.module:attribute`` or ``file.py:attribute``.

    Nothing that is imported for it may be in the folder `not_from`. If the settings
    have `functions`, the worker calls these functions of custom metrics (metric to
    spec) instead, and each question is a request, as `MetricFunctions` writes it.
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
            [self.python, "-c", _BOOTSTRAP], self.context, limit=MAX_LINE_BYTES
        )
        token = secrets.token_hex(16)
        hello = {
            "source": worker_source(),
            "token": token,
            "entrypoint": self.spec,
            "fields": answer_fields(settings)._asdict(),
            "part": settings.part,
            "functions": dict(settings.functions),
            "not_from": None if self.not_from is None else str(self.not_from),
        }
        _send(child, hello)
        try:
            async with asyncio.timeout(settings.startup_timeout_s):
                # What comes before the token is of hooks such as sitecustomize.
                while token.encode() not in (line := await _receive(child)):
                    child.tail.add(line)
                    self.context.log.write(line)
            greeting = Greeting.model_validate_json(line)
            failure = greeting.failed
        except TimeoutError:
            await child.show_stack()
            message = f"not ready after {settings.startup_timeout_s:g} s."
            failure = WireFailure(message=message, detail=child.tail.text())
        except (EOFError, ValueError):
            message = f"the worker {await child.ending()} while starting."
            failure = WireFailure(message=message, detail=child.tail.text())
        if failure is not None:
            detail = f"\n\n{failure.detail.rstrip()}\n" if failure.detail else ""
            raise SystemUnderTestError(
                failure.message + detail,
                where=self.spec if settings.functions else f"python:{self.spec}",
                hint=f"It was run by {self.python} in {self.context.directory}. {self.hint}",
            )
        self.accepts = frozenset(greeting.ready)

    async def ask(self, sample: Sample) -> Attempt:
        child = self._child
        if child is None or child.exited:
            return Attempt(None, reusable=False)  # died while idle; no question is lost
        self._number += 1
        child.tail.clear()
        request = {
            "number": self._number,
            "question": sample.question,
            "beside": beside_question(sample, self.settings.part),
        }
        timeout_s = self.settings.timeout_s
        session = session_id(sample)
        if session is not None and session != self._session:
            # An object may have to be built for the session.
            timeout_s += self.settings.startup_timeout_s
        self._session = session
        _send(child, request)
        try:
            async with asyncio.timeout(timeout_s) as deadline:
                return await self._attempt(child, sample, deadline)
        except TimeoutError:
            await child.show_stack()
            message = f"No answer within {self.settings.timeout_s:g} s."
            return lost(sample, SystemFailureKind.TIMEOUT, message, child)
        except EOFError:
            how = await child.ending()
            message = f"The worker {how} while answering this question."
        except ValueError:
            message = "Something else wrote to the worker's channel."
        return lost(sample, SystemFailureKind.CRASHED, message, child)

    async def _attempt(
        self, child: Child, sample: Sample, deadline: asyncio.Timeout
    ) -> Attempt:
        """The reply. Raises EOFError, and ValueError for anything that isn't about this
        question.

        The question counts from when the object of its session is built. Times are
        measured here, because the system under test could change the worker's clock.
        """
        now = asyncio.get_running_loop().time
        started = perf_counter()
        while True:
            message = WorkerMessage.model_validate_json(await _receive(child))
            arrived = perf_counter()
            if message.number != self._number:
                raise ValueError(message.number)
            if message.event is None:
                break
            started = arrived
            deadline.reschedule(now() + self.settings.timeout_s)
        latency_s = arrived - started
        error = message.error
        if message.payload is not None:
            response = answered(sample.id, message.payload, latency_s)
        elif error is not None:
            kind = SystemFailureKind(error.kind)
            response = failed(sample.id, kind, error.message, error.detail, latency_s)
        else:
            raise ValueError(message)
        return Attempt(response, reusable=True)

    async def end(self, *, kill: bool) -> None:
        if self._child is not None:
            await self._child.end(patience_s=0.0 if kill else 2.0)


def _send(child: Child, message: object) -> None:
    child.write(json.dumps(message).encode("ascii") + b"\n")


async def _receive(child: Child) -> bytes:
    """The next line. Raises EOFError, and ValueError for one that is too long."""
    line = await child.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line


class PythonCallable(EntrypointKind):
    schemes = ("python",)
    form = "python:package.module:attribute"
    uses_interpreter = True

    def is_valid(self, target: str) -> bool:
        """Whether it is ``package.module:attribute`` or ``file.py:attribute``."""
        module, _, attribute = target.rpartition(":")
        is_named = module.endswith(".py") or ATTRIBUTE.fullmatch(module)
        return bool(is_named and ATTRIBUTE.fullmatch(attribute))

    def build(
        self, target: str, settings: SystemSettings, around: Surroundings
    ) -> System:
        return python_pool(target, settings, around)


def python_pool(spec: str, settings: SystemSettings, around: Surroundings) -> Pool:
    """Workers for the attribute `spec`, or for `settings.functions`, of which `spec` is
    the name.

    They run in the configured interpreter, else in that of the active environment, else
    in Ragstone's own.
    """
    context = around.child_context(settings)
    is_windows = sys.platform == "win32"
    in_venv = ("Scripts", "python.exe") if is_windows else ("bin", "python")
    in_conda = ("python.exe",) if is_windows else in_venv
    python: str | None = settings.python
    if python is not None:
        if has_folder(python):
            python = str((around.root / python).absolute())
        python = shutil.which(python, path=around.environ.get("PATH"))
        if python is None:
            raise ConfigError(
                f"the interpreter '{settings.python}' was not found.",
                where="system.python",
                hint="Use a path such as .venv/bin/python, or a name on PATH such as python3.12.",
            )
    for variable, inside in (("VIRTUAL_ENV", in_venv), ("CONDA_PREFIX", in_conda)):
        active = Path(around.environ.get(variable) or "", *inside)
        if python is None and around.environ.get(variable) and active.exists():
            python = str(active)
    python = python or sys.executable
    hint = "To use another interpreter, set python in [system]."
    local = Path(context.directory, ".venv", *in_venv)
    if settings.python is None and local.exists() and str(local) != python:
        hint = f"If the system is installed in {local}, set python in [system] to it."
    new = functools.partial(
        PythonPeer, python, spec, settings, context, hint, around.not_from
    )
    return Pool(f"python:{spec}", settings, new, context)


def check_function(spec: str, *, where: str) -> None:
    """Raise ConfigError unless `spec` is ``package.module:function`` or
    ``file.py:function``."""
    if not PythonCallable().is_valid(spec):
        raise ConfigError(
            f"'{spec}' names no function.",
            where=where,
            hint="Write package.module:function, or file.py:function.",
        )
