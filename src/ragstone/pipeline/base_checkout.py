"""The base commit, with whose system the current one is compared: its checkout, and the
settings of its system."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ragstone.errors import BaselineError, ConfigError, RagstoneError
from ragstone.evaluation.directory import FINGERPRINT_DIGITS
from ragstone.evaluation.rounds.base_commit import SHORT_COMMIT_LENGTH, BaseSystem
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.rounds_plan import BASE_OPTION, recorded_error
from ragstone.gate.accepted import ACCEPTED_FILE, read_accepted
from ragstone.gate.policy import Policy
from ragstone.pipeline.accept import policy_folder
from ragstone.pipeline.git import Git, GitFailed
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.settings.load import load_settings
from ragstone.settings.settings import Settings, SystemSettings
from ragstone.system.entrypoint import build_system, parse_entrypoint, shown_entrypoint
from ragstone.system.kind import has_folder

# -- the settings of the base's system

# The beginning of a submodule's line in the output of `git ls-tree`.
_SUBMODULE_MODE = "160000 "

_BASELINES = {
    "baseline": "a run directory",
    "baseline_commit": "a commit",
    "baseline_folder": "a folder",
}


def refuse_two_baselines(settings: Settings) -> None:
    """Raise ConfigError unless at most one of a run directory, a commit and a folder is
    the baseline."""
    keys = [key for key in _BASELINES if getattr(settings.gate, key) is not None]
    if len(keys) > 1:
        raise ConfigError(
            f"there are two baselines, {_BASELINES[keys[0]]} and {_BASELINES[keys[1]]}.",
            where=f"gate.{keys[1]}",
            hint='Use one of them. --baseline "" unsets the one in the config file.',
        )


def config_in(root: Path, settings: Settings) -> Path | None:
    """The config file that `settings` were read from by name, in the checkout of another
    commit at `root`; None if it is not there, or if no file was named."""
    if settings.config is None:
        return None
    file = root / settings.config.name
    return file if file.is_file() else None


def base_settings(
    settings: Settings,
    root: Path,
    *,
    current_checkout: Path,
    has_own_environment: bool = False,
) -> SystemSettings:
    """The settings of the base commit's system, whose checkout has its config in
    `root`.

    A flag, an input or a variable sets a value for both systems. The interpreter is the
    current system's, unless the base commit `has_own_environment`. Raises ConfigError
    and BaselineError.
    """
    config = config_in(root, settings)
    try:
        base = load_settings(directory=root, environ={}, config=config, within=root)
    except ConfigError as error:
        raise BaselineError(
            f"the base commit's config can't be read: {error.message}", hint=error.hint
        ) from None
    current = settings.system
    for_both = {
        field: getattr(current, field)
        for field in current.model_fields_set
        if f"system.{field}" not in settings.from_file
    }
    python = current.python
    if has_own_environment:
        python = for_both.get("python", base.system.python)
    elif python is not None and has_folder(python):
        python = str((settings.root / python).absolute())
    update: dict[str, object] = {**for_both, "python": python}
    if settings.gate.baseline_entrypoint is not None:
        update["entrypoint"] = settings.gate.baseline_entrypoint
    elif base.system.entrypoint is None and "entrypoint" not in for_both:
        update["entrypoint"] = current.entrypoint
    system = base.system.model_copy(update=update)
    entrypoint = parse_entrypoint(system.entrypoint)
    if not entrypoint.kind.can_be_asked_again:
        raise recorded_error(BASE_OPTION, "gate.baseline_commit", entrypoint.text)
    current_entrypoint = (current.entrypoint or "").strip()
    if entrypoint.kind.is_address and entrypoint.text == current_entrypoint:
        address = shown_entrypoint(entrypoint.text)
        raise ConfigError(
            f"the systems of the base commit and of the current one have the same address, {address}.",
            where="gate.baseline_entrypoint",
            hint="Start the base commit's service on another port, and name it in RAGSTONE_BASELINE_ENTRYPOINT.",
        )
    for path in entrypoint.kind.paths(entrypoint.target):
        if path.is_absolute() and path.is_relative_to(current_checkout):
            raise ConfigError(
                f"the entrypoint names {path}, which is in the current checkout, not in that of the base commit.",
                where="system.entrypoint",
                hint="Use a path relative to the folder of the config file.",
            )
    return system


def accepted_at(policy: Policy, settings: Settings, root: Path) -> tuple[str, ...]:
    """The ids of the accepted drops in the base commit, whose checkout has its config
    in `root`; none if they can't be read."""
    folder = policy_folder(policy, settings.root)
    file = root / os.path.relpath(folder, settings.root) / ACCEPTED_FILE
    try:
        return tuple(entry.id for entry in read_accepted(file, within=root))
    except RagstoneError:
        return ()


