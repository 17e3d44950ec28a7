"""The base commit of a project: its checkout, and the settings of its system."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ragstone.errors import BaselineError, ConfigError, RagstoneError
from ragstone.evaluation.directory import FINGERPRINT_DIGITS
from ragstone.evaluation.rounds.base_commit import SHORT, BaseSystem
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.session import BASE_OPTION, recorded_error
from ragstone.gate.accepted import ACCEPTED_FILE, read_accepted
from ragstone.gate.policy import Policy
from ragstone.pipeline.git import Git, GitFailed
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.settings.load import load_settings
from ragstone.settings.settings import Settings, SystemSettings
from ragstone.system.entrypoint import build_system, parse_entrypoint, shown_entrypoint
from ragstone.system.response import System

# -- the settings of the base's system
# ---------------------------------------------------------------------------------


def refuse_two_baselines(settings: Settings) -> None:
    """Raise ConfigError if both a run directory and a commit are the baseline."""
    if None not in (settings.gate.baseline, settings.gate.baseline_commit):
        raise ConfigError(
            "there are two baselines, a run directory and a commit.",
            where="gate.baseline_commit",
            hint='Use one of them: --baseline "" unsets that of the file.',
        )


def base_settings(
    settings: Settings, root: Path, *, above: Path, own_environment: bool = False
) -> SystemSettings:
    """[system] as of the base commit, whose checkout has its config in `root`; `above`
    is the current checkout.

    What a flag, an input or the environment sets, it sets for both. The interpreter is
    that of the current system unless the base has its `own_environment`. Raises
    ConfigError, BaselineError.
    """
    name = settings.config.name if settings.config is not None else None
    config = root / name if name is not None and (root / name).is_file() else None
    try:
        then = load_settings(
            directory=root, environ={}, config=config, within=root
        ).system
    except ConfigError as error:
        raise BaselineError(
            f"the base commit's config can't be read: {error.message}", hint=error.hint
        ) from None
    now, gate = settings.system, settings.gate
    for_both = {
        field: getattr(now, field)
        for field in now.model_fields_set
        if f"system.{field}" not in settings.from_file
    }
    update: dict[str, object] = {**for_both, "python": _python(settings)}
    if own_environment:
        update["python"] = for_both.get("python", then.python)
    if gate.baseline_entrypoint is not None:
        update["entrypoint"] = gate.baseline_entrypoint
    elif then.entrypoint is None and "entrypoint" not in for_both:
        update["entrypoint"] = now.entrypoint
    system = then.model_copy(update=update)
    _check_entrypoint(system.entrypoint or "", now.entrypoint or "", above)
    return system


def _python(settings: Settings) -> str | None:
    """The interpreter, by a path that is valid in any folder."""
    python = settings.system.python
    if python is None or Path(python).name == python:
        return python  # a command on PATH
    return str((settings.root / python).absolute())


def _check_entrypoint(text: str, current: str, above: Path) -> None:
    if not text.strip():
        return
    entrypoint = parse_entrypoint(text)
    if not entrypoint.can_be_asked_again:
        raise recorded_error(BASE_OPTION, "gate.baseline_commit", entrypoint.text)
    if entrypoint.kind.is_address and entrypoint.text == current.strip():
        raise ConfigError(
            f"the base commit's system would have the same address as the current one, {shown_entrypoint(text)}.",
            where="gate.baseline_entrypoint",
            hint="Start the base commit's service on another port, and name it in RAGSTONE_BASELINE_ENTRYPOINT.",
        )
    for path in entrypoint.kind.paths(entrypoint.target):
        if path.is_absolute() and path.is_relative_to(above):
            raise ConfigError(
                f"the entrypoint names {path}, which is in the current checkout and not in the base commit's.",
                where="system.entrypoint",
                hint="Use a path relative to the folder of the config file.",
            )


def accepted_at(policy: Policy, settings: Settings, root: Path) -> tuple[str, ...]:
    """The ids of the accepted drops in the base commit, whose checkout has the config
    in `root`."""
    folder = settings.root if policy.file is None else Path(policy.file).parent
    inside = os.path.relpath(folder, settings.root)
    try:
        return tuple(
            entry.id
            for entry in read_accepted(root / inside / ACCEPTED_FILE, within=root)
        )
    except RagstoneError:
        return ()


def commit_fingerprint(commit: str) -> str:
    """The fingerprint by which accepted drops know a commit."""
    return commit[:FINGERPRINT_DIGITS]


# -- a checkout of the base, with git
# ----------------------------------------------------------------------------------


@contextmanager
def base_from_git(
    settings: Settings, context: RunContext, policy: Policy
) -> Iterator[BaseSystem]:
    """The system at `settings.gate.baseline_commit`, checked out in a temporary git
    worktree for the block.

    Raises ConfigError, BaselineError for a commit that can't be checked out.
    """
    git = Git(settings.root.absolute(), context.environ, "gate.baseline_commit")
    top, prefix = _place(git)
    commit = _commit(git, settings.gate.baseline_commit or "")
    with tempfile.TemporaryDirectory(prefix="ragstone-base-") as temporary:
        folder = Path(temporary).resolve() / "checkout"
        with _worktree(git, top, commit, folder):
            root = folder / prefix
            # The config file may be in a folder that the commit doesn't have.
            root.mkdir(parents=True, exist_ok=True)
            system = base_settings(settings, root, above=top)
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
            environ = _moved(context.environ, top, folder)

            def make() -> System:
                return build_system(
                    system,
                    root=root,
                    environ=environ,
                    log=log,
                    within=None,
                    not_from=top,
                )

            yield BaseSystem(
                commit,
                system,
                make,
                log=log,
                lineage=tuple(
                    commit_fingerprint(ancestor) for ancestor in ancestors.split()
                ),
                spent=accepted_at(policy, settings, root),
                notes=_notes(git, commit),
            )


def _moved(environ: Mapping[str, str], top: Path, folder: Path) -> dict[str, str]:
    """`environ` with the folders of PYTHONPATH that are in the current checkout moved
    to the base's."""
    base_environ = dict(environ)
    if environ.get("PYTHONPATH"):
        entries = (Path(entry) for entry in environ["PYTHONPATH"].split(os.pathsep))
        moved = (
            folder / entry.relative_to(top) if entry.is_relative_to(top) else entry
            for entry in entries
        )
        base_environ["PYTHONPATH"] = os.pathsep.join(map(str, moved))
    return base_environ


