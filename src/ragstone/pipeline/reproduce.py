"""The shell lines that start a run again. Its manifest may come from elsewhere: only
values are taken from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragstone.evaluation.manifest import Invocation, Manifest
from ragstone.formatting import counted
from ragstone.printable import shell_command, shell_word
from ragstone.settings.load import OPTIONS

BASELINE_FOLDER = "ragstone-baseline"
"""The folder that the baseline's artifact is downloaded to."""


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
    invocation, base = manifest.invocation, None
    if baseline is not None and baseline.same_job:
        base = baseline.system.commit
    options = dict(invocation.options)
    lines = []
    if base is not None:
        options["gate.baseline_commit"] = base
    else:
        used = manifest.baseline.used if manifest.baseline is not None else None
        if used is not None and used.artifact and used.artifact_run_id is not None:
            options["gate.baseline"] = BASELINE_FOLDER
            download = ["gh", "run", "download", str(used.artifact_run_id)]
            names = ["--name", used.artifact, "--dir", BASELINE_FOLDER]
            lines.append(shell_command([*download, *names]))
    start = _start(invocation, manifest.system.commit, base)
    return (*start, *lines, _command(invocation, options))


def _start(
    invocation: Invocation, commit: str | None, base: str | None
) -> Iterator[str]:
    """The lines that bring a shell to the files of the run."""
    if invocation.folder is None:
        yield "# In the folder of the config file:"
        return
    yield "# In the root of the repository:"
    if invocation.changed:
        files = counted(invocation.changed, "file")
        yield f"# The run had uncommitted changes in {files}, without which its result can differ."
    elif commit is not None:
        if invocation.from_github:
            commits = filter(None, (commit, base))
            yield shell_command(["git", "fetch", "origin", *commits])
        yield shell_command(["git", "checkout", commit])
    if invocation.folder != ".":
        yield shell_command(["cd", invocation.folder])


def _command(
    invocation: Invocation, options: Mapping[str, str | tuple[str, ...]]
) -> str:
    """`ragstone` with its `options`, quoted for a shell; what has no flag is set in the
    environment."""
    variables: list[str] = []
    flags: list[tuple[str, str]] = []
    words = ["ragstone", invocation.command]
    if invocation.config is not None:
        flags.append(("config", invocation.config))
    for option in OPTIONS:
        value = options.get(option.key)
        if value is None or option.secret:
            continue
        values = (value,) if isinstance(value, str) else value
        joined = ",".join(values)
        if option.flag is None or value == "false":
            variables.append(f"{option.env}={shell_word(joined)}")
        elif option.is_path:  # a path can contain a comma
            flags += [(option.flag, path) for path in values]
        elif option.field.annotation is bool:
            words.append(f"--{option.flag}")
        else:
            flags.append((option.flag, joined))
    for flag, value in flags:
        sign = "=" if value.startswith("-") else " "
        words.append(f"--{flag}{sign}{shell_word(value)}")
    return " ".join([*variables, *words])
