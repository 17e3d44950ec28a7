"""The environment of the user's own system: made with uv for the Python asked for, never Ragstone's."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.github.confinement import SAFE_PATH, Confinement
from ragstone.github.inputs import ActionInputs
from ragstone.system.environment import child_environment

Write = Callable[[str], None]
_COMPLETE = "ragstone-complete"
_TAIL_LINES = 30
_DRAIN_S = 1.0
_INSTALLERS = ("UV_", "PIP_")
_NETWORK = frozenset(
    """
    http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    """.split()  # noqa: SIM905
)
_WRONG_INSIDE = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""What setup actions leave behind on the host points at paths that are not in the container."""


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """Where the user's system runs: the interpreter of its own, and the variables that its children are made from."""

    python: str
    environ: Mapping[str, str]
    made: bool = False


def container_environ(environ: Mapping[str, str], confinement: Confinement) -> dict[str, str]:
    """`environ` with what is wrong inside of the container set right. Children get an allow-list of it."""
    kept = {name: value for name, value in environ.items() if name not in _WRONG_INSIDE}
    return {
        **kept,
        "PATH": SAFE_PATH,
        "HOME": str(confinement.run_as.home),
        "TMPDIR": str(confinement.folder / "tmp"),
    }


def prepare(
    inputs: ActionInputs,
    *,
    confinement: Confinement,
    environ: Mapping[str, str],
    system_env: Sequence[str],
    directory: Path,
    write: Write,
) -> UserEnvironment:
    """Make (or find) the environment, install `requirements` into it, and run `setup` with it, as the user.

    Environments are kept by content under the runner's temp folder. `setup` runs every time: it may do more than
    install. Raises ConfigError for files that are not there, SystemUnderTestError when something does not install.
    """
    base = container_environ(environ, confinement)
    wanted = bool(inputs.setup or inputs.requirements or inputs.python_version)
    if not wanted:
        return UserEnvironment(_base_python(), base)
    files = [_requirement(directory, name) for name in inputs.requirements]
    installing = _installing(base, confinement, system_env)
    target = confinement.folder / f"env-{_key(inputs.python_version, files)}"
    python = target / "bin" / "python"
    if not (target / _COMPLETE).is_file():
        _create(target, python, inputs.python_version, files, confinement, installing, directory, write)
    inside = {"PATH": f"{target / 'bin'}:{SAFE_PATH}", "VIRTUAL_ENV": str(target)}
    if inputs.setup:
        shell = ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", inputs.setup]
        _run(shell, "setup", confinement, {**installing, **inside}, directory, write)
    return UserEnvironment(str(python), {**base, **inside}, made=True)


def _create(
    target: Path,
    python: Path,
    version: str | None,
    files: Sequence[Path],
    confinement: Confinement,
    environ: Mapping[str, str],
    directory: Path,
    write: Write,
) -> None:
    uv = _uv()
    # Half an environment, from a job that was cancelled, would be worse than none.
    confinement.call(["/bin/rm", "-rf", "--", str(target)])
    make = [uv, "venv", "--seed", "--python", version or _base_python(), str(target)]
    _run(make, "python-version" if version else "the environment", confinement, environ, directory, write)
    if files:
        listed = [argument for file in files for argument in ("--requirement", str(file))]
        install = [uv, "pip", "install", "--python", str(python), *listed]
        _run(install, "requirements", confinement, environ, directory, write)
    confinement.call(["/bin/touch", str(target / _COMPLETE)])


def _run(
    argv: Sequence[str],
    what: str,
    confinement: Confinement,
    environ: Mapping[str, str],
    directory: Path,
    write: Write,
) -> None:
    """Run to the end of `argv` itself: what it left in the background (a server) goes on, and its output is dropped."""
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    listening = True
    process = subprocess.Popen(  # noqa: S603 - what the user asked for, as the user
        list(argv),
        cwd=directory,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **confinement.run_as.popen_arguments(),  # type: ignore[call-overload]
    )

    def listen() -> None:
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace")
            if listening:
                tail.append(line)
                write(line)

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    code = process.wait()
    reader.join(_DRAIN_S)
    listening = False
    if code != 0:
        raise SystemUnderTestError(
            f"{what} ended with exit code {code}:\n{''.join(tail).rstrip()}",
            mend="Run the same lines in a fresh checkout to see why.",
        )


def _installing(base: Mapping[str, str], confinement: Confinement, system_env: Sequence[str]) -> dict[str, str]:
    """Variables for installing: what the system itself gets, and the settings of uv, pip and the network."""
    allowed = child_environment(system_env, base, confinement.run_as)
    settings = {name: value for name, value in base.items() if name.startswith(_INSTALLERS) or name in _NETWORK}
    return {
        **settings,
        **allowed,
        "UV_CACHE_DIR": str(confinement.folder / "uv-cache"),
        "UV_PYTHON_INSTALL_DIR": str(confinement.folder / "python"),
        "UV_NO_PROGRESS": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _requirement(directory: Path, name: str) -> Path:
    path = directory / name
    if not path.is_file():
        raise ConfigError(f"requirements file not found: {name}", where="input 'requirements'", mend="One path a line.")
    return path


def _key(version: str | None, files: Sequence[Path]) -> str:
    contents = [[file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in files]
    body = json.dumps([version, sys.version_info[:3], contents])
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _base_python() -> str:
    """The image's own Python, which Ragstone's environment was made from and which holds no package of it."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return base


def _uv() -> str:
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}:{SAFE_PATH}")
    if found is None:
        raise ConfigError("uv is not installed beside Ragstone.", mend="Take the action's own image.")
    return found
