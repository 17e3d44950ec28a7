"""Entry point of the action: inputs in, exit code out. Runs as the container's
entrypoint."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import TextIO

from ragstone.errors import ENDING_SIGNALS, ConfigError
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

_SECRET = re.compile(
    r"^(INPUT_|ACTIONS_|RAGSTONE_)|KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE
)


def main() -> None:
    environ = dict(os.environ)
    wipe_environment(name for name in environ if _SECRET.search(name))
    # HOME (/github/home) and a TMPDIR set by the workflow may belong to the user's
    # code: our own files go elsewhere.
    os.environ["HOME"] = pwd.getpwuid(os.geteuid()).pw_dir
    for name in ("TMPDIR", "TEMP", "TMP", "NETRC"):
        os.environ.pop(name, None)
    sys.exit(run(environ, sys.stdout))


def run(environ: Mapping[str, str], out: TextIO) -> int:
    """One job: read the inputs, handle the event, and return the exit code. Raises only
    for signals."""
    _end_on_signals()
    return end_job(lambda: _run(environ, out), environ, out)


def _run(environ: Mapping[str, str], out: TextIO) -> int:
    workspace = workspace_of(environ)
    inputs = read_inputs(environ)
    mask(inputs.github_token.get_secret_value(), out)
    settings = action_settings(inputs, environ, workspace)
    with tempfile.TemporaryDirectory(prefix="ragstone-private-") as private:
        container = _container(inputs, environ, workspace, Path(private))
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
            f"no such folder: {inputs.working_directory}",
            where="input 'working-directory'",
        )
    config = None
    if inputs.config is not None:
        config = _inside(workspace, str(directory / inputs.config), "config")
    overrides = dict(inputs.overrides)
    if inputs.baseline not in ("artifact", "commit", "none"):
        overrides["gate.baseline"] = inputs.baseline
    # As root we could read files that the author of a pull request can't, and an error
    # would show them: files named in the checkout are read from the workspace only.
    return load_settings(
        directory=directory,
        environ=environ,
        overrides=overrides,
        config=config,
        within=workspace,
    )


def _inside(workspace: Path, path: str, name: str) -> Path:
    resolved = (workspace / path).resolve()
    if not resolved.is_relative_to(workspace.resolve()):
        raise ConfigError(
            f"'{path}' is outside the workspace.", where=f"input '{name}'"
        )
    return resolved


def _container(
    inputs: ActionInputs, environ: Mapping[str, str], workspace: Path, private: Path
) -> Container | None:
    """None if we are not root, as on a self-hosted runner that maps users."""
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


def _end_on_signals() -> None:
    """Process 1 in a container has no default handlers: without these, a cancelled job
    would wait to be killed."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, *ENDING_SIGNALS):
        signal.signal(number, end)


if __name__ == "__main__":
    main()
