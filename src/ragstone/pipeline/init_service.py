"""How the generated workflow installs and starts a service: what a folder has for that, first a compose file."""

from __future__ import annotations

import json
import re
import shlex
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from ragstone.errors import RagstoneError
from ragstone.files import read_regular
from ragstone.system.http_service import without_secrets

_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
_APP = re.compile(rb"^(\w+)\s*(?::[^=\n]+)?=\s*(FastAPI|Starlette|Litestar|Quart|Flask)\(", re.MULTILINE)
_HOSTS = ("127.0.0.1", "localhost", "0.0.0.0", "::1")  # noqa: S104 - not bound, only recognised
_RUNNER = "172.17.0.1"
"""The runner, as containers on it reach it: the address of Docker's bridge."""

_WAIT = "timeout 300 bash -c 'until {check} 2> /dev/null; do sleep 1; done'"
_ANSWERS = "curl --silent --output /dev/null http://127.0.0.1:{port}"
_LISTENS = "(: < /dev/tcp/127.0.0.1/{port})"
_STEP = """\
      # Runs the code of the change on the runner; give the job no secrets for changes that you don't trust.
      - name: Start the service
        run: |
          {start}
          {wait}
"""
_MAX_BYTES = 1_000_000
_MAX_MODULES = 200


def requirements_of(root: Path, home: Path) -> str | None:
    """The file with the requirements of the system in `home`, relative to `root`."""
    names = ("requirements.txt", "pylock.toml", "pyproject.toml")
    for path in (folder / name for folder in dict.fromkeys((home, root)) for name in names):
        if path.is_file() and (path.name != names[-1] or b"[project]" in _content(path)):
            return path.relative_to(root).as_posix()
    return None


def started_service(root: Path, home: Path, entrypoint: str) -> tuple[str, list[str]]:
    """A step before the gate that starts the service at `entrypoint`, and the inputs of the gate's step."""
    address = urlsplit(entrypoint)
    if address.hostname not in _HOSTS:
        return "", [f"# The service is not started here: {without_secrets(entrypoint)} must answer."]
    port = address.port or 80
    started = _container(root, home, port)
    if started is not None:
        start, published = started
        reached = address._replace(netloc=f"{_RUNNER}:{published}").geturl()
        step = _STEP.format(start=start, wait=_WAIT.format(check=_ANSWERS.format(port=published)))
        return step, [f"entrypoint: {json.dumps(reached)} # the runner, as the action's container reaches it"]
    server = _python_server(root, home, port)
    if server is None:
        hint = "# setup: ./serve &                         starts your service: "
        return "", [f"{hint}{without_secrets(entrypoint)} must answer in the action's container"]
    requirements = requirements_of(root, home)
    installs = [] if requirements is None else [f"requirements: {json.dumps(requirements)}"]
    wait = _WAIT.format(check=_LISTENS.format(port=port))
    return "", [
        *installs,
        "# In the action's container, where 127.0.0.1 reaches it:",
        "setup: |",
        f"  {server} &",
        f"  {wait}",
    ]


def _container(root: Path, home: Path, port: int) -> tuple[str, int] | None:
    """The command that starts a service in containers, and the port that it publishes."""
    for folder in dict.fromkeys((home, root)):
        place = folder.relative_to(root).as_posix()
        for name in _COMPOSE:
            text = _content(folder / name).decode(errors="replace")
            mapped = re.search(rf"""[\s"'-](\d+):{port}\b|[\s"':-]({port}):\d+\b""", text)
            if mapped is not None:
                file = shlex.quote(f"{place}/{name}".removeprefix("./"))
                return f"docker compose --file {file} up --detach --build", int(mapped[1] or mapped[2])
        if (folder / "Dockerfile").is_file():
            exposed = re.search(rb"^EXPOSE\s+(\d+)", _content(folder / "Dockerfile"), re.MULTILINE)
            inside = int(exposed[1]) if exposed else port
            build = f"docker build --tag service {shlex.quote(place)}"
            return f"{build}\n          docker run --detach --publish {port}:{inside} service", port
        if _starts(folder / "package.json"):
            install = "npm ci" if (folder / "package-lock.json").is_file() else "npm install"
            mount = f'--volume "$PWD"/{shlex.quote(place)}:/app --workdir /app --env PORT={port} --env HOSTNAME=0.0.0.0'
            npm = f'node:lts sh -c "{install} && npm run build --if-present && npm start"'
            return f"docker run --detach --publish {port}:{port} {mount} {npm}", port
    return None


def _starts(package: Path) -> bool:
    try:
        return "start" in json.loads(_content(package))["scripts"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return False


def _python_server(root: Path, home: Path, port: int) -> str | None:
    """The command that serves an app of FastAPI, Flask or the like, from the root of the repository."""
    paths = (path.relative_to(home) for depth in ("*.py", "*/*.py", "*/*/*.py") for path in sorted(home.glob(depth)))
    usual = (path for path in paths if not any(part.startswith((".", "test", "venv")) for part in path.parts))
    for path in islice(usual, _MAX_MODULES):
        app = _APP.search(_content(home / path))
        if app is not None:
            module = ".".join(path.with_suffix("").parts)
            folder = shlex.quote(home.relative_to(root).as_posix())
            name = f"{module}:{app[1].decode()}"
            if app[2] == b"Flask":
                return f"(cd {folder} && flask --app {name} run --port {port})"
            return f"uvicorn --app-dir {folder} --port {port} {name}"
    return None


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, limit=_MAX_BYTES)
    except (OSError, RagstoneError):
        return b""
