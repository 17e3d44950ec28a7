"""The environment of the user's own system: made with uv for the Python asked for,
never Ragstone's."""

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

_TAIL_LINES = 30
_DRAIN_S = 1.0
_MAX_LINE_BYTES = 8192
_LEFT_OUT = (
    f"[ragstone] this is more than {MAX_LOG_BYTES:,} bytes; the rest is left out\n"
)
_NETWORK = frozenset(
    """
    http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    """.split()  # noqa: SIM905
)
_WRONG_INSIDE = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)
"""What setup actions leave behind on the host points at paths that are not in the
container."""


class Installed(Struct, frozen=True):
    """A version of the user's system, with which its processes are started."""

    settings: SystemSettings
    """With the interpreter."""
    environ: Environ
    """Its children get an allow-list of it."""
    run_as: RunAs | None = None
    added_names: Texts = ()
    """Variables that are passed on besides those in the settings."""

    def build(
        self, settings: SystemSettings, *, root: Path, log: Path, **places: Path | None
    ) -> System:
        """The system with `settings`, not yet started: see `build_system`."""
        names = (*settings.env, *self.added_names)
        return build_system(
            settings.model_copy(update={"env": names}),
            root=root,
            environ=self.environ,
            log=log,
            run_as=self.run_as,
            **places,
        )


def container_environ(environ: Environ, confinement: Confinement) -> Environ:
    """`environ` with what is wrong inside of the container set right. Children get an
    allow-list of it."""
    right_inside = {
        name: value for name, value in environ.items() if name not in _WRONG_INSIDE
    }
    return {
        **right_inside,
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
        it, as the user. Returns the variables to use it with.

        Raises ConfigError for files that are not there, SystemUnderTestError when
        something does not install or takes too long, and TimeLimitReached.
        """
        files = []
        for name in self.requirements:
            path = steps.directory / name
            if not path.is_file():
                raise ConfigError(
                    f"requirements file not found: {name}",
                    where="input 'requirements'",
                    hint="One path a line.",
                )
            files += ["--requirement", str(path)]
        places = f"{Path(sys.executable).parent}:{SAFE_PATH}"
        uv = shutil.which("uv", path=places) or "uv"  # is in the image
        target = str(steps.confinement.folder / "env")
        version = self.python_version
        steps.run(
            [uv, "venv", "--seed", "--python", version or base_python(), target],
            "python-version" if version else "the environment",
        )
        if files:
            install = [uv, "pip", "install", "--python", f"{target}/bin/python"]
            steps.run([*install, *files], "requirements")
        inside = {"PATH": f"{target}/bin:{SAFE_PATH}", "VIRTUAL_ENV": target}
        if self.script:
            options = ["--noprofile", "--norc", "-eo", "pipefail", "-c", self.script]
            steps.run(["/bin/bash", *options], "setup", inside)
        return inside


class Steps(Struct, frozen=True):
    """Runs programs of the user's, as the user, and shows what they print as they print
    it."""

    confinement: Confinement
    environ: Environ
    directory: Path
    write: Write
    limit_s: float
    """How long each step may take."""
    deadline: float | None = None
    """By when, of the monotonic clock, all of them must be done."""

    def run(
        self, argv: Sequence[str], what: str, inside: Environ = MappingProxyType({})
    ) -> None:
        """Run to the end of `argv` itself: what it left in the background (a server)
        goes on, its output dropped.

        Raises SystemUnderTestError when it fails or takes too long, TimeLimitReached
        when all together does.
        """
        process = subprocess.Popen(  # noqa: S603 - what the user asked for, as the user
            list(argv),
            cwd=self.directory,
            env={**self.environ, **inside},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self.confinement.run_as.popen_arguments(),  # type: ignore[call-overload]
        )
        printed = _Printed(process.stdout, self.write)
        printed.start()
        total_s = inf if self.deadline is None else self.deadline - monotonic()
        try:
            code = process.wait(max(0.0, min(self.limit_s, total_s)))
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            process.wait()
            printed.end()
            if total_s < self.limit_s:
                raise TimeLimitReached(f" by {what}") from None
            raise SystemUnderTestError(
                f"{what} did not end within {self.limit_s:g} s:\n{printed.tail()}",
                hint="Let a server that it starts run in the background.",
            ) from None
        printed.end()
        if code != 0:
            raise SystemUnderTestError(
                f"{what} ended with exit code {code}:\n{printed.tail()}",
                hint="Run the same lines in a fresh checkout to see why.",
            )


class _Printed(Thread):
    """What a program prints: shown line by line up to a bound, its last lines kept."""

    def __init__(self, stream: IO[bytes], write: Write) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._write = write
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._listening = True

    def end(self) -> None:
        """Take in what is there; what comes later is dropped."""
        self.join(_DRAIN_S)
        self._listening = False

    def tail(self) -> str:
        return "".join(self._tail).rstrip()

    def run(self) -> None:
        room = MAX_LOG_BYTES
        with self._stream:
            while raw := self._stream.readline(_MAX_LINE_BYTES):
                if not self._listening:
                    continue
                line = raw.decode("utf-8", "replace")
                self._tail.append(line)
                if room > 0:
                    room -= len(raw)
                    self._write(line if room > 0 else f"{line}\n{_LEFT_OUT}")


def installing(
    base: Environ, confinement: Confinement, system_env: Sequence[str]
) -> Environ:
    """Variables for installing: what the system itself gets, and how the network is
    reached, without passwords."""
    allowed = child_environment(system_env, base, confinement.run_as)
    network = {
        name: value
        for name, value in base.items()
        if name in _NETWORK and "@" not in value
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
    """The image's own Python, which Ragstone's environment was made from and which
    holds no package of it."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return base
