"""Writes the starter files of a gate: nothing over an existing file, outside the folder, or through a link."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ragstone.errors import ConfigError, disk_errors
from ragstone.files import read_regular, refuse_link
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.pipeline.init.entrypoints import GLUE_FILE, Proposal
from ragstone.pipeline.init.floors import MeasuredFloors, measured_floors
from ragstone.pipeline.init.survey import STARTER, Survey, container_port, read_text
from ragstone.report.templates import read_template, render_text_template
from ragstone.system.entrypoint import parse_entrypoint
from ragstone.system.http_service import without_secrets

PLACEHOLDER = "python:my_package.rag:answer"
"""The entrypoint that is written if none is known."""

RUN = "ragstone-run"
NO_FLOORS = """\
# Floors: after a first `ragstone gate`, run `ragstone init` again. It writes floors here that your system clears by
# more than its noise, and says how it chose them.
"""
"""What a starter policy has in place of floors, until there is a run."""

WORKFLOW = ".github/workflows/ragstone.yml"
_CONFIG = re.compile(r'^ +config: "?(?:(.+)/)?ragstone\.toml"?$', re.MULTILINE)
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
_KEY = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")
_IGNORED = {RUN, f"{RUN}/", f"**/{RUN}", f"**/{RUN}/"}
_RUNNER = "172.17.0.1"
"""The runner, as containers on it reach it: the address of Docker's bridge."""

