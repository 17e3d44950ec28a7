"""The shell lines that start a run again. Its manifest may come from elsewhere: nothing
of it is more than a word of a command."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.evaluation.manifest import Invocation, Manifest
from ragstone.formatting import counted
from ragstone.printable import shell_command

BASELINE_FOLDER = "ragstone-baseline"
"""The folder that the baseline's artifact is downloaded to."""


def reproduce_lines(
    manifest: Manifest, baseline: Manifest | None = None
) -> tuple[str, ...]:
    """Comments and commands, for a POSIX shell in the root of the repository; none if
    it is not known how.

    `baseline` names the commit that was asked in the same job: a branch in the flags
    may have moved since. A run with uncommitted changes can't be reproduced from its
    commit, so that it is not checked out.
    """
    if manifest.invocation is None:
        return ()
    invocation, used, base = manifest.invocation, manifest.used, None
    if baseline is not None and baseline.same_job:
        base = baseline.system.commit
    lines = list(_start(invocation, manifest.system.commit, base))
    compared = None
    if base is not None:
        compared = f"--baseline-commit={base}"
    elif used is not None and used.artifact and used.artifact_run_id is not None:
        compared = f"--baseline={BASELINE_FOLDER}"
        download = ["gh", "run", "download", str(used.artifact_run_id)]
        names = ["--name", used.artifact, "--dir", BASELINE_FOLDER]
        lines.append(shell_command([*download, *names]))
    flags = list(invocation.flags)
    if invocation.config is not None:
        flags.insert(0, f"--config={invocation.config}")
    if compared is not None:
        flags = [flag for flag in flags if not flag.startswith("--baseline")]
        flags.append(compared)
    return (*lines, shell_command(["ragstone", invocation.command, *flags]))


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
