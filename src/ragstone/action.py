"""The entrypoint of the action's container: inputs in, exit code out."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import TextIO

from ragstone.errors import ENDING_SIGNALS, ConfigError, Interrupted
from ragstone.github.api.commands import mask
from ragstone.github.container.confinement import (
    confine,
    confine_base,
    wipe_environment,
)
from ragstone.github.container.container import Container
from ragstone.github.container.runner_folders import RunnerFolders
from ragstone.github.container.user_environment import SystemSetup
from ragstone.github.inputs import ActionInputs, read_inputs
from ragstone.github.run_job import end_job, run_on_github, workspace_of
from ragstone.settings.load import load_settings
from ragstone.settings.settings import Settings
from ragstone.settings.variables import SECRET_NAME

_JOB_PREFIXES = ("INPUT_", "ACTIONS_", "RAGSTONE_")
"""Variables of the action, of the runner and of Ragstone, which may hold secrets."""


def main() -> None:
    """Run the job that the environment describes, and exit with its code."""
    environ = dict(os.environ)
    wipe_environment(filter(_may_be_secret, environ))
    # The user's code may write to HOME (/github/home) and to a TMPDIR of the workflow.
    # Ragstone's own files go elsewhere.
    os.environ["HOME"] = pwd.getpwuid(os.geteuid()).pw_dir
    for name in ("TMPDIR", "TEMP", "TMP", "NETRC"):
        os.environ.pop(name, None)
    sys.exit(run(environ, sys.stdout))


def _may_be_secret(name: str) -> bool:
    """Whether the variable `name` may hold a secret."""
    is_of_job = name.upper().startswith(_JOB_PREFIXES)
    return is_of_job or SECRET_NAME.search(name) is not None


def run(environ: Mapping[str, str], out: TextIO) -> int:
    """Run one job, and return its exit code. Raises only SystemExit, for signals."""
    _exit_on_signals()
    return end_job(lambda: _run_job(environ, out), environ, out)


def _run_job(environ: Mapping[str, str], out: TextIO) -> int:
    workspace = workspace_of(environ)
    inputs = read_inputs(environ)
    mask(inputs.github_token.get_secret_value(), out)
    settings = action_settings(inputs, environ, workspace)
    with tempfile.TemporaryDirectory(prefix="ragstone-private-") as private:
        container = _open_container(inputs, environ, workspace, Path(private))
        with nullcontext() if container is None else container.guarding():
            job = run_on_github(
                settings, environ=environ, out=out, inputs=inputs, container=container
            )
            return asyncio.run(job)


def action_settings(
    inputs: ActionInputs, environ: Mapping[str, str], workspace: Path
) -> Settings:
    """The settings of the action: config file, environment, inputs. Paths start from
    `working-directory`.

    Raises ConfigError if that folder, or the config file, is outside the workspace.
    """
    directory = _inside(workspace, inputs.working_directory, "working-directory")
    if not directory.is_dir():
        raise ConfigError(
            f"there is no folder '{inputs.working_directory}'.",
            where="input 'working-directory'",
        )
    config = None
    if inputs.config is not None:
        config = _inside(workspace, str(directory / inputs.config), "config")
    overrides = dict(inputs.overrides)
    if inputs.baseline not in ("artifact", "commit", "none"):
        overrides["gate.baseline"] = inputs.baseline
    # Root can read files that the author of a pull request can't, and an error would
    # show them. So files that the checkout names must be in the workspace.
    return load_settings(
        directory=directory,
        environ=environ,
        overrides=overrides,
        config=config,
        within=workspace,
    )


def _inside(workspace: Path, path: str, name: str) -> Path:
    """The path in the input `name`, in the workspace. Raises ConfigError if it leads
    out."""
    resolved = (workspace / path).resolve()
    if not resolved.is_relative_to(workspace.resolve()):
        raise ConfigError(
            f"'{path}' is outside the workspace.", where=f"input '{name}'"
        )
    return resolved


def _open_container(
    inputs: ActionInputs, environ: Mapping[str, str], workspace: Path, private: Path
) -> Container | None:
    """The container in which the user's code runs as another user; None without root,
    as on a self-hosted runner that maps users. Raises ConfigError if an input needs
    it."""
    temporary = Path(environ.get("RUNNER_TEMP") or tempfile.gettempdir())
    if not temporary.is_dir():
        temporary = Path(tempfile.gettempdir())
    confinement = confine(workspace, temporary)
    if confinement is None:
        if inputs.setup or inputs.requirements:
            raise ConfigError(
                "`setup` and `requirements` need a container that starts as root, to run as another user.",
                hint="Let the container start as root, or use `ragstone gate --github` in a plain `run:` step.",
            )
        return None
    directory = (workspace / inputs.working_directory).resolve()
    setup = SystemSetup(inputs.setup, inputs.requirements, inputs.python_version)
    base = confine_base(confinement) if inputs.baseline == "commit" else None
    folders = RunnerFolders(environ, workspace)
    return Container(confinement, private, workspace, directory, setup, folders, base)


def _exit_on_signals() -> None:
    """Exit on the signals that cancel a job. Process 1 in a container ignores them by
    default, and would have to be killed."""

    def exit_for(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(Interrupted(number).exit_code)

    for number in (signal.SIGINT, *ENDING_SIGNALS):
        signal.signal(number, exit_for)


if __name__ == "__main__":
    main()
