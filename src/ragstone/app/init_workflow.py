"""The workflow that `init` writes for a service, and the file that lists the gates of a repository with several."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from ragstone.app.init_service import requirements_of, started_service
from ragstone.app.survey.look import Survey
from ragstone.errors import disk_errors
from ragstone.files import read_regular
from ragstone.system.entrypoint import parse_entrypoint

WORKFLOW = ".github/workflows/ragstone.yml"
_ANOTHER = ".github/workflows/ragstone-{}.yml"
_HEADER = """\
# The gates of this repository, and the paths that affect each: docs/github-action.md, "Many gates in one repository".
# What several of them depend on goes above the first table: paths = ["libs/**"]
"""
_CONFIG = re.compile(r'^( +)config: "?(?:(.+)/)?ragstone\.toml"?$', re.MULTILINE)
_COMMENTS = re.compile(r"^( +)pull-requests: write.*$", re.MULTILINE)
_MAX_BYTES = 1_000_000


@dataclass(slots=True)
class Place:
    """Where the workflow of a service belongs. `gate` is its name in the repository's `gates`, if it has several.

    `added` says what was added to which file.
    """

    workflow: str = WORKFLOW
    gate: str | None = None
    gates: str = "gates.toml"
    added: list[tuple[str, str]] = field(default_factory=list)


def find_place(root: Path, within: str) -> Place:
    """The place for the service in the folder `within` of the repository `root`.

    If its workflow is for another service, both become gates of one file. Raises ConfigError if one can't be changed.
    """
    place, path = Place(), root / WORKFLOW
    text = read_text(path)
    config = _CONFIG.search(text)
    if config is None or (config[2] or ".") == within:
        return place
    listed, known = re.search(r"gates-file: *(\S+)", text), re.search(r"comment-id: *(\S+)", text)
    if listed is not None:
        place.gates = listed[1]
    else:
        name = _add_gate(place, root, config[2] or ".", WORKFLOW, known[1] if known else None)
        line = f"gates-file: {place.gates}"
        lines = [config[0], config[1] + line, *([] if known else [f"{config[1]}comment-id: {name}"])]
        _write(path, _with_checks(text.replace(config[0], "\n".join(lines), 1)))
        place.added.append((line, WORKFLOW))
    place.gate = _add_gate(place, root, within, _ANOTHER)
    place.workflow = _ANOTHER.format(place.gate)
    return place


def workflow_text(place: Place, root: Path, home: Path, entrypoint: str, found: Survey) -> str:
    """The workflow of the service in the folder `home`, with what its system needs."""
    config = (home / "ragstone.toml").relative_to(root).as_posix()
    lines = [f"config: {config if home == root else json.dumps(config)}"]
    text = (resources.files(__package__) / "starter" / "workflow.yml").read_text(encoding="utf-8")
    if place.gate is not None:
        lines += [f"gates-file: {place.gates}", f"comment-id: {place.gate}"]
        text = (
            _with_checks(text)
            .replace("ragstone.yml", Path(place.workflow).name)
            .replace("name: RAG quality\n", f"name: RAG quality of {place.gate}\n")
        )
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


def _add_gate(place: Place, root: Path, within: str, workflow: str, name: str | None = None) -> str:
    """Add the service in the folder `within` to the gates, unless it is one of them. Its name there."""
    text = read_text(root / place.gates) or _HEADER
    mine = json.dumps(f"{within}/**")
    names = [re.sub(r"[^A-Za-z0-9]+", "-", one).strip("-")[:60] or "gate" for one in ((root / within).name, within)]
    name = name or names[f"[gates.{names[0]}]" in text and mine not in text]
    if f"[gates.{name}]" not in text:
        paths = "" if within == "." else f"paths = [{mine}, {json.dumps(workflow.format(name))}]\n"
        _write(root / place.gates, f"{text.rstrip()}\n\n[gates.{name}]\n{paths}")
        place.added.append((f"[gates.{name}]", place.gates))
    return name


def _with_checks(text: str) -> str:
    return _COMMENTS.sub(r"\g<0>\n\1checks: write # a check run for this gate", text, count=1)


def read_text(path: Path, hint: str = "") -> str:
    """The text of a file of the user's; nothing if there is none. Raises ConfigError, also for a link, with `hint`."""
    with disk_errors(path):
        if path.is_symlink():
            raise OSError(0, f"it is a link{hint}", str(path))
        return read_regular(path, limit=_MAX_BYTES).decode("utf-8", "surrogateescape") if path.exists() else ""


def _write(path: Path, text: str) -> None:
    with disk_errors(path, "can't be changed"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
