"""Parses the entrypoint string, and builds the system that it names. The only module
that knows all kinds of entrypoints."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.settings.settings import SystemSettings
from ragstone.settings.variables import Environ
from ragstone.system import command_line, http_service
from ragstone.system.command_line import ShellCommand
from ragstone.system.environment import RunAs, child_environment
from ragstone.system.given import GivenContexts
from ragstone.system.http_service import HttpUrl
from ragstone.system.kind import EntrypointKind, Surroundings
from ragstone.system.python_worker import (
    PythonCallable,
    check_function,
    python_pool,
)
from ragstone.system.recorded import AnswersFile
from ragstone.system.response import GENERATION, System

PYTHON = PythonCallable()
"""The kind of an entrypoint without a scheme."""

KINDS: tuple[EntrypointKind, ...] = (
    PYTHON,
    ShellCommand(),
    HttpUrl(),
    AnswersFile(),
)
_BY_SCHEME: dict[str, EntrypointKind] = {}
for _kind in KINDS:
    _BY_SCHEME.update(dict.fromkeys(_kind.schemes, _kind))
_EXAMPLES_HINT = f"Use {', '.join(kind.example for kind in KINDS[:-1])}, or {KINDS[-1].example} (docs/entrypoints.md)."


class Entrypoint(Struct, frozen=True):
    """A parsed entrypoint string."""

    kind: EntrypointKind
    target: str
    """What follows the scheme; for an address the whole `text`."""
    text: str


def parse_entrypoint(text: str | None) -> Entrypoint:
    """Parse an entrypoint string. Raises ConfigError, which shows no secrets.

    A scheme must be in lower case, without spaces around it: "HTTP:" is refused, not
    read as the name of a Python module.
    """
    text = (text or "").strip()
    if not text:
        raise _invalid("no entrypoint.")
    has_surrogates = any("\ud800" <= letter <= "\udfff" for letter in text)
    if has_surrogates:  # how Python reads bytes that are not UTF-8
        raise _invalid(f"{text!a} is not UTF-8.")
    scheme, _, target = text.partition(":")
    kind = _BY_SCHEME.get(scheme)
    if kind is None:
        if scheme.strip().lower() in _BY_SCHEME:
            raise _invalid(f"unknown scheme '{scheme}' in '{shown_entrypoint(text)}'.")
        kind, target = PYTHON, text
    target = text if kind.is_address else target.strip()
    if not kind.is_valid(target):
        raise _invalid(f"'{shown_entrypoint(text)}' is not {kind.description}.")
    return Entrypoint(kind, target, text)


def _invalid(message: str) -> ConfigError:
    return ConfigError(message, where="system.entrypoint", hint=_EXAMPLES_HINT)


def entrypoint_or_none(text: str | None) -> Entrypoint | None:
    """Parse an entrypoint string. Returns None if it is none, such as the name of a
    callable in the manifest of a run."""
    try:
        return parse_entrypoint(text)
    except ConfigError:
        return None


def shown_entrypoint(text: str) -> str:
    """Mask the secrets in the URL or command of an entrypoint, which need not be
    valid."""
    if "://" not in text:
        return command_line.without_secrets(text)
    try:
        return http_service.without_secrets(text)
    except ValueError:  # not a URL: only its scheme surely holds no secret
        return text.partition(":")[0]


def build_system(
    settings: SystemSettings,
    *,
    root: Path,
    environ: Environ,
    log: Path | None = None,
    run_as: RunAs | None = None,
    within: Path | None = None,
    forbidden_imports: Path | None = None,
) -> System:
    """Build the system under test that `settings.entrypoint` names, without starting
    it. If the settings have `functions`, build a worker that calls these instead.

    - `root`: the folder that relative paths start from
    - `environ`: the whole environment; children get only what is on the allow-list or
      named in `settings.env`
    - `log`: the file for the output of the user's code
    - `run_as`: the user that children run as
    - `within`: the folder that recorded answers must be in
    - `forbidden_imports`: a folder, such as the checkout of another version, from which
      a python entrypoint must not import anything, except what is installed in its
      environment

    If only generation is evaluated, the system is given the reference contexts. Raises
    ConfigError.
    """
    surroundings = Surroundings(
        root=root,
        environ=environ,
        child_environ=child_environment(settings.env, environ, run_as),
        log=log,
        run_as=run_as,
        within=within,
        forbidden_imports=forbidden_imports,
    )
    if settings.functions:
        for metric, spec in settings.functions.items():
            check_function(spec, where=f"metrics.{metric}.python")
        names = ", ".join(f"metrics.{name}" for name in settings.functions)
        return python_pool(names, settings, surroundings)
    entrypoint = parse_entrypoint(settings.entrypoint)
    system = entrypoint.kind.build(entrypoint.target, settings, surroundings)
    return wrap_for_part(system, settings)


def wrap_for_part(system: System, settings: SystemSettings) -> System:
    """Give `system` the reference contexts if only its generation is evaluated."""
    return GivenContexts(system) if settings.part == GENERATION else system