_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, by paths relative to the folder. `kept` existed before."""

    written: list[str]
    kept: list[str]
    keys: list[str]
    """The keys that the workflow takes from the secrets of the repository."""
    ignores: bool
    """Whether run directories were added to .gitignore."""
    floors: MeasuredFloors | None
    """Floors that were added to thresholds.toml."""


def write_starter(directory: Path, proposal: Proposal, survey: Survey) -> Written:
    """Write the starter files to `directory`, and the workflow to the root of its git repository, if it is in one.

    Raises ConfigError if a file can't be written.
    """
    home = directory.resolve()
    root = git_root(home) or home
    workflow, gate = _find_workflow(root, home)
    keys = [name for name in survey.variables if _KEY.search(name)]
    kind = parse_entrypoint(proposal.entrypoint).kind
    config = {"proposal": proposal, "survey": survey, "kind": kind, "placeholder": PLACEHOLDER, "value": _value}
    job = {
        "gate": gate,
        "workflow": workflow,
        "keys": keys,
        **_job_facts(root, home, proposal.entrypoint, keys, survey.sources),
    }
    texts = {
        "ragstone.toml": _rendered("ragstone.toml", **config),
        POLICY_FILE: starter_policy(),
        os.path.relpath(root / workflow, home): _rendered("workflow.yml", **config, **job),
    }
    if survey.golden is None:
        texts[STARTER] = starter_questions()
    if proposal.glue is not None:
        texts[GLUE_FILE] = proposal.glue
    for place in texts:
        _refuse_links(root, Path(os.path.normpath(home / place)))
    written = [place for place, text in texts.items() if _write_new(home / place, text)]
    floors = _write_floors(home / POLICY_FILE, measured_floors(home / RUN))
    kept = [place for place in texts if place not in written and not (floors and place == POLICY_FILE)]
    return Written(written, kept, keys, _ignore_runs(home, root), floors)


def starter_policy() -> str:
    """The policy before there is a run to choose floors from."""
    return _rendered("thresholds.toml", floors=NO_FLOORS)


def starter_questions() -> str:
    return read_template("starter/golden.jsonl", __package__)


def _rendered(name: str, **values: object) -> str:
    return render_text_template(f"starter/{name}.j2", __package__, **values) + "\n"


def git_root(directory: Path) -> Path | None:
    """The work tree that `directory` is in, if any. Git is not run."""
    start = directory.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def _find_workflow(root: Path, home: Path) -> tuple[str, str | None]:
    """The workflow of the gate in `home`, and the name of the gate if another one has the first workflow."""
    folder = home.relative_to(root).as_posix()
    names = [re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60] or "gate" for text in (home.name, folder)]
    for name in (None, *names):
        workflow = WORKFLOW if name is None else WORKFLOW.replace(".yml", f"-{name}.yml")
        config = _CONFIG.search(_read_own(root / workflow))
        if config is None or (config[1] or ".") == folder:
            break
    return workflow, name


def _job_facts(root: Path, home: Path, entrypoint: str, keys: list[str], sources: Sequence[str]) -> dict[str, object]:
    """What the workflow says of the folder `home`, and of starting the service at `entrypoint`."""
    folder = "" if home == root else f"{home.relative_to(root).as_posix()}/"
    names = ("requirements.txt", "pylock.toml", "pyproject.toml")
    files = [place / name for place in dict.fromkeys((home, root)) for name in names if (place / name).is_file()]
    usable = [path for path in files if path.name != names[-1] or "[project]" in read_text(path.parent, path.name)]
    address = urlsplit(entrypoint)
    port = address.port or 80 if "://" in entrypoint else 0
    is_local = address.hostname in ("127.0.0.1", "localhost", "0.0.0.0", "::1")  # noqa: S104 - only compared
    commands, published = _container_start(root, home, port, keys) if is_local else ([], 0)
    return {
        "folder": folder,
        "paths": [f"{folder}{source}" for source in (*sources, "*.toml")],
        "requirements": usable[0].relative_to(root).as_posix() if usable else None,
        "is_local": is_local,
        "port": port,
        "commands": commands,
        "published": published,
        "reached": address._replace(netloc=f"{_RUNNER}:{published}").geturl(),
        "shown": without_secrets(entrypoint) if port else "",
        "shell": shlex.quote,
    }


def _container_start(root: Path, home: Path, port: int, keys: list[str]) -> tuple[list[str], int]:
    """The commands that start a service in containers, from `root`, and the port that it publishes."""
    passed = "".join(f"--env {key} " for key in keys)
    for folder in dict.fromkeys((home, root)):
        place = folder.relative_to(root).as_posix()
        for name in _COMPOSE:
            mapped = re.search(rf"""[\s"'-](\d+):{port}\b|[\s"':-]({port}):\d+\b""", read_text(folder, name))
            if mapped is not None:
                file = shlex.quote(f"{place}/{name}".removeprefix("./"))
                return [f"docker compose --file {file} up --detach --build"], int(mapped[1] or mapped[2])
        if (folder / "Dockerfile").is_file():
            run = f"docker run --detach {passed}--publish {port}:{container_port(folder) or port} service"
            return [f"docker build --tag service {shlex.quote(place)}", run], port
    return [], 0


def _write_floors(path: Path, floors: MeasuredFloors | None) -> MeasuredFloors | None:
    """Put `floors` in the place that a starter policy keeps for them; None if there are none, or no such place."""
    text = _read_own(path)
    if floors is None or NO_FLOORS not in text:
        return None
    with disk_errors(path, "can't be changed"):
        path.write_text(text.replace(NO_FLOORS, floors.toml), "utf-8", "surrogateescape", "\n")
    return floors


def _refuse_links(root: Path, path: Path) -> None:
    """Raise ConfigError if `path`, which would be written below `root`, leads through a link."""
    if path.exists():
        return  # it is not written
    with disk_errors(path, "can't be written"):
        for part in (path, *path.parents[: path.parents.index(root)]):
            refuse_link(part)


def _write_new(path: Path, text: str) -> bool:
    """Write a file; whether there was none before. Raises ConfigError."""
    with disk_errors(path, "can't be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
        except FileExistsError:
            return False
    return True


def _ignore_runs(home: Path, root: Path) -> bool:
    """Add run directories to .gitignore, unless a file of the repository has them already. Whether it was changed."""
    path = home / ".gitignore"
    hint = f"; add the line {RUN}/ to it yourself"
    text = _read_own(path, hint)
    above = [folder for folder in home.parents if folder.is_relative_to(root)]
    inherited = [line for folder in above for line in _read_own(folder / path.name, hint).splitlines()]
    ignored = {line.strip() for line in inherited} | {line.strip().lstrip("/") for line in text.splitlines()}
    if ignored & _IGNORED or not ((root / ".git").exists() or path.exists()):
        return False
    newline = "\r\n" if "\r\n" in text else "\n"
    with disk_errors(path, "can't be changed"), path.open("a", encoding="utf-8", newline="") as stream:
        stream.write(("" if not text or text.endswith("\n") else newline) + f"{RUN}/{newline}")
    return True


def _read_own(path: Path, hint: str = "") -> str:
    """The text of a file to be changed; nothing if there is none. Raises ConfigError, also for a link, with `hint`."""
    with disk_errors(path):
        if path.is_symlink():
            raise OSError(0, f"it is a link{hint}", str(path))
        return read_regular(path, limit=_MAX_BYTES).decode("utf-8", "surrogateescape") if path.exists() else ""


def _value(value: object) -> str:
    """`value` in TOML and YAML, tables inline: both take JSON's strings and lists. Raises ConfigError."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str) and not value.isprintable():
        raise ConfigError(f"this can't be written to a file: {value!r}")
    return json.dumps(value, ensure_ascii=False)
