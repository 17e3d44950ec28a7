"""Records how a run was started, and from which files, so that a report can say how to
reproduce it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ragstone.errors import ConfigError
from ragstone.evaluation.manifest import Invocation
from ragstone.evaluation.rounds.context import RunContext
from ragstone.pipeline.git import Git, GitFailed
from ragstone.settings.load import OPTIONS
from ragstone.settings.settings import Settings
from ragstone.system.entrypoint import shown_entrypoint

_RESUME = "run.resume"
"""The setting that is left out, because a run is reproduced from its start."""

_SKIP_WORKTREE = "S"
"""How ``git ls-files -v`` marks a file with ``skip-worktree``. One with
``assume-unchanged`` is marked by a small letter."""

_GIT_TIMEOUT_S = 10


def invocation_of(
    settings: Settings,
    context: RunContext,
    command: Literal["run", "gate"],
) -> Invocation:
    """How to start a run with `settings` again in the folder of its config file: with a
    flag for each setting that differs from the file. Paths are relative to that folder.

    git is not asked about a checkout that is not trusted, because its configuration can
    name programs to run. Such a checkout is assumed to have no changes, and absolute
    paths are left out: they name copies that Ragstone made.
    """
    environ, root = context.environ, settings.root
    top, changed = settings.within, None
    if context.trusts_checkout:
        toplevel = _git(root, environ, "rev-parse", "--show-toplevel")
        if toplevel is not None:
            top = Path(toplevel)
            changed = _changed_files(top, environ)
    reference = settings.file_settings or Settings(root=root)
    flags: list[str] = []
    for option in OPTIONS:
        value = _value(settings, option.key)
        is_in_file = not value or value == _value(reference, option.key)
        is_for_gate_only = command == "run" and option.of_gate
        has_no_flag = option.flag is None or option.key == _RESUME
        if is_in_file or is_for_gate_only or has_no_flag:
            continue
        match value:
            case True:
                flags.append(f"--{option.flag}")
                continue
            case tuple():
                texts = list(map(str, value))
            case _:
                texts = [str(value)]
        if option.key == "system.entrypoint":
            texts = [shown_entrypoint(texts[0])]
        if not option.is_path:
            texts = [",".join(texts)]
        elif not context.trusts_checkout and any(map(os.path.isabs, texts)):
            continue
        flags += [context.redact(f"--{option.flag}={text}") for text in texts]
    folder = None
    if top is not None:
        real_root = os.path.realpath(root)
        real_top = os.path.realpath(top)
        folder = Path(os.path.relpath(real_root, real_top)).as_posix()
    return Invocation(
        command=command,
        folder=folder,
        config=None if settings.config is None else settings.config.name,
        flags=tuple(flags),
        changed=changed,
        from_github=bool(environ.get("GITHUB_SHA")),
    )


def system_commit(root: Path, environ: Mapping[str, str]) -> str | None:
    """The evaluated commit, from the variable of GitHub or from git; None if neither
    knows it."""
    return environ.get("GITHUB_SHA") or _git(root, environ, "rev-parse", "HEAD")


def _value(settings: Settings, key: str) -> object:
    """The value of a setting, such as ``judge.name``."""
    table, _, name = key.partition(".")
    value: object = getattr(getattr(settings, table), name)
    return value


# -- git


def _changed_files(top: Path, environ: Mapping[str, str]) -> int | None:
    """The number of tracked files that differ from the commit; None if git can't tell."""
    status = _git(top, environ, "status", "--porcelain", "--untracked-files=no")
    listing = _git(top, environ, "ls-files", "-v", "-z")
    if status is None or listing is None:
        return None
    changed = len(status.splitlines())
    for entry in filter(None, listing.split("\0")):
        # git doesn't look at these files, so they may differ, unless a sparse checkout
        # left them out.
        tag, _, name = entry.partition(" ")
        if tag.islower() or tag == _SKIP_WORKTREE:
            changed += os.path.lexists(top / name)
    return changed


def _git(root: Path, environ: Mapping[str, str], *arguments: str) -> str | None:
    """The output of a git command in `root`; None if it fails."""
    try:
        return Git(root, environ, "run", timeout_s=_GIT_TIMEOUT_S).text(*arguments)
    except (GitFailed, ConfigError, OSError):
        return None
