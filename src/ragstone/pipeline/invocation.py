"""How a run was started, and from which files: what the report needs to say how to
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
"""The setting that is not reproduced: a run is reproduced from its start."""

_SKIPPED = "S"
"""What ``git ls-files -v`` says of a file with ``skip-worktree``; a small letter is one
with ``assume-unchanged``."""


def invocation_of(
    settings: Settings,
    context: RunContext,
    command: Literal["run", "gate"],
) -> Invocation:
    """How a run with `settings` is started again in the folder of its config: with the
    flags of those that the config file does not set so, with paths relative to that
    folder.

    A checkout that is not trusted is taken to be the commit and is not examined,
    because its Git configuration can name programs to run; files outside of it are
    copies that Ragstone made.
    """
    environ, root = context.environ, settings.root
    top, changed = settings.within, None
    if context.trusts_checkout:
        toplevel = _git(root, environ, "rev-parse", "--show-toplevel")
        if toplevel is not None:
            top = Path(toplevel)
            changed = _changed_files(top, environ)
    reference = settings.of_file or Settings(root=root)
    flags: list[str] = []
    for option in OPTIONS:
        value = _value(settings, option.key)
        is_needless = not value or value == _value(reference, option.key)
        is_other_commands = command == "run" and option.of_gate
        has_no_flag = option.flag is None or option.key == _RESUME
        if is_needless or is_other_commands or has_no_flag:
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
    """The evaluated commit: from the CI environment, else from git, else None."""
    return environ.get("GITHUB_SHA") or _git(root, environ, "rev-parse", "HEAD")


def _value(settings: Settings, key: str) -> object:
    table, _, name = key.partition(".")
    value: object = getattr(getattr(settings, table), name)
    return value


# -- git
# ---------------------------------------------------------------------------------------------------------------


def _changed_files(top: Path, environ: Mapping[str, str]) -> int | None:
    """The number of tracked files that differ from the commit; None if git can't
    say."""
    status = _git(top, environ, "status", "--porcelain", "--untracked-files=no")
    listing = _git(top, environ, "ls-files", "-v", "-z")
    if status is None or listing is None:
        return None
    changed = len(status.splitlines())
    for entry in filter(None, listing.split("\0")):
        # git may have been told not to look at a file, which may differ then. One that
        # a sparse checkout leaves out does not.
        tag, _, name = entry.partition(" ")
        if tag.islower() or tag == _SKIPPED:
            changed += os.path.lexists(top / name)
    return changed


def _git(root: Path, environ: Mapping[str, str], *arguments: str) -> str | None:
    """What git says in `root`, None if it can't be asked or refuses."""
    try:
        return Git(root, environ, "run", timeout_s=10).text(*arguments)
    except (GitFailed, ConfigError, OSError):
        return None
