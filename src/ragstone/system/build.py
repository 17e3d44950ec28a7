"""Builds a `System` from the `[system]` settings. Only this module parses the entrypoint string."""

from __future__ import annotations

import difflib
import functools
import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ragstone.config import SystemSettings
from ragstone.errors import ConfigError
from ragstone.system.child import ChildContext, Guardian
from ragstone.system.command_line import QUESTION, CommandPeer, OneShotPeer, without_secrets
from ragstone.system.environment import RunAs, child_environment, substituted
from ragstone.system.given import GivenContexts
from ragstone.system.http_service import HttpService, HttpTarget
from ragstone.system.log import SystemLog
from ragstone.system.pool import Peer, Pool
from ragstone.system.python_worker import PythonPeer, PythonTarget
from ragstone.system.recorded import RecordedAnswers
from ragstone.system.response import GENERATION, RETRIEVAL, System
from ragstone.system.worker import Fields, Part

SCHEMES = ("python", "command", "http", "https", "file")
_FORMS = (
    "Use python:package.module:attribute, command:./program --flag, http://host/path, or file:outputs.jsonl "
    "(docs/entrypoints.md)."
)
_ATTRIBUTE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DEFAULT_CONNECT_S = 10.0


def build_system(
    settings: SystemSettings,
    *,
    root: Path,
    environ: Mapping[str, str],
    log: Path | None = None,
    run_as: RunAs | None = None,
    within: Path | None = None,
    not_from: Path | None = None,
) -> System:
    """The system under test in `settings.entrypoint`, not yet started.

    Relative paths start from `root`. `environ` is the whole environment; children get the allow-list and the names in
    `settings.env`. Output of user code goes to `log`. `run_as` is the user that children run as. Recorded answers must
    be inside `within`. A python entrypoint must not import anything from the folder `not_from` (the checkout of another
    version), except what is installed in its environment. Settings with `functions` give a worker for these. A system
    of which only generation is evaluated is given the reference contexts. Raises ConfigError.
    """
    if settings.functions:
        return _functions(settings, root, environ, log, run_as, not_from)
    system = _whole(settings, root, environ, log, run_as, within, not_from)
    return of_part(system, settings)


def of_part(system: System, settings: SystemSettings) -> System:
    """`system`, as the half of it that is evaluated."""
    return GivenContexts(system, settings.takes_contexts) if settings.part == GENERATION else system


def _whole(
    settings: SystemSettings,
    root: Path,
    environ: Mapping[str, str],
    log: Path | None,
    run_as: RunAs | None,
    within: Path | None,
    not_from: Path | None,
) -> System:
    entrypoint = (settings.entrypoint or "").strip()
    if not entrypoint:
        raise ConfigError("no entrypoint.", where="system.entrypoint", hint=_FORMS)
    if not entrypoint.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in entrypoint):
        hint = "Rename the file: the entrypoint is kept in the run's manifest, which is UTF-8."
        raise ConfigError(f"{entrypoint!a} is not UTF-8.", where="system.entrypoint", hint=hint)
    scheme, rest = split_scheme(entrypoint)
    directory = (root / (settings.working_directory or "")).resolve()
    child_environ = child_environment(settings.env, environ, run_as)
    if scheme in ("http", "https"):
        return _http(entrypoint, settings, environ)
    if scheme == "file":
        path = root / rest
        return RecordedAnswers(
            path, shown=rest, concurrency=settings.concurrency, within=within, fields=answer_fields(settings)
        )
    if not directory.is_dir():
        raise ConfigError(f"the working directory {directory} does not exist.", where="system.working_directory")
    context = ChildContext(directory, child_environ, SystemLog(log), Guardian(), run_as)
    if scheme == "command":
        return _command(rest, settings, context)
    return _python(rest, settings, root, environ, context, not_from)


