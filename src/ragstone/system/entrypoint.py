"""The entrypoint string, parsed: only this module takes it apart, and lists the kinds
that there are."""

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
_FORMS = f"Use {', '.join(kind.form for kind in KINDS[:-1])}, or {KINDS[-1].form} (docs/entrypoints.md)."


class Entrypoint(Struct, frozen=True):
    """What an entrypoint string says. `target` follows the scheme; for an address it is
    the whole `text`."""

    kind: EntrypointKind
    target: str
    text: str


def parse_entrypoint(text: str | None) -> Entrypoint:
    """The entrypoint in `text`. Raises ConfigError, which shows no secrets.

    A scheme must be lower case without spaces, so that no two readers of a string
    disagree.
    """
    text = (text or "").strip()
    if not text:
        raise _invalid("no entrypoint.")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _invalid(f"{text!a} is not UTF-8.")
    scheme, _, target = text.partition(":")
    kind = _BY_SCHEME.get(scheme)
    if kind is None:
        if scheme.strip().lower() in _BY_SCHEME:
            raise _invalid(f"unknown scheme '{scheme}' in '{shown_entrypoint(text)}'.")
        kind, target = PYTHON, text
    target = text if kind.is_address else target.strip()
    if not kind.is_valid(target):
        raise _invalid(f"'{shown_entrypoint(text)}' is not {kind.noun}.")
    return Entrypoint(kind, target, text)


def _invalid(message: str) -> ConfigError:
    return ConfigError(message, where="system.entrypoint", hint=_FORMS)


def recognised(text: str | None) -> Entrypoint | None:
    """The entrypoint in `text`; None if there is none, as in the manifest of a run that
    asked an object."""
    try:
        return parse_entrypoint(text)
    except ConfigError:
        return None


def shown_entrypoint(text: str) -> str:
    """`text` without the secrets in a URL or a command, whether or not it can be
    parsed."""
    try:
        return (
            http_service.without_secrets(text)
            if "://" in text
            else command_line.without_secrets(text)
        )
    except ValueError:
        return text.partition(":")[0]


def build_system(
    settings: SystemSettings,
    *,
    root: Path,
    environ: Environ,
    log: Path | None = None,
    run_as: RunAs | None = None,
    within: Path | None = None,
    not_from: Path | None = None,
) -> System:
    """The system under test in `settings.entrypoint`, not yet started.

    Relative paths start from `root`. `environ` is the whole environment; children get
    the allow-list and the names in `settings.env`. Output of user code goes to `log`.
    `run_as` is the user that children run as. Recorded answers must be inside `within`.
    A python entrypoint must not import anything from the folder `not_from` (the
    checkout of another version), except what is installed in its environment. Settings
    with `functions` give a worker for these. A system of which only generation is
    evaluated is given the reference contexts. Raises ConfigError.
    """
    child_environ = child_environment(settings.env, environ, run_as)
    around = Surroundings(root, environ, child_environ, log, run_as, within, not_from)
    if settings.functions:
        for metric, spec in settings.functions.items():
            check_function(spec, where=f"metrics.{metric}.python")
        names = ", ".join(f"metrics.{name}" for name in settings.functions)
        return python_pool(names, settings, around)
    entrypoint = parse_entrypoint(settings.entrypoint)
    system = entrypoint.kind.build(entrypoint.target, settings, around)
    return of_part(system, settings)


def of_part(system: System, settings: SystemSettings) -> System:
    """`system`, as the half of it that is evaluated."""
    return GivenContexts(system) if settings.part == GENERATION else system
