"""python: entrypoints: workers, which are processes of the user's interpreter."""

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

_DOTTED_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_IS_WINDOWS = sys.platform == "win32"
_PYTHON_IN_VENV = Path("Scripts/python.exe" if _IS_WINDOWS else "bin/python")
_PYTHON_IN_CONDA = Path("python.exe") if _IS_WINDOWS else _PYTHON_IN_VENV
# The program of a worker: it reads the message `hello`, runs the source in it, and
# calls `protocol.main`.
_BOOTSTRAP = (
    "import json, sys\n"
    "hello = json.loads(sys.stdin.buffer.readline())\n"
    "names = {'__name__': 'ragstone_worker'}\n"
    f"exec(compile(hello['source'], {SOURCE_NAME!r}, 'exec'), names)\n"
    "names['main'](hello)\n"
)


class PythonPeer(LinePeer, eq=False, kw_only=True):
    """One worker process.

    If the settings have `functions` (by metric), the worker calls these functions of
    custom metrics, and each question is a request, as `MetricFunctions` writes it.
    """

    python: str
    """The interpreter that the worker runs in."""
    spec: str
    """The attribute to ask: ``package.module:attribute`` or ``file.py:attribute``."""
    hint: str
    """How to choose another interpreter, for errors."""
    forbidden_imports: Path | None = None
    """A folder from which nothing may be imported."""
    display_name = "worker"

    async def start(self) -> None:
        """Start the interpreter and import the entrypoint. Raises SystemUnderTestError
        with the user's traceback."""
        settings = self.settings
        child = self.child = await Child.spawn(
            [self.python, "-c", _BOOTSTRAP],
            self.context,
            max_line_bytes=self.max_line_bytes,
        )
        # Marks the worker's first line, which other code can't write by chance.
        token = secrets.token_hex(16)
        forbidden = self.forbidden_imports
        hello = {
            "source": worker_source(),
            "token": token,
            "entrypoint": self.spec,
            "fields": answer_fields(settings)._asdict(),
            "part": settings.part,
            "functions": dict(settings.functions),
            "forbidden_imports": None if forbidden is None else str(forbidden),
        }
        child.send(hello)
        try:
            async with asyncio.timeout(settings.startup_timeout_s):
                line = await child.stdout.readline()
                while token.encode() not in line:
                    if not line:
                        raise EOFError
                    # The output of a hook of the interpreter, such as sitecustomize.
                    child.tail.add(line)
                    self.context.log.write(line)
                    line = await child.stdout.readline()
            greeting = Greeting.model_validate_json(line)
        except TimeoutError:
            await child.show_stack()
            message = f"not ready after {settings.startup_timeout_s:g} s."
            greeting = Greeting(error=message, detail=child.tail.text())
        except (EOFError, ValueError):
            message = f"the worker {await child.describe_ending()} while starting."
            greeting = Greeting(error=message, detail=child.tail.text())
        if greeting.error is not None:
            raise self.start_error(
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
        """Whether `target` is ``package.module:attribute`` or ``file.py:attribute``."""
        module, _, attribute = target.rpartition(":")
        is_module = module.endswith(".py") or _DOTTED_NAME.fullmatch(module)
        return bool(is_module and _DOTTED_NAME.fullmatch(attribute))

    def build(
        self, target: str, settings: SystemSettings, surroundings: Surroundings
    ) -> System:
        return python_pool(target, settings, surroundings)


def python_pool(
    spec: str, settings: SystemSettings, surroundings: Surroundings
) -> Pool:
    """A pool of workers for the attribute `spec`. If `settings` have `functions`, the
    workers call these, and `spec` is only their name in messages. Raises
    ConfigError."""
    context = surroundings.child_context(settings)
    python = _interpreter(settings.python, surroundings)
    hint = "To use another interpreter, set python in [system]."
    local = context.directory / ".venv" / _PYTHON_IN_VENV
    if settings.python is None and local.exists() and str(local) != python:
        hint = f"If the system is installed in {local}, set python in [system] to it."
    # Without the paths in the settings, which the worker applies.
    fields = Fields(contexts_only=settings.part == RETRIEVAL)
    new_peer = functools.partial(
        PythonPeer,
        settings,
        context,
        fields,
        python=python,
        spec=spec,
        hint=hint,
        forbidden_imports=surroundings.forbidden_imports,
    )
    return Pool(f"python:{spec}", settings, new_peer, context)


def _interpreter(setting: str | None, surroundings: Surroundings) -> str:
    """The interpreter that the `setting` `system.python` names; without it, that of the
    active environment, or else Ragstone's own. Raises ConfigError."""
    environ = surroundings.environ
    if setting is None:
        for variable, python_path in (
            ("VIRTUAL_ENV", _PYTHON_IN_VENV),
            ("CONDA_PREFIX", _PYTHON_IN_CONDA),
        ):
            folder = environ.get(variable)
            if folder and Path(folder, python_path).exists():
                return str(Path(folder, python_path))
        return sys.executable
    program = setting
    if has_folder(setting):
        program = str((surroundings.root / setting).absolute())
    python = shutil.which(program, path=environ.get("PATH"))
    if python is None:
        raise ConfigError(
            f"the interpreter '{setting}' was not found.",
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