def _functions(
    settings: SystemSettings,
    root: Path,
    environ: Mapping[str, str],
    log: Path | None,
    run_as: RunAs | None,
    not_from: Path | None,
) -> System:
    directory = (root / (settings.working_directory or "")).resolve()
    if not directory.is_dir():
        raise ConfigError(f"the working directory {directory} does not exist.", where="system.working_directory")
    for metric, spec in settings.functions.items():
        check_function(spec, where=f"metrics.{metric}.python")
    context = ChildContext(
        directory, child_environment(settings.env, environ, run_as), SystemLog(log), Guardian(), run_as
    )
    return _python(
        ", ".join(f"metrics.{name}" for name in settings.functions), settings, root, environ, context, not_from
    )


def check_function(spec: str, *, where: str) -> None:
    """Raise ConfigError unless `spec` is ``package.module:function`` or ``file.py:function``."""
    module, colon, attribute = spec.rpartition(":")
    named = module.endswith(".py") or _ATTRIBUTE.fullmatch(module)
    if not colon or not named or not _ATTRIBUTE.fullmatch(attribute):
        raise ConfigError(
            f"'{spec}' names no function.", where=where, hint="Write package.module:function, or file.py:function."
        )


def split_scheme(entrypoint: str) -> tuple[str, str]:
    """Scheme and rest of an entrypoint string; without a scheme it is ``python``. Raises ConfigError.

    A scheme must be lower case without spaces, so that all readers of an entrypoint agree.
    """
    scheme, colon, rest = entrypoint.partition(":")
    if scheme in ("http", "https") and rest.startswith("//"):
        _check_url(entrypoint)
        return scheme, entrypoint
    if colon and scheme in ("python", "command", "file"):
        if not rest.strip():
            what = f"'{entrypoint}' has nothing after '{scheme}:'."
            raise ConfigError(what, where="system.entrypoint", hint=_FORMS)
        if scheme == "python":
            _check_python(rest.strip(), entrypoint)
        return scheme, rest.strip()
    close = difflib.get_close_matches(scheme.strip().lower(), SCHEMES, n=1, cutoff=0.7)
    path_like = not _ATTRIBUTE.fullmatch(rest) or rest.endswith((".jsonl", ".json"))
    if colon and close and path_like:
        guess = "//" + rest.lstrip("/") if close[0] in ("http", "https") else rest
        raise ConfigError(
            f"unknown scheme '{scheme}' in '{shown_entrypoint(entrypoint)}'.",
            where="system.entrypoint",
            hint=f"Did you mean '{shown_entrypoint(f'{close[0]}:{guess}')}'?",
        )
    if "://" in entrypoint:
        raise ConfigError(
            f"unknown scheme '{scheme}' in '{shown_entrypoint(entrypoint)}'.", where="system.entrypoint", hint=_FORMS
        )
    _check_python(entrypoint, entrypoint)
    return "python", entrypoint


def _python(
    spec: str,
    settings: SystemSettings,
    root: Path,
    environ: Mapping[str, str],
    context: ChildContext,
    not_from: Path | None,
) -> System:
    python = _interpreter(settings.python, root, environ)
    local = Path(context.directory, ".venv", *_in_venv())
    hint = (
        f"If the system is installed in {local}, set python in [system] (or --python) to it."
        if settings.python is None and local.exists() and str(local) != python
        else "To use another interpreter, set python in [system], or --python."
    )
    target = PythonTarget(
        python=python,
        spec=spec,
        timeout_s=settings.timeout_s,
        startup_timeout_s=settings.startup_timeout_s,
        memory_limit_bytes=settings.memory_limit_mb and settings.memory_limit_mb * 1_000_000,
        fields=answer_fields(settings),
        hint=hint,
        not_from=not_from,
        functions=settings.functions,
        part=part_of(settings),
    )
    return _pool(f"python:{spec}", settings, functools.partial(PythonPeer, target, context), context)


def _command(command: str, settings: SystemSettings, context: ChildContext) -> System:
    try:
        argv = shlex.split(command, posix=os.name == "posix")
        if os.name != "posix":  # without posix rules, quotes are kept
            argv = [word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word for word in argv]
    except ValueError as error:
        raise ConfigError(
            f"the command can't be split into words: {error}.", where="system.entrypoint", hint="Balance its quotes."
        ) from None
    argv[0] = _program(argv[0], context)
    fields = answer_fields(settings)
    if any(QUESTION in word for word in argv[1:]):
        one_shot = functools.partial(
            OneShotPeer, argv, timeout_s=settings.timeout_s, context=context, fields=fields, part=settings.part
        )
        return _pool(f"command:{without_secrets(command)}", settings, one_shot, context)
    numbers = itertools.count()

    def new_peer() -> Peer:
        return CommandPeer(
            argv,
            timeout_s=settings.timeout_s,
            startup_timeout_s=settings.startup_timeout_s,
            context=context,
            fields=fields,
            part=settings.part,
            first=next(numbers) == 0,
        )

    return _pool(f"command:{without_secrets(command)}", settings, new_peer, context)


