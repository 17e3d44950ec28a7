"""Writes the starter files of a gate. No existing file is overwritten, and nothing is
written outside of the repository or through a link."""

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
from ragstone.pipeline.init.starter_floors import MeasuredFloor, measured_floors
from ragstone.pipeline.init.survey import (
    MAX_SOURCE_BYTES,
    STARTER,
    Survey,
    read_text,
)
from ragstone.report.templates import read_template, render_text_template
from ragstone.system.entrypoint import parse_entrypoint
from ragstone.system.http_service import without_secrets

# The entrypoint that is written if none is known.
PLACEHOLDER = "python:my_package.rag:answer"

RUN_FOLDER = "ragstone-run"
WORKFLOW = ".github/workflows/ragstone.yml"


class Written(NamedTuple):
    """What was written: files, by paths relative to the folder, and floors."""

    written: list[str]
    kept: list[str]
    """Files that existed before, and were not changed."""
    keys: list[str]
    """Variables that the workflow takes from the secrets of the repository."""
    floors: list[MeasuredFloor]
    ignores_runs: bool
    """Whether the run directory was added to .gitignore."""


def write_starter(directory: Path, proposal: Proposal, survey: Survey) -> Written:
    """Write the starter files to `directory`, and the workflow to the root of its git
    repository, if it is in one.

    Raises ConfigError if a file can't be written.
    """
    home = directory.resolve()
    repositories = (path for path in (home, *home.parents) if (path / ".git").exists())
    root = next(repositories, home)
    # "" for the root of the repository, else "backend/".
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
        "ragstone.toml": _render("ragstone.toml", **values),
        POLICY_FILE: starter_policy(),
        os.path.relpath(root / workflow, home): _render("workflow.yml", **values),
    }
    if survey.golden_file is None:
        texts[STARTER] = read_template("starter/golden.jsonl", __package__)
    if proposal.glue is not None:
        texts[GLUE_FILE] = proposal.glue
    written = _write_new(root, home, texts)
    floors, tables = measured_floors(home / RUN_FOLDER)
    no_floors = read_template("starter/no_floors.toml", __package__)
    policy = home / POLICY_FILE
    kept = [path for path in texts if path not in written]
    if floors and _edit(policy, lambda text: text.replace(no_floors, tables)):
        kept = [path for path in kept if path != POLICY_FILE]
    else:
        floors = []
    has_git = (root / ".git").exists() or (home / ".gitignore").exists()
    ignores_runs = has_git and _edit(home / ".gitignore", _ignore_runs)
    return Written(written, kept, keys, floors, ignores_runs)


def starter_policy() -> str:
    """The policy that is written before there is a run to choose floors from."""
    return _render(
        "thresholds.toml", floors=read_template("starter/no_floors.toml", __package__)
    )


def _render(name: str, **values: object) -> str:
    """The starter file `name`, filled in from its template."""
    return render_text_template(f"starter/{name}.j2", __package__, **values) + "\n"


def _find_workflow(root: Path, home: Path) -> tuple[str, str | None]:
    """The workflow of the gate in `home`. The gate gets a name, the second value, if
    WORKFLOW runs the gate of another folder."""
    folder = home.relative_to(root).as_posix()
    config = PATTERNS["config"].search(read_text(root, WORKFLOW))
    if config is None or (config[1] or ".") == folder:
        return WORKFLOW, None
    words = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")
    name = words[:60] or "gate"
    return WORKFLOW.replace(".yml", f"-{name}.yml"), name


def _find_requirements(root: Path, home: Path) -> str | None:
    """The file with the system's dependencies, relative to the repository; None if
    there is none."""
    for folder in (home, root):
        for name in NAMES["requirements"]:
            file = folder / str(name)
            is_project = "[project]" in read_text(folder, name)
            if file.is_file() and (name != "pyproject.toml" or is_project):
                return file.relative_to(root).as_posix()
    return None


def _write_new(root: Path, home: Path, texts: Mapping[str, str]) -> list[str]:
    """Write the files of `texts` that don't exist yet, and return their paths. Raises
    ConfigError before it writes anything if one would be behind a link."""
    paths = {name: Path(os.path.normpath(home / name)) for name in texts}
    missing = {name: path for name, path in paths.items() if not path.exists()}
    for path in missing.values():
        with disk_errors(path, "can't be written"):
            for part in (path, *path.parents[: path.parents.index(root)]):
                refuse_link(part)
    for name, path in missing.items():
        with disk_errors(path, "can't be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[name], encoding="utf-8", newline="\n")
    return list(missing)


def _edit(path: Path, change: Callable[[str], str]) -> bool:
    """Replace the text of a file by `change` of it, and return whether they differ.
    Raises ConfigError, also for a link."""
    with disk_errors(path, "can't be changed"):
        refuse_link(path)
        before = read_regular(path, limit=MAX_SOURCE_BYTES) if path.exists() else b""
        # Bytes that are not UTF-8 are written back as they were.
        text = change(before.decode("utf-8", "surrogateescape"))
        after = text.encode("utf-8", "surrogateescape")
        if after != before:
            path.write_bytes(after)
    return after != before


def _ignore_runs(gitignore: str) -> str:
    """The text of a .gitignore, with a line for the run directory."""
    if RUN_FOLDER in gitignore:
        return gitignore
    before = f"{gitignore.rstrip()}\n" if gitignore.strip() else ""
    return f"{before}{RUN_FOLDER}/\n"
