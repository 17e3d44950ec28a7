"""What a folder says about its RAG system and its golden set. Files are read within
bounds, and none through a link."""

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
from ragstone.system.entrypoint import recognised
from ragstone.system.environment import may_pass

STARTER = "golden/golden.jsonl"  # the golden set that is written where there is none
MAX_FILES, MAX_FILES_OF_FOLDER, MAX_DEPTH, MAX_GOLDEN_CANDIDATES = 5_000, 500, 5, 20
MAX_SOURCE_BYTES, MAX_DATA_BYTES = 500_000, 10_000_000


class Survey(NamedTuple):
    """What a folder says."""

    proposal: Proposal | None
    golden_file: str | None
    golden: GoldenSet | None
    sources: list[str]
    """Patterns of its source files."""
    variables: list[str]
    """What its source reads of the environment."""
    services: list[str]
    """Folders that look like services of their own."""
    python: str | None
    python_version: str | None


def survey(directory: Path) -> Survey:
    files = _list_files(directory)
    modules: list[Module] = []
    size, limits = 0, {".py": MAX_SOURCE_BYTES, ".ipynb": MAX_DATA_BYTES}
    for path in files:
        if path.suffix in limits and not PATTERNS["test"].fullmatch(path.stem):
            text = read_text(directory, path, limits[path.suffix])
            size += len(text)
            if size <= MAX_DATA_BYTES:
                modules.append(entrypoints.parse_module(path, text))
    golden_file, golden = _find_golden(directory, files)
    patterns, variables = set[str](), set[str]()
    paths = [module.path for module in modules]
    for path in (*paths, PurePosixPath(golden_file or STARTER)):
        is_in_folder = len(path.parts) > 1
        patterns.add(f"{path.parts[0]}/**" if is_in_folder else f"*{path.suffix}")
    for module in modules:
        variables.update(PATTERNS["variable"].findall(module.text))
        # What an SDK reads by itself.
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
        variables=sorted(filter(may_pass, variables)),
        services=sorted(services),
        python=python,
        python_version=version,
    )


def _find_python(directory: Path) -> tuple[str | None, str | None]:
    """The interpreter of the folder's environment, and its version."""
    for place in NAMES["pythons"]:
        if (directory / place).exists():
            config = read_text(directory, f"{place.partition('/')[0]}/pyvenv.cfg")
            version = PATTERNS["python_version"].search(config)
            return place, None if version is None else version[1]
    return None, None


def _list_files(directory: Path) -> list[PurePosixPath]:
    """The files below `directory`, nearest first, without links, hidden folders,
    environments, tests and runs."""
    files: list[PurePosixPath] = []
    for place, folders, names in os.walk(directory):  # which follows no links
        folder = PurePosixPath(Path(place).relative_to(directory).as_posix())
        if {"pyvenv.cfg", MANIFEST} & set(names):
            folders.clear()
            continue
        usual = {name for name in folders if name.isprintable() and name[0] != "."}
        folders[:] = sorted(usual - {*NAMES["skipped"]})
        if len(folder.parts) == MAX_DEPTH:
            folders.clear()
        readable = [
            folder / name
            for name in sorted(names)
            if name.isprintable() and not Path(place, name).is_symlink()
        ]
        files += readable[:MAX_FILES_OF_FOLDER]
        if len(files) > MAX_FILES:
            break
    return sorted(files, key=lambda path: (len(path.parts), str(path)))


def read_text(
    directory: Path, path: PurePosixPath | str, limit: int = MAX_SOURCE_BYTES
) -> str:
    """The text of a file below `directory`; nothing if it can't be read, leads out, or
    has more than `limit` bytes."""
    with suppress(OSError):
        return read_regular(directory / path, limit=limit, within=directory).decode(
            "utf-8-sig", "replace"
        )
    return ""


def _find_entrypoint(directory: Path, modules: list[Module]) -> Proposal | None:
    """The surest proposal; of those that are equally sure, the one of the nearest
    file."""
    proposals: list[Proposal] = []
    models: dict[str, list[str]] = {}
    for module in modules:
        models |= module.fields()
    # That of the Dockerfile's command, or else the source's.
    named_port = PATTERNS["command_port"].search(read_text(directory, "Dockerfile"))
    for module in modules:
        port = entrypoints.port_of(module.text)
        if named_port is not None:
            port = int(named_port[1])
        with suppress(RecursionError):
            proposals += entrypoints.source_proposals(module)
            proposals += entrypoints.route_proposals(module, models, port)
    usable = [
        proposal
        for proposal in proposals
        if recognised(proposal.entrypoint) is not None
    ]
    return min(usable, key=lambda proposal: proposal.rank, default=None)


def _find_golden(
    directory: Path, files: list[PurePosixPath]
) -> tuple[str | None, GoldenSet | None]:
    """The nearest file with a telling name that reads as a golden set with something to
    compare answers with."""
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
