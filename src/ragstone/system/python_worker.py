"""python: entrypoints: the worker in the user's interpreter, one process per peer."""

from __future__ import annotations

import asyncio
import functools
import re
import secrets
import shutil
import sys
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.settings.settings import SystemSettings
from ragstone.system.child import Child
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields, has_folder
from ragstone.system.line_peer import LinePeer
from ragstone.system.payload import Greeting
from ragstone.system.pool import Pool
from ragstone.system.response import (
    RETRIEVAL,
    System,
)
from ragstone.system.worker.fields import Fields
from ragstone.system.worker.join import worker_source
from ragstone.system.worker.wording import SOURCE_NAME

ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_IS_WINDOWS = sys.platform == "win32"
_IN_VENV = Path("Scripts/python.exe" if _IS_WINDOWS else "bin/python")
_IN_CONDA = Path("python.exe") if _IS_WINDOWS else _IN_VENV
_BOOTSTRAP = (
    "import json, sys\n"
    "hello = json.loads(sys.stdin.buffer.readline())\n"
    "names = {'__name__': 'ragstone_worker'}\n"
    f"exec(compile(hello['source'], {SOURCE_NAME!r}, 'exec'), names)\n"
    "names['main'](hello)\n"
)


class PythonPeer(LinePeer, eq=False, kw_only=True):
    """One worker process: the interpreter `python` runs the attribute `spec`,
    ``package.module:attribute`` or ``file.py:attribute``.

    Nothing that is imported for it may be in the folder `forbidden_imports`. If the settings
    have `functions`, the worker calls these functions of custom metrics (metric to
    spec) instead, and each question is a request, as `MetricFunctions` writes it.
    `hint` says how to choose another interpreter.
    """

    python: str
    spec: str
    hint: str
    forbidden_imports: Path | None = None
    noun = "worker"

    async def start(self) -> None:
        """Start the interpreter and import the entrypoint. Raises SystemUnderTestError
        with the user's traceback."""
        settings = self.settings
        child = self.child = await Child.spawn(
            [self.python, "-c", _BOOTSTRAP], self.context, limit=self.max_line_bytes
        )
        token = secrets.token_hex(16)
        hello = {
            "source": worker_source(),
            "token": token,
            "entrypoint": self.spec,
            "fields": answer_fields(settings)._asdict(),
            "part": settings.part,
            "functions": dict(settings.functions),
            "forbidden_imports": None
            if self.forbidden_imports is None
            else str(self.forbidden_imports),
        }
        child.send(hello)
        try:
            async with asyncio.timeout(settings.startup_timeout_s):
                # What comes before the token is of hooks such as sitecustomize.
                while token.encode() not in (line := await child.stdout.readline()):
                    if not line:
                        raise EOFError
                    child.tail.add(line)
                    self.context.log.write(line)
            greeting = Greeting.model_validate_json(line)
        except TimeoutError:
            await child.show_stack()
            message = f"not ready after {settings.startup_timeout_s:g} s."
            greeting = Greeting(error=message, detail=child.tail.text())
        except (EOFError, ValueError):
            message = f"the worker {await child.ending()} while starting."
            greeting = Greeting(error=message, detail=child.tail.text())
        if greeting.error is not None:
            raise self.not_started(
                greeting.error,
                greeting.detail,
                where=self.spec if settings.functions else f"python:{self.spec}",
                hint=f"It was run by {self.python} in {self.context.directory}. {self.hint}",
            )
        self.accepts = frozenset(greeting.ready)
        self.is_proven = True


class PythonCallable(EntrypointKind):
    schemes = ("python",)
    example = "python:package.module:attribute"
    uses_interpreter = True

    def is_valid(self, target: str) -> bool:
        """Whether it is ``package.module:attribute`` or ``file.py:attribute``."""
        module, _, attribute = target.rpartition(":")
        is_named = module.endswith(".py") or ATTRIBUTE.fullmatch(module)
        return bool(is_named and ATTRIBUTE.fullmatch(attribute))

    def build(
        self, target: str, settings: SystemSettings, surroundings: Surroundings
    ) -> System:
        return python_pool(target, settings, surroundings)


def python_pool(
    spec: str, settings: SystemSettings, surroundings: Surroundings
) -> Pool:
    """Workers for the attribute `spec`, or for `settings.functions`, of which `spec` is
    the name. Raises ConfigError."""
    context = surroundings.child_context(settings)
    python = _interpreter(settings.python, surroundings)
    hint = "To use another interpreter, set python in [system]."
    local = context.directory / ".venv" / _IN_VENV
    if settings.python is None and local.exists() and str(local) != python:
        hint = f"If the system is installed in {local}, set python in [system] to it."
    # The worker has applied the paths of the settings.
    fields = Fields(contexts_only=settings.part == RETRIEVAL)
    new = functools.partial(
        PythonPeer,
        settings,
        context,
        fields,
        python=python,
        spec=spec,
        hint=hint,
        forbidden_imports=surroundings.forbidden_imports,
    )
    return Pool(f"python:{spec}", settings, new, context)


def _interpreter(named: str | None, surroundings: Surroundings) -> str:
    """The interpreter that the setting `python` names, or that of the active
    environment, or Ragstone's own. Raises ConfigError."""
    if named is None:
        for variable, inside in (
            ("VIRTUAL_ENV", _IN_VENV),
            ("CONDA_PREFIX", _IN_CONDA),
        ):
            folder = surroundings.environ.get(variable)
            if folder and Path(folder, inside).exists():
                return str(Path(folder, inside))
        return sys.executable
    program = named
    if has_folder(named):
        program = str((surroundings.root / named).absolute())
    python = shutil.which(program, path=surroundings.environ.get("PATH"))
    if python is None:
        raise ConfigError(
            f"the interpreter '{named}' was not found.",
            where="system.python",
            hint="Use a path such as .venv/bin/python, or a name on PATH such as python3.12.",
        )
    return python


def check_function(spec: str, *, where: str) -> None:
    """Raise ConfigError unless `spec` is ``package.module:function`` or
    ``file.py:function``."""
    if not PythonCallable().is_valid(spec):
        raise ConfigError(
            f"'{spec}' names no function.",
            where=where,
            hint="Write package.module:function, or file.py:function.",
        )
