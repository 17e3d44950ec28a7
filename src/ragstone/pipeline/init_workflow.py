"""The workflow that `init` writes for a service."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ragstone.errors import disk_errors
from ragstone.files import read_regular
from ragstone.pipeline.init_service import requirements_of, started_service
from ragstone.pipeline.survey.look import Survey
from ragstone.system.entrypoint import parse_entrypoint

WORKFLOW = ".github/workflows/ragstone.yml"
_ANOTHER = ".github/workflows/ragstone-{}.yml"
_CONFIG = re.compile(r'^( +)config: "?(?:(.+)/)?ragstone\.toml"?$', re.MULTILINE)
_PATHS = re.compile(r"^( +)# paths: .*$", re.MULTILINE)
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where the workflow of a service belongs. `gate` is its name, if another service has the first workflow."""

    workflow: str = WORKFLOW
    gate: str | None = None


def find_place(root: Path, within: str) -> Place:
    """The place for the service in the folder `within` of the repository `root`. Raises ConfigError for a link."""
    if _is_free(root / WORKFLOW, within):
        return Place()
    names = [re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60] or "gate" for text in ((root / within).name, within)]
    free = [name for name in names if _is_free(root / _ANOTHER.format(name), within)]
    name = free[0] if free else names[-1]
    return Place(_ANOTHER.format(name), name)


def _is_free(workflow: Path, within: str) -> bool:
    """Whether `workflow` is not that of another service than the one in the folder `within`."""
    config = _CONFIG.search(read_text(workflow))
    return config is None or (config[2] or ".") == within


def workflow_text(place: Place, root: Path, home: Path, entrypoint: str, found: Survey) -> str:
    """The workflow of the service in the folder `home`, with what its system needs."""
    config = (home / "ragstone.toml").relative_to(root).as_posix()
    lines = [f"config: {config if home == root else json.dumps(config)}"]
    text = (resources.files(__package__) / "starter" / "workflow.yml").read_text(encoding="utf-8")
    if place.gate is not None:
        lines.append(f"comment-id: {place.gate}")
        text = text.replace("name: RAG quality\n", f"name: RAG quality of {place.gate}\n")
        if home != root:
            paths = json.dumps([f"{home.relative_to(root).as_posix()}/**", place.workflow])
            text = _PATHS.sub(rf"\g<1>paths: {paths}", text, count=1)
    kind = parse_entrypoint(entrypoint).kind
    requirements = requirements_of(root, home) if kind.runs_users_code else None
    if requirements is not None:
        lines.append(f"requirements: {json.dumps(requirements)}")
    elif kind.is_address:
        step, inputs = started_service(root, home, entrypoint)
        lines += inputs
        text = text.replace("      - id: gate\n", f"{step}      - id: gate\n", 1)
    else:
        lines.append("# requirements: requirements.txt            dependencies of your system")
    if found.version is not None and kind.uses_interpreter:
        lines.append(f'python-version: "{found.version}"')
    start = _CONFIG.search(text)
    assert start is not None  # noqa: S101 - it is in the package
    return text.replace(start[0], f"\n{start[1]}".join([start[1] + lines[0], *lines[1:]]))


def read_text(path: Path, hint: str = "") -> str:
    """The text of a file of the user's; nothing if there is none. Raises ConfigError, also for a link, with `hint`."""
    with disk_errors(path):
        if path.is_symlink():
            raise OSError(0, f"it is a link{hint}", str(path))
        return read_regular(path, limit=_MAX_BYTES).decode("utf-8", "surrogateescape") if path.exists() else ""
