"""How a run was started, and from which files: what the report needs to say how to
reproduce it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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
_HASHED_AT_ONCE = 200

_OWN_OUTPUT = ("run.out", "run.history", "gate.baseline", "gate.baseline_folder")


def invocation_of(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    command: Literal["run", "gate"],
    trusts_checkout: bool = True,
    redact: Callable[[str], str] = str,
) -> Invocation:
    """How a run with `settings` is started again: every option whose value is not the
    config file's.

    Credentials are left out. A checkout that is not trusted is taken to be the commit
    and is not examined, because its Git configuration can name programs to run; files
    outside of it are copies that Ragstone made.
    """
    top = _top(settings, environ) if trusts_checkout else settings.within
    start = Path()
    if top is not None:
        start = top if settings.file is not None else settings.root
    changed, untracked = None, None
    if trusts_checkout and top is not None:
        changed, untracked = _uncommitted(settings, environ)
    shared = None if trusts_checkout else settings.within
    return Invocation(
        command=command,
        folder=None if top is None else _relative(start, top),
        config=_config(settings, start),
        options=_options(settings, start, command, shared, redact),
        secrets=tuple(
            option.key
            for option in OPTIONS
            if option.secret and _value(settings, option.key) is not None
        ),
        changed=changed,
        untracked=untracked,
        from_github=bool(environ.get("GITHUB_SHA")),
    )


def system_commit(root: Path, environ: Mapping[str, str]) -> str | None:
    """The evaluated commit: from the CI environment, else from git, else None."""
    if commit := environ.get("GITHUB_SHA"):
        return commit
    return _git(root, environ, "rev-parse", "HEAD") or None


def _config(settings: Settings, start: Path) -> str | None:
    if settings.file is None or (
        settings.config is None and _same(settings.root, start)
    ):
        return None
    return _relative(settings.file, start)


def _options(
    settings: Settings,
    start: Path,
    command: str,
    shared: Path | None,
    redact: Callable[[str], str],
) -> dict[str, str | tuple[str, ...]]:
    """The options that differ from the config file, as text. Paths are relative to
    `start`; with `shared`, those outside of it are left out."""
    reference = settings.of_file or Settings(root=settings.root)
    options: dict[str, str | tuple[str, ...]] = {}
    for option in OPTIONS:
        value = _value(settings, option.key)
        is_skipped = (
            option.secret
            or option.key in _NOT_REPRODUCED
            or (command == "run" and option.of_gate)
        )
        if is_skipped or value in (None, ()) or value == _value(reference, option.key):
            continue
        items = value if isinstance(value, tuple) else (value,)
        texts = [_text(option, item, settings.root, start) for item in items]
        if (
            shared is not None
            and option.is_path
            and any(_is_outside(start / text, shared) for text in texts)
        ):
            continue
        texts = [redact(text) for text in texts]
        options[option.key] = tuple(texts) if isinstance(value, tuple) else texts[0]
    return options


def _text(option: Option, value: object, root: Path, start: Path) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    if (path := option.path_in(text)) is not None:
        base = Path() if option.table == "judge" else root
        return f"{text.strip().partition(':')[0]}:{_path(Path(path), base, start)}"
    if option.name.endswith("entrypoint"):
        return shown_entrypoint(text)
    if (
        option.name.endswith("python")
        and "/" not in text
        and not (root / text).exists()
    ):
        return text  # a command on PATH
    if option.key == "judge.ca_bundle":
        return _path(Path(text), Path(), start)
    if option.is_path:
        return _path(Path(text), root, start)
    return _without_credentials(text) if "://" in text else text


def _path(path: Path, base: Path, start: Path) -> str:
    """`path`, which is relative to `base`, as given in `start`. A bare name means a
    file next to the config file."""
    if path.is_absolute() and _is_outside(path, start):
        return str(path)
    relative = _relative(base / path, start)
    return relative if "/" in relative or _same(base, start) else f"./{relative}"


def _relative(path: Path, start: Path) -> str:
    """`path` as seen from `start`. The last part of a path can be a link, and stays
    one."""
    real = (
        Path(os.path.realpath(path.parent)) / path.name
        if path.name not in ("", "..")
        else path.resolve()
    )
    return Path(os.path.relpath(real, os.path.realpath(start))).as_posix()


def _same(first: Path, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _is_outside(path: Path, folder: Path) -> bool:
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


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


def _top(settings: Settings, environ: Mapping[str, str]) -> Path | None:
    folder = _git(settings.root, environ, "rev-parse", "--show-toplevel")
    return Path(folder) if folder else None


def _uncommitted(
    settings: Settings, environ: Mapping[str, str]
) -> tuple[int | None, int | None]:
    """The number of changed and of untracked files, without caches and what Ragstone
    itself reads and writes."""
    top = _top(settings, environ)
    if top is None:
        return None, None
    values = [_value(settings, key) for key in _OWN_OUTPUT]
    own = [
        os.path.realpath(settings.path(str(value)))
        for value in values
        if value is not None
    ]
    excluded = [f":(exclude){path}" for path in own if not _is_outside(Path(path), top)]
    caches = ":(top,exclude,glob)**/__pycache__/**"
    status = _git(
        settings.root, environ, "status", "--porcelain", "--", ":/", caches, *excluded
    )
    hidden = _hidden_changes(top, environ)
    if status is None or hidden is None:
        return None, None
    untracked = sum(line.startswith("??") for line in status.splitlines())
    return len(status.splitlines()) - untracked + hidden, untracked


def _hidden_changes(top: Path, environ: Mapping[str, str]) -> int | None:
    """How many files differ from the index that git was told not to look at
    (``assume-unchanged``, ``skip-worktree``).

    A file that a sparse checkout leaves out does not. None if git can't say.
    """
    listing = _git(top, environ, "ls-files", "-v", "--stage", "-z")
    if listing is None:
        return None
    expected: dict[str, str] = {}
    for entry in filter(None, listing.split("\0")):
        facts, _, name = entry.partition("\t")
        tag, _, sha, _ = facts.split(" ")
        is_left_out = tag.upper() == _SKIPPED and not os.path.lexists(top / name)
        if (tag.islower() or tag == _SKIPPED) and not is_left_out:
            expected[name] = sha
    names = [name for name in expected if (top / name).is_file()]
    hashes: list[str] = []
    for start in range(0, len(names), _HASHED_AT_ONCE):
        printed = _git(
            top, environ, "hash-object", "--", *names[start : start + _HASHED_AT_ONCE]
        )
        if printed is None:
            return None
        hashes += printed.split()
    same = sum(expected[name] == sha for name, sha in zip(names, hashes, strict=True))
    return len(expected) - same


def _git(root: Path, environ: Mapping[str, str], *arguments: str) -> str | None:
    """What git says in `root`, None if it can't be asked or refuses."""
    try:
        return Git(root, environ, "run", timeout_s=10).text(*arguments)
    except (GitFailed, ConfigError, OSError):
        return None