def commit_fingerprint(commit: str) -> str:
    """The fingerprint by which accepted drops know a commit."""
    return commit[:FINGERPRINT_DIGITS]


# -- a checkout of the base, with git


@contextmanager
def base_from_git(
    settings: Settings, context: RunContext, policy: Policy
) -> Iterator[BaseSystem]:
    """The system at `settings.gate.baseline_commit`, which stays checked out in a
    temporary git worktree for the block.

    Raises ConfigError, and BaselineError for a commit that can't be checked out.
    """
    git = Git(settings.root.absolute(), context.environ, "gate.baseline_commit")
    try:
        top_and_prefix = git.text("rev-parse", "--show-toplevel", "--show-prefix")
    except GitFailed as failed:
        raise ConfigError(
            f"{git.folder} is not in a git repository: {failed.line}",
            where=git.setting,
            hint="Run the gate in a git checkout, or compare with a run directory: --baseline RUN_DIR.",
        ) from None
    toplevel, _, prefix = top_and_prefix.partition("\n")
    top = Path(toplevel).resolve()
    commit = _commit(git, settings.gate.baseline_commit or "")
    with tempfile.TemporaryDirectory(prefix="ragstone-base-") as temporary:
        folder = Path(temporary).resolve() / "checkout"
        with _worktree(replace(git, folder=top), commit, folder):
            root = folder / prefix.strip()
            # The config file may be in a folder that the commit doesn't have.
            root.mkdir(parents=True, exist_ok=True)
            system = base_settings(settings, root, current_checkout=top)
            for secret in known_secrets(
                context.environ, settings.model_copy(update={"system": system})
            ):
                context.redact.add(secret)
            log = context.system_log
            if log is not None:
                log = log.with_name(f"base-{log.name}")
            ancestors = git.text_or(
                commit, "rev-list", "--first-parent", "--max-count=100", commit
            )
            notes: tuple[str, ...] = ()
            changed = git.text_or("", "status", "--porcelain", "--untracked-files=no")
            if not changed and git.text_or("", "rev-parse", "HEAD") == commit:
                notes = (
                    "The base commit is the current one, so any difference is noise.",
                )
            make = partial(
                build_system,
                system,
                root=root,
                environ=context.environ,
                log=log,
                within=None,
                forbidden_imports=top,
            )
            yield BaseSystem(
                commit,
                system,
                make,
                log=log,
                lineage=tuple(map(commit_fingerprint, ancestors.split())),
                spent=accepted_at(policy, settings, root),
                notes=notes,
            )


@contextmanager
def _worktree(git: Git, commit: str, folder: Path) -> Iterator[None]:
    """A worktree of `commit` in `folder`, for the block. Raises BaselineError, also for
    a submodule that the current checkout uses."""
    lines = _run(git, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
    for line in lines:
        path = line.partition("\t")[2]
        is_submodule = line.startswith(_SUBMODULE_MODE)
        if is_submodule and (git.folder / path / ".git").exists():
            raise BaselineError(
                f"commit {commit[:SHORT_COMMIT_LENGTH]} has the submodule {path}, which this checkout uses, but submodules "
                "of another commit are not checked out.",
                hint="Compare with a run directory: --baseline RUN_DIR.",
            )
    try:
        _run(git, "worktree", "add", "--detach", "--force", str(folder), commit)
        yield
    finally:
        # The folder is removed first. git can then refuse nothing, and only forgets the
        # worktree.
        shutil.rmtree(folder, ignore_errors=True)
        git.text_or("", "worktree", "remove", "--force", str(folder))


def _commit(git: Git, ref: str) -> str:
    """The commit that `ref` names. Raises BaselineError."""
    with suppress(GitFailed):
        return git.text(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
    raise BaselineError(
        f"git knows no commit '{ref}'.",
        where=git.setting,
        hint="Use a branch, a tag or a commit of this clone, such as origin/main. `git fetch` gets new ones; "
        "actions/checkout gets all with `fetch-depth: 0`.",
    )


def _run(git: Git, *arguments: str) -> str:
    """The output of a git command. Raises BaselineError if it fails."""
    try:
        return git.text(*arguments)
    except GitFailed as failed:
        raise BaselineError(
            f"`git {arguments[0]} {arguments[1]}` failed: {failed.line}",
            where=str(git.folder),
        ) from None