@contextmanager
def _worktree(git: Git, repository: Path, commit: str, folder: Path) -> Iterator[None]:
    """A worktree of `commit` in `folder`. Raises BaselineError, also for a submodule
    that is in use."""
    git = replace(git, folder=repository)
    for path in _submodules(git, commit):
        if (repository / path / ".git").exists():
            raise BaselineError(
                f"commit {commit[:SHORT]} has a submodule that this checkout uses ({path}), and it is not checked out.",
                hint="Compare with a run directory: --baseline RUN_DIR.",
            )
    try:
        _run(git, "worktree", "add", "--detach", "--force", str(folder), commit)
        yield
    finally:
        # The folder first: then git has nothing to refuse, and only forgets the
        # worktree.
        shutil.rmtree(folder, ignore_errors=True)
        git.text_or("", "worktree", "remove", "--force", str(folder))


def _place(git: Git) -> tuple[Path, str]:
    """The root of the repository, and the path from there to the folder. Raises
    ConfigError."""
    try:
        top, _, prefix = git.text(
            "rev-parse", "--show-toplevel", "--show-prefix"
        ).partition("\n")
    except GitFailed as failed:
        raise ConfigError(
            f"{git.folder} is not in a git repository: {failed.line}",
            where=git.setting,
            hint="Run the gate in a git checkout, or compare with a run directory: --baseline RUN_DIR.",
        ) from None
    return Path(top).resolve(), prefix.strip()


def _commit(git: Git, ref: str) -> str:
    """The commit that `ref` names. Raises BaselineError."""
    try:
        return git.text(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
    except GitFailed:
        shallow = git.is_shallow()
    name = ref.removeprefix("origin/") or "main"
    raise BaselineError(
        f"git knows no commit '{ref}'"
        + (", and this is a shallow clone." if shallow else "."),
        where=git.setting,
        hint=f"Run `git fetch --depth=1 origin {shlex.quote(name)}` and use FETCH_HEAD, or add `fetch-depth: 0` "
        "under `with:` of actions/checkout."
        if shallow
        else "Use a branch, a tag or a commit of this clone, such as origin/main; `git fetch` gets new ones.",
    )


def _submodules(git: Git, commit: str) -> list[str]:
    listed = _run(git, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
    return [line.partition("\t")[2] for line in listed if line.startswith("160000 ")]


def _notes(git: Git, commit: str) -> tuple[str, ...]:
    """What a reader should know of the current checkout."""
    if git.text_or("", "status", "--porcelain", "--untracked-files=no"):
        return ("This run includes changes that are not committed.",)
    if git.text_or("", "rev-parse", "HEAD") == commit:
        return ("The base commit is the current one, so any difference is noise.",)
    return ()


def _run(git: Git, *arguments: str) -> str:
    """What git prints. Raises BaselineError."""
    try:
        return git.text(*arguments)
    except GitFailed as failed:
        raise BaselineError(
            f"`git {arguments[0]} {arguments[1]}` failed: {failed.line}",
            where=str(git.folder),
        ) from None
