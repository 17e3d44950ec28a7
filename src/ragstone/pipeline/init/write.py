"""Writes the starter files of a gate: nothing over an existing file, outside the
folder, or through a link."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ragstone.errors import disk_errors
from ragstone.files import read_regular, refuse_link
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.pipeline.init.entrypoints import GLUE_FILE, NAMES, PATTERNS, Proposal
from ragstone.pipeline.init.floors import MeasuredFloor, measured_floors
from ragstone.pipeline.init.survey import (
    MAX_SOURCE_BYTES,
    STARTER,
    Survey,
    read_text,
)
from ragstone.report.templates import read_template, render_text_template
from ragstone.system.entrypoint import parse_entrypoint
from ragstone.system.http_service import without_secrets

PLACEHOLDER = (
    "python:my_package.rag:answer"  # what is written if no entrypoint is known
)
RUN = "ragstone-run"
WORKFLOW = ".github/workflows/ragstone.yml"


class Written(NamedTuple):
    """What was written, by paths relative to the folder; `kept` existed before. `keys`
    are what the workflow takes from the secrets of the repository, `floors` went to
    thresholds.toml, `ignores`: run directories went to .gitignore."""

    written: list[str]
    kept: list[str]
    keys: list[str]
    floors: list[MeasuredFloor]
    ignores: bool


def write_starter(directory: Path, proposal: Proposal, survey: Survey) -> Written:
    """Write the starter files to `directory`, and the workflow to the root of its git
    repository, if it is in one.

    Raises ConfigError if a file can't be written.
    """
    home = directory.resolve()
    repositories = (path for path in (home, *home.parents) if (path / ".git").exists())
    root = next(repositories, home)
    folder = f"{home.relative_to(root).as_posix()}/".removeprefix("./")
    workflow, gate = _find_workflow(root, home)
    keys = list(filter(PATTERNS["secret"].search, survey.variables))
    sources = [f"{folder}{source}" for source in (*survey.sources, "*.toml")]
    address = urlsplit(proposal.entrypoint)
    is_local = address.hostname in NAMES["local"]
    values = {
        "proposal": proposal,
        "survey": survey,
        "kind": parse_entrypoint(proposal.entrypoint).kind,
        "keys": keys,
        "gate": gate,
        "workflow": workflow,
        "folder": folder,
        "paths": [*sources, workflow],
        "requirements": _find_requirements(root, home),
        "port": address.port or 80 if is_local else 0,
        "address": without_secrets(proposal.entrypoint) if address.hostname else "",
        "placeholder": PLACEHOLDER,
    }
    texts = {
        "ragstone.toml": _rendered("ragstone.toml", **values),
        POLICY_FILE: starter_policy(),
        os.path.relpath(root / workflow, home): _rendered("workflow.yml", **values),
    }
    if survey.golden_file is None:
        texts[STARTER] = read_template("starter/golden.jsonl", __package__)
    if proposal.glue is not None:
        texts[GLUE_FILE] = proposal.glue
    written = _write_new(root, home, texts)
    floors, table = measured_floors(home / RUN)
    no_floors = read_template("starter/no_floors.toml", __package__)
    policy = home / POLICY_FILE
    kept = [place for place in texts if place not in written]
    if floors and _edit(policy, lambda text: text.replace(no_floors, table)):
        kept = [place for place in kept if place != POLICY_FILE]
    else:
        floors = []
    has_git = (root / ".git").exists() or (home / ".gitignore").exists()
    ignores = has_git and _edit(home / ".gitignore", _ignoring_runs)
    return Written(written, kept, keys, floors, ignores)


def starter_policy() -> str:
    """The policy before there is a run to choose floors from."""
    return _rendered(
        "thresholds.toml", floors=read_template("starter/no_floors.toml", __package__)
    )


def _rendered(name: str, **values: object) -> str:
    return render_text_template(f"starter/{name}.j2", __package__, **values) + "\n"


def _find_workflow(root: Path, home: Path) -> tuple[str, str | None]:
    """The workflow of the gate in `home`, and the name of the gate if another one has
    the first workflow."""
    folder = home.relative_to(root).as_posix()
    config = PATTERNS["config"].search(read_text(root, WORKFLOW))
    if config is None or (config[1] or ".") == folder:
        return WORKFLOW, None
    words = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")
    name = words[:60] or "gate"
    return WORKFLOW.replace(".yml", f"-{name}.yml"), name


def _find_requirements(root: Path, home: Path) -> str | None:
    """The file that the system is installed from, relative to the repository."""
    for folder in (home, root):
        for name in NAMES["requirements"]:
            file = folder / str(name)
            is_project = "[project]" in read_text(folder, name)
            if file.is_file() and (name != "pyproject.toml" or is_project):
                return file.relative_to(root).as_posix()
    return None


def _write_new(root: Path, home: Path, texts: Mapping[str, str]) -> list[str]:
    """Write the files that are not there yet: their places. Raises ConfigError before
    any if one is behind a link."""
    paths = {place: Path(os.path.normpath(home / place)) for place in texts}
    missing = {place: path for place, path in paths.items() if not path.exists()}
    for path in missing.values():
        with disk_errors(path, "can't be written"):
            for part in (path, *path.parents[: path.parents.index(root)]):
                refuse_link(part)
    for place, path in missing.items():
        with disk_errors(path, "can't be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[place], encoding="utf-8", newline="\n")
    return list(missing)


def _edit(path: Path, change: Callable[[str], str]) -> bool:
    """Whether `change` changes the text of a file; no other byte of it does. Raises
    ConfigError, also for a link."""
    with disk_errors(path, "can't be changed"):
        refuse_link(path)
        body = read_regular(path, limit=MAX_SOURCE_BYTES) if path.exists() else b""
        changed = change(body.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )
        if changed != body:
            path.write_bytes(changed)
    return changed != body


def _ignoring_runs(text: str) -> str:
    if RUN in text:
        return text
    before = f"{text.rstrip()}\n" if text.strip() else ""
    return f"{before}{RUN}/\n"
