"""How a run was started, and from which files: what the report needs to say how to
reproduce it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from ragstone.errors import ConfigError
from ragstone.evaluation.manifest import Invocation
from ragstone.pipeline.git import Git, GitFailed
from ragstone.settings.load import OPTIONS, Option
from ragstone.settings.settings import Settings
from ragstone.system.entrypoint import shown_entrypoint

_NOT_REPRODUCED = frozenset({"run.resume", "run.dask", "gate.save_baseline"})
"""A run is reproduced from its start, on any machine, and its copy is not kept."""

_SKIPPED = "S"
"""What ``git ls-files -v`` says of a file with ``skip-worktree``; a small letter is one
with ``assume-unchanged``."""

_CACHES = ":(top,exclude,glob)**/__pycache__/**"
_OWN_OUTPUT = ("run.out", "run.history", "gate.baseline", "gate.baseline_folder")


def invocation_of(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    command: Literal["run", "gate"],
    trusts_checkout: bool = True,
    redact: Callable[[str], str] = str,
) -> Invocation:
    """How a run with `settings` is started again in the folder of its config: every
    option whose value is not the config file's.

    Credentials are left out. A checkout that is not trusted is taken to be the commit
    and is not examined, because its Git configuration can name programs to run; files
    outside of it are copies that Ragstone made.
    """
    top, changed = settings.within, None
    if trusts_checkout:
        found = _git(settings.root, environ, "rev-parse", "--show-toplevel")
        top = Path(found) if found else None
        changed = None if top is None else _changed_files(settings, top, environ)
    return Invocation(
        command=command,
        folder=None if top is None else _relative(settings.root, top),
        config=None if settings.config is None else settings.config.name,
        options=_options(settings, command, redact, copies=not trusts_checkout),
        changed=changed,
        from_github=bool(environ.get("GITHUB_SHA")),
    )


def system_commit(root: Path, environ: Mapping[str, str]) -> str | None:
    """The evaluated commit: from the CI environment, else from git, else None."""
    commit = environ.get("GITHUB_SHA")
    return commit or _git(root, environ, "rev-parse", "HEAD") or None


def _options(
    settings: Settings, command: str, redact: Callable[[str], str], *, copies: bool
) -> dict[str, str | tuple[str, ...]]:
    """The options that differ from the config file, as text, with paths relative to its
    folder. Absolute paths may be `copies` of the job, and are left out then."""
    reference = settings.of_file or Settings(root=settings.root)
    options: dict[str, str | tuple[str, ...]] = {}
    for option in OPTIONS:
        value = _value(settings, option.key)
        is_other_commands = command == "run" and option.of_gate
        if option.secret or option.key in _NOT_REPRODUCED or is_other_commands:
            continue
        if value in (None, ()) or value == _value(reference, option.key):
            continue
        items = value if isinstance(value, tuple) else (value,)
        texts = [_text(option, item, settings.root) for item in items]
        if (
            copies
            and option.is_path
            and any(Path(text).is_absolute() for text in texts)
        ):
            continue
        shown = tuple(map(redact, texts))
        options[option.key] = shown if isinstance(value, tuple) else shown[0]
    return options


def _text(option: Option, value: object, root: Path) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    if option.name.endswith("entrypoint"):
        return shown_entrypoint(text)
    path = option.path_in(text)
    if option.key == "judge.name" and path is not None:
        return f"{option.path_after}:{_relative(Path(path), root)}"
    if option.key == "judge.ca_bundle" and not Path(text).is_absolute():
        return _relative(Path(text), root)
    return _without_credentials(text) if "://" in text else text


def _relative(path: Path, start: Path) -> str:
    """`path` as seen from `start`."""
    real = os.path.relpath(os.path.realpath(path), os.path.realpath(start))
    return Path(real).as_posix()


def _without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    )


def _value(settings: Settings, key: str) -> object:
    table, _, name = key.partition(".")
    value: object = getattr(getattr(settings, table), name)
    return value.get_secret_value() if isinstance(value, SecretStr) else value


# -- git
# ---------------------------------------------------------------------------------------------------------------


def _changed_files(
    settings: Settings, top: Path, environ: Mapping[str, str]
) -> int | None:
    """The number of tracked files that differ from the commit, without what Ragstone
    itself writes; None if git can't say."""
    excluded = [f":(exclude){path}" for path in _own_output(settings, top)]
    command = ("status", "--porcelain", "--untracked-files=no", "--", ":/", _CACHES)
    status = _git(settings.root, environ, *command, *excluded)
    listing = _git(top, environ, "ls-files", "-v", "-z")
    if status is None or listing is None:
        return None
    hidden = sum(_is_hidden(entry, top) for entry in filter(None, listing.split("\0")))
    return len(status.splitlines()) + hidden


def _own_output(settings: Settings, top: Path) -> Iterator[str]:
    for key in _OWN_OUTPUT:
        value = _value(settings, key)
        path = os.path.realpath(settings.path(str(value)))
        if value is not None and Path(path).is_relative_to(os.path.realpath(top)):
            yield path


def _is_hidden(entry: str, top: Path) -> bool:
    """Whether git was told not to look at this file: it may differ from the commit. A
    file that a sparse checkout leaves out does not."""
    tag, _, name = entry.partition(" ")
    is_hidden = tag.islower() or tag == _SKIPPED
    return is_hidden and os.path.lexists(top / name)


def _git(root: Path, environ: Mapping[str, str], *arguments: str) -> str | None:
    """What git says in `root`, None if it can't be asked or refuses."""
    try:
        return Git(root, environ, "run", timeout_s=10).text(*arguments)
    except (GitFailed, ConfigError, OSError):
        return None
