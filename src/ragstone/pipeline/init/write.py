"""Writes the starter files of a gate: nothing over an existing file, outside the
folder, or through a link."""

from __future__ import annotations

import os
import re
import shlex
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
    container_port,
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
    root = next(
        (folder for folder in (home, *home.parents) if (folder / ".git").exists()), home
    )
    workflow, gate = _find_workflow(root, home)
    keys = list(filter(PATTERNS["secret"].search, survey.variables))
    values = {
        "proposal": proposal,
        "survey": survey,
        "kind": parse_entrypoint(proposal.entrypoint).kind,
        "keys": keys,
    }
    values |= {
        "gate": gate,
        "workflow": workflow,
        "placeholder": PLACEHOLDER,
        "shell": shlex.quote,
    }
    values |= _job_facts(root, home, proposal.entrypoint)
    values["paths"] = [
        f"{values['folder']}{source}" for source in (*survey.sources, "*.toml")
    ] + [workflow]
    texts = {
        "ragstone.toml": _rendered("ragstone.toml", **values),
        POLICY_FILE: starter_policy(),
        os.path.relpath(root / workflow, home): _rendered("workflow.yml", **values),
    }
    texts |= (
        {}
        if survey.golden_file
        else {STARTER: read_template("starter/golden.jsonl", __package__)}
    )
    texts |= {GLUE_FILE: proposal.glue} if proposal.glue else {}
    written = _write_new(root, home, texts)
    floors, table = measured_floors(home / RUN)
    no_floors = read_template("starter/no_floors.toml", __package__)
    if not floors or not _edit(
        home / POLICY_FILE, lambda text: text.replace(no_floors, table)
    ):
        floors = []
    left_alone = [
        place
        for place in texts
        if place not in written and not (floors and place == POLICY_FILE)
    ]
    has_git = (root / ".git").exists() or (home / ".gitignore").exists()
    return Written(
        written,
        left_alone,
        keys,
        floors,
        has_git and _edit(home / ".gitignore", _ignoring_runs),
    )


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
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")[:60] or "gate"
    return WORKFLOW.replace(".yml", f"-{name}.yml"), name


def _job_facts(root: Path, home: Path, entrypoint: str) -> dict[str, object]:
    """What the workflow says of the folder `home`, and of starting the service at
    `entrypoint`."""
    folders = {folder.relative_to(root).as_posix(): folder for folder in (home, root)}
    names = [
        f"{place}/{name}".removeprefix("./")
        for place in folders
        for name in NAMES["requirements"]
    ]
    usable = [
        name
        for name in names
        if "pyproject" not in name or "[project]" in read_text(root, name)
    ]
    address = urlsplit(entrypoint)
    port = address.port or 80 if address.hostname in NAMES["local"] else 0
    start: dict[str, object] = {}
    for place, folder in reversed(folders.items()) if port else ():
        if (folder / "Dockerfile").is_file():
            start = {
                "image": place,
                "published": port,
                "inside": container_port(folder) or port,
            }
        for name in NAMES["compose"]:
            mapped = re.search(
                rf"""[\s"'-](\d+):{port}\b|[\s"':-]({port}):\d+\b""",
                read_text(folder, name),
            )
            if mapped is not None:
                start = {
                    "compose": f"{place}/{name}".removeprefix("./"),
                    "published": mapped[1] or mapped[2],
                }
    return {
        "folder": f"{next(iter(folders))}/".removeprefix("./"),
        "requirements": next(
            (name for name in usable if (root / name).is_file()), None
        ),
        "port": port,
        "start": start,
        "reached": address._replace(
            netloc=f"{NAMES['runner']}:{start.get('published')}"
        ).geturl(),
        "shown": without_secrets(entrypoint) if address.hostname else "",
    }


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
    newline = "\r\n" if "\r\n" in text else "\n"
    return (
        text
        if RUN in text
        else f"{text.rstrip()}{newline if text.strip() else ''}{RUN}/{newline}"
    )
