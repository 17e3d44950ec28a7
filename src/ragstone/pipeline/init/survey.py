"""Finds the RAG system and the golden set of a folder. Files are read up to a limited
size, and none through a link."""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ragstone.errors import RagstoneError
from ragstone.evaluation.directory import MANIFEST
from ragstone.files import read_regular
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.pipeline.init import entrypoints
from ragstone.pipeline.init.entrypoints import NAMES, PATTERNS, Module, Proposal
from ragstone.system.entrypoint import entrypoint_or_none
from ragstone.system.environment import needs_env_entry

STARTER = "golden/golden.jsonl"  # the golden set that is written where there is none

# What is examined: more would take too long.
MAX_FILES = 5_000
MAX_FILES_OF_FOLDER = 500
MAX_DEPTH = 5
MAX_GOLDEN_CANDIDATES = 20
MAX_SOURCE_BYTES = 500_000
MAX_DATA_BYTES = 10_000_000  # of a notebook, a golden set, or all modules together


class Survey(NamedTuple):
    """What was found in a folder."""

    proposal: Proposal | None
    golden_file: str | None
    golden: GoldenSet | None
    sources: list[str]
    """Patterns of its source files."""
    variables: list[str]
    """The environment variables that its source reads."""
    services: list[str]
    """Folders in it that look like services of their own."""
    python: str | None
    """The interpreter of its virtual environment."""
    python_version: str | None


def survey(directory: Path) -> Survey:
    """Look for an entrypoint, a golden set and a virtual environment in `directory`."""
    files = _list_files(directory)
    modules: list[Module] = []
    total_size = 0
    limits = {".py": MAX_SOURCE_BYTES, ".ipynb": MAX_DATA_BYTES}
    for path in files:
        if path.suffix in limits and not PATTERNS["test"].fullmatch(path.stem):
            text = read_text(directory, path, limits[path.suffix])
            total_size += len(text)
            if total_size <= MAX_DATA_BYTES:
                modules.append(entrypoints.parse_module(path, text))
    golden_file, golden = _find_golden(directory, files)
    patterns, variables = set[str](), set[str]()
    paths = [module.path for module in modules]
    for path in (*paths, PurePosixPath(golden_file or STARTER)):
        is_in_folder = len(path.parts) > 1
        patterns.add(f"{path.parts[0]}/**" if is_in_folder else f"*{path.suffix}")
    for module in modules:
        variables.update(PATTERNS["variable"].findall(module.text))
        # An SDK reads its vendor's key from the environment by itself.
        vendors = PATTERNS["sdk"].findall(module.text)
        variables.update(f"{vendor.upper()}_API_KEY" for vendor in vendors)
    services = {
        path.parent.as_posix()
        for path in files
        if path.name in NAMES["services"] and 1 < len(path.parts) < 4
    }
    python, version = _find_python(directory)
    return Survey(
        proposal=_find_entrypoint(directory, modules),
        golden_file=golden_file,
        golden=golden,
        sources=sorted(patterns),
        variables=sorted(filter(needs_env_entry, variables)),
        services=sorted(services),
        python=python,
        python_version=version,
    )


def _find_python(directory: Path) -> tuple[str | None, str | None]:
    """The interpreter of the folder's virtual environment and its version, if they are
    known."""
    for path in NAMES["pythons"]:
        if (directory / path).exists():
            environment = path.partition("/")[0]
            config = read_text(directory, f"{environment}/pyvenv.cfg")
            version = PATTERNS["python_version"].search(config)
            return path, None if version is None else version[1]
    return None, None


def _list_files(directory: Path) -> list[PurePosixPath]:
    """The files below `directory`, nearest first, without links, hidden folders,
    environments, tests and runs."""
    files: list[PurePosixPath] = []
    for root, folders, names in os.walk(directory):  # which follows no links
        folder = PurePosixPath(Path(root).relative_to(directory).as_posix())
        if {"pyvenv.cfg", MANIFEST} & set(names):
            folders.clear()
            continue
        # Changed in place: os.walk goes on with the folders that remain.
        visible = {name for name in folders if name.isprintable() and name[0] != "."}
        folders[:] = sorted(visible - {*NAMES["skipped"]})
        if len(folder.parts) == MAX_DEPTH:
            folders.clear()
        readable = [
            folder / name
            for name in sorted(names)
            if name.isprintable() and not Path(root, name).is_symlink()
        ]
        files += readable[:MAX_FILES_OF_FOLDER]
        if len(files) > MAX_FILES:
            break
    return sorted(files, key=lambda path: (len(path.parts), str(path)))


def read_text(
    directory: Path, path: PurePosixPath | str, limit: int = MAX_SOURCE_BYTES
) -> str:
    """The text of a file below `directory`; empty if it can't be read, is outside the
    folder, or has more than `limit` bytes."""
    with suppress(OSError):
        return read_regular(directory / path, limit=limit, within=directory).decode(
            "utf-8-sig", "replace"
        )
    return ""


def _find_entrypoint(directory: Path, modules: list[Module]) -> Proposal | None:
    """The surest proposal; of equally sure ones, that of the nearest file. None if
    nothing in the source takes a question."""
    proposals: list[Proposal] = []
    models: dict[str, list[str]] = {}
    for module in modules:
        models |= module.fields()
    docker_port = PATTERNS["command_port"].search(read_text(directory, "Dockerfile"))
    for module in modules:
        port = entrypoints.port_of(module.text)
        if docker_port is not None:
            port = int(docker_port[1])
        with suppress(RecursionError):
            proposals += entrypoints.source_proposals(module)
            proposals += entrypoints.route_proposals(module, models, port)
    usable = [
        proposal
        for proposal in proposals
        if entrypoint_or_none(proposal.entrypoint) is not None
    ]
    return min(usable, key=lambda proposal: proposal.rank, default=None)


def _find_golden(
    directory: Path, files: list[PurePosixPath]
) -> tuple[str | None, GoldenSet | None]:
    """The nearest file that is named like a golden set, and can be read as one that has
    something to compare answers with."""
    candidates = [
        path
        for path in files
        if path.suffix.lower() in BY_ENDING and PATTERNS["golden"].search(str(path))
    ]
    for path in candidates[:MAX_GOLDEN_CANDIDATES]:
        pattern = glob.escape(str(path))
        with suppress(RagstoneError, OSError):
            if (directory / path).stat().st_size > MAX_DATA_BYTES:
                continue
            golden = load_golden_set([pattern], root=directory, within=directory)
            if golden.mappings[0].columns.keys() & NAMES["compared"]:
                return pattern, golden
    return None, None
