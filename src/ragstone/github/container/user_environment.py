"""The environment of the user's own system: made with uv for the Python asked for,
never Ragstone's."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO

from ragstone.errors import ConfigError, SystemUnderTestError, TimeLimitReached
from ragstone.github.container.confinement import SAFE_PATH, Confinement
from ragstone.system.child import MAX_LOG_BYTES
from ragstone.system.environment import child_environment
from ragstone.system.guardian import kill_group

Write = Callable[[str], None]
_TAIL_LINES = 30
_DRAIN_S = 1.0
_MAX_LINE_BYTES = 8192
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


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """Where the user's system runs: the interpreter of its own, and the variables that
    its children are made from."""

    python: str
    environ: Mapping[str, str]
    made: bool = False


def container_environ(
    environ: Mapping[str, str], confinement: Confinement
) -> dict[str, str]:
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


@dataclass(frozen=True, slots=True)
class SystemSetup:
    """What the user's system needs before it runs: a Python version, requirements
    files, a shell script."""

    script: str = ""
    requirements: tuple[str, ...] = ()
    python_version: str | None = None

    @property
    def needs_environment(self) -> bool:
        """Whether the system runs in an environment of its own."""
        return bool(self.script or self.requirements or self.python_version)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each step may take, and by when (of the monotonic clock) the whole must
    be done."""

    each_s: float
    deadline: float | None = None

    def left_s(self) -> float:
        if self.deadline is None:
            return self.each_s
        return max(0.0, min(self.each_s, self.deadline - monotonic()))

    @property
    def used_up(self) -> bool:
        return self.deadline is not None and monotonic() >= self.deadline


def prepare(
    setup: SystemSetup,
    *,
    confinement: Confinement,
    environ: Mapping[str, str],
    system_env: Sequence[str],
    directory: Path,
    limits: Limits,
    write: Write,
) -> UserEnvironment:
    """Make the environment, install `requirements` into it, and run `setup` with it, as
    the user.

    Raises ConfigError for files that are not there, SystemUnderTestError when something
    does not install or takes too long, and TimeLimitReached.
    """
    base = container_environ(environ, confinement)
    if not setup.needs_environment:
        return UserEnvironment(_base_python(), base)
    files = [_requirement(directory, name) for name in setup.requirements]
    steps = Steps(
        confinement, installing(base, confinement, system_env), directory, limits, write
    )
    target = confinement.folder / "env"
    python = target / "bin" / "python"
    _create(target, python, setup.python_version, files, steps)
    inside = {"PATH": f"{target / 'bin'}:{SAFE_PATH}", "VIRTUAL_ENV": str(target)}
    if setup.script:
        options = ["--noprofile", "--norc", "-eo", "pipefail", "-c", setup.script]
        steps.run(["/bin/bash", *options], "setup", inside)
    return UserEnvironment(str(python), {**base, **inside}, made=True)


def _create(
    target: Path, python: Path, version: str | None, files: Sequence[Path], steps: Steps
) -> None:
    uv = _uv()
    # What an earlier job left there may be half an environment.
    steps.confinement.call(["/bin/rm", "-rf", "--", str(target)])
    make = [uv, "venv", "--seed", "--python", version or _base_python(), str(target)]
    steps.run(make, "python-version" if version else "the environment")
    if files:
        listed = [
            argument for file in files for argument in ("--requirement", str(file))
        ]
        steps.run(
            [uv, "pip", "install", "--python", str(python), *listed], "requirements"
        )


@dataclass(frozen=True, slots=True)
class Steps:
    """Runs programs of the user's, as the user, and shows what they print as they print
    it."""

    confinement: Confinement
    environ: Mapping[str, str]
    directory: Path
    limits: Limits
    write: Write

    def run(
        self, argv: Sequence[str], what: str, inside: Mapping[str, str] | None = None
    ) -> None:
        """Run to the end of `argv` itself: what it left in the background (a server)
        goes on, its output dropped.

        Raises SystemUnderTestError when it fails or takes too long, TimeLimitReached
        when all together does.
        """
        process = subprocess.Popen(  # noqa: S603 - what the user asked for, as the user
            list(argv),
            cwd=self.directory,
            env={**self.environ, **(inside or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **self.confinement.run_as.popen_arguments(),  # type: ignore[call-overload]
        )
        printed = _Printed(process.stdout, self.write)
        try:
            code = process.wait(self.limits.left_s())
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            process.wait()
            printed.end()
            if self.limits.used_up:
                raise TimeLimitReached(f" by {what}") from None
            raise SystemUnderTestError(
                f"{what} did not end within {self.limits.each_s:g} s:\n{printed.tail()}",
                hint="Let a server that it starts run in the background.",
            ) from None
        printed.end()
        if code != 0:
            raise SystemUnderTestError(
                f"{what} ended with exit code {code}:\n{printed.tail()}",
                hint="Run the same lines in a fresh checkout to see why.",
            )


class _Printed:
    """What a program prints: shown line by line up to a bound, its last lines kept."""

    def __init__(self, stream: IO[bytes], write: Write) -> None:
        self._stream = stream
        self._write = write
        self._room = MAX_LOG_BYTES
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._listening = True
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def end(self) -> None:
        """Take in what is there; what comes later is dropped."""
        self._reader.join(_DRAIN_S)
        self._listening = False

    def tail(self) -> str:
        return "".join(self._tail).rstrip()

    def _listen(self) -> None:
        with self._stream:
            while raw := self._stream.readline(_MAX_LINE_BYTES):
                if self._listening:
                    line = raw.decode("utf-8", "replace")
                    self._tail.append(line)
                    self._show(line, len(raw))

    def _show(self, line: str, size: int) -> None:
        if self._room <= 0:
            return
        self._room -= size
        if self._room <= 0:
            line += f"\n[ragstone] this is more than {MAX_LOG_BYTES:,} bytes; the rest is left out\n"
        self._write(line)


def installing(
    base: Mapping[str, str], confinement: Confinement, system_env: Sequence[str]
) -> dict[str, str]:
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


def _requirement(directory: Path, name: str) -> Path:
    path = directory / name
    if not path.is_file():
        raise ConfigError(
            f"requirements file not found: {name}",
            where="input 'requirements'",
            hint="One path a line.",
        )
    return path


def _base_python() -> str:
    """The image's own Python, which Ragstone's environment was made from and which
    holds no package of it."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return base


def _uv() -> str:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{SAFE_PATH}")
    if uv is None:
        raise ConfigError(
            "uv is not installed beside Ragstone.", hint="Take the action's own image."
        )
    return uv
