"""python: entrypoints: an attribute of a module, called in the user's interpreter."""

from __future__ import annotations

import functools
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from ragstone.config import SystemSettings
from ragstone.errors import ConfigError
from ragstone.system.kind import EntrypointKind, Surroundings, has_folder
from ragstone.system.pool import Pool
from ragstone.system.python_worker import PythonPeer, PythonTarget
from ragstone.system.response import System

ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


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
        f"If the system is installed in {local}, set python in [system] (or --python) to it."
        if settings.python is None and local.exists() and str(local) != python
        else "To use another interpreter, set python in [system], or --python."
    )
    target = PythonTarget(python, spec, settings, hint, around.not_from)
    return Pool(f"python:{spec}", settings, functools.partial(PythonPeer, target, context), context)


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
    for variable, inside in (("VIRTUAL_ENV", _in_venv()), ("CONDA_PREFIX", _in_conda())):
        if environ.get(variable) and (active := Path(environ[variable], *inside)).exists():
            return str(active)
    return sys.executable


def _in_venv() -> tuple[str, str]:
    return ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")


def _in_conda() -> tuple[str, ...]:
    return ("python.exe",) if sys.platform == "win32" else ("bin", "python")
