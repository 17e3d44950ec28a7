"""The shell lines that start a run again. Its manifest may come from elsewhere: only
values are taken from it."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone import formatting
from ragstone.evaluation.manifest import Invocation, Manifest
from ragstone.printable import shell_command, shell_word
from ragstone.settings.load import OPTIONS, Option, variable_of

BASELINE_FOLDER = "ragstone-baseline"
"""The folder that the baseline's artifact is downloaded to."""

_MASK = "***"


def reproduce_lines(
    manifest: Manifest | None, baseline: Manifest | None = None
) -> tuple[str, ...]:
    """Comments and commands, for a POSIX shell in the root of the repository; none if
    it is not known how.

    `baseline` names the commit that was asked in the same job: a branch in the options
    may have moved since. A run with uncommitted changes can't be reproduced from its
    commit, so that it is not checked out.
    """
    if manifest is None or manifest.invocation is None:
        return ()
    invocation = manifest.invocation
    base = (
        baseline.system.commit if baseline is not None and baseline.same_job else None
    )
    if base is not None:
        invocation = invocation.model_copy(
            update={"options": {**invocation.options, "gate.baseline_commit": base}}
        )
    lines = list(_comments(invocation, manifest.system.commit))
    commit = manifest.system.commit
    if commit and not invocation.changed and invocation.folder is not None:
        if invocation.from_github:
            lines.append(
                shell_command(
                    [
                        "git",
                        "fetch",
                        "origin",
                        commit,
                        *([base] if base is not None else []),
                    ]
                )
            )
        lines.append(shell_command(["git", "checkout", commit]))
    if invocation.folder not in (None, "."):
        lines.append(shell_command(["cd", invocation.folder]))
    scheme, _, test = manifest.system.entrypoint.partition(":")
    if scheme == "pytest":
        # Not FILE::NAME: a double colon is taken apart when it is shown, since it could
        # start a workflow command.
        file, *names = test.partition("[")[0].split("::")
        return (*lines, shell_command(["pytest", file, "-k", " and ".join(names)]))
    fetched, more = _fetched(manifest) if base is None else ((), ())
    return (*lines, *fetched, " ".join([*_words(invocation), *more]))


def _comments(invocation: Invocation, commit: str | None) -> Iterable[str]:
    if invocation.folder is None:
        yield "# In the folder that the run was started in:"
    else:
        yield "# In the root of the repository:"
    if invocation.changed:
        at = (
            f"commit {commit[:12]}"
            if commit is not None and commit.isalnum()
            else "its commit"
        )
        files = formatting.counted(invocation.changed, "file")
        yield f"# The run was made from {at} and uncommitted changes in {files}, without which its result can differ."
    if invocation.untracked:
        yield f"# The folder also contained {formatting.counted(invocation.untracked, 'untracked file')}."
    if invocation.secrets:
        secret_keys = {option.key for option in OPTIONS if option.secret}
        yield f"# Needs {' and '.join(variable_of(key) for key in invocation.secrets if key in secret_keys)}."
    if any(
        _MASK in value
        for values in invocation.options.values()
        for value in _many(values)
    ):
        yield f"# Replace {_MASK}, which stands for a secret."


def _fetched(manifest: Manifest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The command that downloads the baseline, if it was an artifact, and the options
    that name it."""
    used = manifest.baseline.used if manifest.baseline is not None else None
    if used is None or used.artifact is None or used.artifact_run_id is None:
        return (), ()
    words = [
        "gh",
        "run",
        "download",
        str(used.artifact_run_id),
        "--name",
        used.artifact,
        "--dir",
        BASELINE_FOLDER,
    ]
    return (shell_command(words),), ("--baseline", BASELINE_FOLDER)


def _words(invocation: Invocation) -> list[str]:
    """`ragstone` with its options, quoted for a shell; what has no flag is set in the
    environment."""
    variables: list[str] = []
    flags: list[str] = []
    for option in OPTIONS:
        if option.secret or (value := invocation.options.get(option.key)) is None:
            continue
        if option.flag is None or value == "false":
            variables.append(f"{option.env}={shell_word(','.join(_many(value)))}")
        else:
            flags += _flag(option, option.flag, value)
    config = (
        [] if invocation.config is None else _with_value("config", invocation.config)
    )
    return [*variables, "ragstone", invocation.command, *config, *flags]


def _flag(option: Option, flag: str, value: str | tuple[str, ...]) -> list[str]:
    if option.field.annotation is bool:
        return [f"--{flag}"]
    if option.is_path:  # a path can contain a comma
        return [word for path in _many(value) for word in _with_value(flag, path)]
    return _with_value(flag, ",".join(_many(value)))


def _with_value(flag: str, value: str) -> list[str]:
    quoted = shell_word(value)
    return [f"--{flag}={quoted}"] if value.startswith("-") else [f"--{flag}", quoted]


def _many(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
