"""The virtual environment of the user's system. It is made with uv, for the requested
Python version, apart from Ragstone's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from math import inf
from pathlib import Path
from threading import Thread
from time import monotonic
from types import MappingProxyType
from typing import IO

from msgspec import Struct

from ragstone.errors import ConfigError, SystemUnderTestError, TimeLimitReached
from ragstone.github.api.commands import Write
from ragstone.github.container.confinement import SAFE_PATH, Confinement
from ragstone.golden.sample import Texts
from ragstone.settings.settings import SystemSettings
from ragstone.settings.variables import Environ
from ragstone.system.child import MAX_LOG_BYTES, kill_group
from ragstone.system.entrypoint import build_system
from ragstone.system.environment import RunAs, child_environment
from ragstone.system.response import System

# The last lines of the output, which an error message shows.
_TAIL_LINES = 30
# The wait for the rest of the output once the program has ended.
_DRAIN_S = 1.0
_MAX_LINE_BYTES = 8192
_TRUNCATED = (
    f"[ragstone] this output exceeds {MAX_LOG_BYTES:,} bytes; the rest is left out\n"
)
_NETWORK_VARIABLES = frozenset(
    """
    http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    """.split()  # noqa: SIM905
)
# Variables that setup actions set on the host. Their paths don't exist in the
# container.
_HOST_ONLY_VARIABLES = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)


class Installed(Struct, frozen=True):
    """What is needed to start the processes of one version of the user's system: the
    current one, or that of the base commit."""

    settings: SystemSettings
    """The settings, with the interpreter to use."""
    environ: Environ
    """The whole environment. Processes get only the variables that are allowed."""
    run_as: RunAs | None = None
    extra_names: Texts = ()
    """Names of variables that are passed on besides those in the settings."""

    def build(
        self, settings: SystemSettings, *, root: Path, log: Path, **folders: Path | None
    ) -> System:
        """Build the system with `settings`, without starting it. `folders` are the
        arguments `within` and `forbidden_imports` of `build_system`."""
        names = (*settings.env, *self.extra_names)
        return build_system(
            settings.model_copy(update={"env": names}),
            root=root,
            environ=self.environ,
            log=log,
            run_as=self.run_as,
            **folders,
        )


def container_environ(environ: Environ, confinement: Confinement) -> Environ:
    """`environ` without the variables of the host, and with the PATH, HOME and TMPDIR
    of the container."""
    usable = {
        name: value
        for name, value in environ.items()
        if name not in _HOST_ONLY_VARIABLES
    }
    return {
        **usable,
        "PATH": SAFE_PATH,
        "HOME": str(confinement.run_as.home),
        "TMPDIR": str(confinement.folder / "tmp"),
    }


class SystemSetup(Struct, frozen=True):
    """What the user's system needs before it runs: a Python version, requirements
    files, a shell script."""

    script: str = ""
    requirements: Texts = ()
    python_version: str | None = None

    @property
    def needs_environment(self) -> bool:
        """Whether the system runs in an environment of its own."""
        return bool(self.script or self.requirements or self.python_version)

    def run(self, steps: Steps) -> Environ:
        """Make the environment, install `requirements` into it, and run `script` with
        it, as the user. Returns the variables with which programs use the
        environment.

        Raises ConfigError if a requirements file doesn't exist, SystemUnderTestError if
        a step fails or takes too long, and TimeLimitReached.
        """
        files = []
        for name in self.requirements:
            path = steps.directory / name
            if not path.is_file():
                raise ConfigError(
                    f"requirements file not found: {name}",
                    where="input 'requirements'",
                    hint="Write one path on each line, relative to the working directory.",
                )
            files += ["--requirement", str(path)]
        search_path = f"{Path(sys.executable).parent}:{SAFE_PATH}"
        # The image has it. Without it, the error of starting the step names it.
        uv = shutil.which("uv", path=search_path) or "uv"
        target = str(steps.confinement.folder / "env")
        python = self.python_version or base_python()
        steps.run(
            [uv, "venv", "--seed", "--python", python, target],
            f"creating an environment with {python}",
        )
        if files:
            install = [uv, "pip", "install", "--python", f"{target}/bin/python"]
            steps.run([*install, *files], "installing the requirements")
        variables = {"PATH": f"{target}/bin:{SAFE_PATH}", "VIRTUAL_ENV": target}
        if self.script:
            options = ["--noprofile", "--norc", "-eo", "pipefail", "-c", self.script]
            steps.run(["/bin/bash", *options], "the setup script", variables)
        return variables


class Steps(Struct, frozen=True):
    """Runs the programs that set up the user's system, as the user, and shows their
    output while they run."""

    confinement: Confinement
    environ: Environ
    directory: Path
    write: Write
    limit_s: float
    """How long each step may take."""
    deadline: float | None = None
    """When all steps together must be done, on the monotonic clock; None for no
    limit."""

    def run(
        self,
        argv: Sequence[str],
        step: str,
        extra_environ: Environ = MappingProxyType({}),
    ) -> None:
        """Run `argv`, and wait for this process only. What it leaves in the background,
        such as a server, goes on, and its output is dropped.

        `step` says in error messages what is done. Raises SystemUnderTestError if the
        step fails or takes too long, and TimeLimitReached if the deadline passes.
        """
        process = subprocess.Popen(  # noqa: S603 - what the user asked for, as the user
            list(argv),
            cwd=self.directory,
            env={**self.environ, **extra_environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self.confinement.run_as.popen_arguments(),  # type: ignore[call-overload]
        )
        output = _OutputReader(process.stdout, self.write)
        output.start()
        remaining_s = inf if self.deadline is None else self.deadline - monotonic()
        try:
            code = process.wait(max(0.0, min(self.limit_s, remaining_s)))
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            process.wait()
            output.end()
            if remaining_s < self.limit_s:
                raise TimeLimitReached(
                    f" during {step}", hint="Raise the limit, or shorten this step."
                ) from None
            raise SystemUnderTestError(
                f"{step} took longer than {self.limit_s:g} s:\n{output.tail()}",
                hint="If a script starts a server, start it in the background.",
            ) from None
        output.end()
        if code != 0:
            raise SystemUnderTestError(
                f"{step} failed with exit code {code}:\n{output.tail()}",
                hint="Repeat this step in a fresh checkout to see why.",
            )


class _OutputReader(Thread):
    """Shows the output of a program line by line, up to MAX_LOG_BYTES, and keeps its
    last lines."""

    def __init__(self, stream: IO[bytes], write: Write) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._write = write
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._is_listening = True

    def end(self) -> None:
        """Read what was printed so far. What is printed later is dropped."""
        self.join(_DRAIN_S)
        self._is_listening = False

    def tail(self) -> str:
        return "".join(self._tail).rstrip()

    def run(self) -> None:
        remaining_bytes = MAX_LOG_BYTES
        with self._stream:
            while raw := self._stream.readline(_MAX_LINE_BYTES):
                if not self._is_listening:
                    continue
                line = raw.decode("utf-8", "replace")
                self._tail.append(line)
                if remaining_bytes > 0:
                    remaining_bytes -= len(raw)
                    self._write(
                        line if remaining_bytes > 0 else f"{line}\n{_TRUNCATED}"
                    )


def install_environ(
    environ: Environ, confinement: Confinement, system_env: Sequence[str]
) -> Environ:
    """The variables for the steps of a setup: those that the system gets, and those for
    the network, without passwords."""
    allowed = child_environment(system_env, environ, confinement.run_as)
    network = {
        name: value
        for name, value in environ.items()
        if name in _NETWORK_VARIABLES and "@" not in value
    }
    return {
        **network,
        **allowed,
        "UV_CACHE_DIR": str(confinement.folder / "uv-cache"),
        "UV_PYTHON_INSTALL_DIR": str(confinement.folder / "python"),
        "UV_NO_PROGRESS": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def base_python() -> str:
    """The image's own Python, from which Ragstone's environment was made. None of
    Ragstone's packages is installed in it."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return base