def answer_fields(settings: SystemSettings) -> Fields:
    """Where the answer and its contexts are, as `settings` say."""
    return Fields(
        answer=settings.answer_field,
        contexts=settings.contexts_field,
        context_text=settings.context_text_field,
        context_id=settings.context_id_field,
        context_score=settings.context_score_field,
        contexts_only=settings.part == RETRIEVAL,
    )


def part_of(settings: SystemSettings) -> Part:
    """The half of a python system that is evaluated."""
    return Part(settings.part, settings.takes_contexts)


def _pool(entrypoint: str, settings: SystemSettings, new_peer: Callable[[], Peer], context: ChildContext) -> Pool:
    def release() -> None:
        context.guardian.close()
        context.log.close()

    return Pool(
        entrypoint=entrypoint,
        concurrency=settings.concurrency,
        retries=settings.retries,
        new_peer=new_peer,
        release=release,
    )


def _http(url: str, settings: SystemSettings, environ: Mapping[str, str]) -> System:
    headers = {}
    for name, value in settings.http.headers.items():
        where = f"system.http.headers.{name}"
        headers[name] = substituted(value, settings.env, environ, where=where)
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or re.search(r"[^\t\x20-\x7e]", headers[name]):
            raise ConfigError("a header can contain only printable ASCII characters.", where=where)
    explicit = "startup_timeout_s" in settings.model_fields_set
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return HttpService(
        HttpTarget(
            url=url,
            question_field=settings.http.question_field,
            history_field=settings.http.history_field,
            given_contexts_field=settings.http.given_contexts_field,
            part=settings.part,
            fields=answer_fields(settings),
            headers=headers,
            body=settings.http.body,
            timeout_s=settings.timeout_s,
            connect_for_s=settings.startup_timeout_s if explicit else _DEFAULT_CONNECT_S,
            retries=settings.retries,
            concurrency=settings.concurrency,
            proxied=any(environ.get(name) or environ.get(name.lower()) for name in proxies),
        )
    )


def _interpreter(python: str | None, root: Path, environ: Mapping[str, str]) -> str:
    """The configured interpreter, else that of the active environment, else Ragstone's own."""
    if python is not None:
        place = str((root / python).absolute()) if _has_folder(python) else python
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


def _program(name: str, context: ChildContext) -> str:
    """The path of a program: relative to the working directory if its name has a folder, else looked up on PATH."""
    if _has_folder(name):
        return str(context.directory / name)
    return shutil.which(name, path=context.environ.get("PATH")) or name


def _has_folder(program: str) -> bool:
    return any(separator in program for separator in filter(None, (os.sep, os.altsep)))


def _check_python(spec: str, entrypoint: str) -> None:
    module, colon, attribute = spec.rpartition(":")
    named = module.endswith(".py") or _ATTRIBUTE.fullmatch(module)
    if not colon or not named or not _ATTRIBUTE.fullmatch(attribute):
        raise ConfigError(
            f"'{shown_entrypoint(entrypoint)}' is not an entrypoint.", where="system.entrypoint", hint=_FORMS
        )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or any(character.isspace() for character in url):
        raise ConfigError("the entrypoint is not a valid URL.", where="system.entrypoint", hint=_FORMS)


def shown_entrypoint(entrypoint: str) -> str:
    """`entrypoint` without the secrets in a URL or a command."""
    from ragstone.system.http_service import without_secrets as without_url_secrets

    try:
        return without_url_secrets(entrypoint) if "://" in entrypoint else without_secrets(entrypoint)
    except ValueError:
        return entrypoint.partition(":")[0]
