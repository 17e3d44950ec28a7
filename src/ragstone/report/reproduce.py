"""Writes the shell commands that start a run again.

The manifest may be a stranger's, so its values are only ever quoted words of a command.
"""

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
    """Return comments and commands for a POSIX shell in the root of the repository; none
    if the run's command is not known.

    `baseline` is the manifest of the run that was compared with.
    """
    if manifest.invocation is None:
        return ()
    invocation = manifest.invocation
    used = manifest.used
    base_commit = None
    if baseline is not None and baseline.same_job:
        # The flags may name a branch, which may have moved since.
        base_commit = baseline.system.commit
    lines = list(_lines_to_files(invocation, manifest.system.commit, base_commit))
    baseline_flag = None
    if base_commit is not None:
        baseline_flag = f"--baseline-commit={base_commit}"
    elif used is not None and used.artifact and used.artifact_run_id is not None:
        baseline_flag = f"--baseline={BASELINE_FOLDER}"
        run_id = str(used.artifact_run_id)
        download = ["gh", "run", "download", run_id, "--name", used.artifact]
        lines.append(shell_command([*download, "--dir", BASELINE_FOLDER]))
    flags = list(invocation.flags)
    if invocation.config is not None:
        flags.insert(0, f"--config={invocation.config}")
    if baseline_flag is not None:
        flags = [flag for flag in flags if not flag.startswith("--baseline")]
        flags.append(baseline_flag)
    return (*lines, shell_command(["ragstone", invocation.command, *flags]))


def _lines_to_files(
    invocation: Invocation, commit: str | None, base_commit: str | None
) -> Iterator[str]:
    """Yield the lines that check out the files of the run, and go to their folder."""
    if invocation.folder is None:
        yield "# In the folder of the config file:"
        return
    yield "# In the root of the repository:"
    # A checkout of the commit would not have the changes of the run.
    if invocation.changed:
        files = counted(invocation.changed, "file")
        yield f"# The run had uncommitted changes in {files}, without which its result can differ."
    elif commit is not None:
        if invocation.from_github:
            commits = filter(None, (commit, base_commit))
            yield shell_command(["git", "fetch", "origin", *commits])
        yield shell_command(["git", "checkout", commit])
    if invocation.folder != ".":
        yield shell_command(["cd", invocation.folder])
