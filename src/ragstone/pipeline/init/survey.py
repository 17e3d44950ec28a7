"""What a folder says about its RAG system and its golden set. Files are read within
bounds, and none through a link."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
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
    app: tuple[str, str] | None
    """A framework and what it serves: ``main:app``."""
    python: str | None
    python_version: str | None


def survey(directory: Path) -> Survey:
    files = _list_files(directory)
    modules = _parse_modules(directory, files)
    golden_file, golden = _find_golden(directory, files)
    paths = [module.path for module in modules]
    paths.append(PurePosixPath(golden_file or STARTER))
    python, version = _find_python(directory)
    return Survey(
        proposal=_find_entrypoint(directory, modules),
        golden_file=golden_file,
        golden=golden,
        sources=sorted({_pattern(path) for path in paths}),
        variables=_find_variables(modules),
        services=_find_services(files),
        app=_find_app(modules),
        python=python,
        python_version=version,
    )


def _pattern(path: PurePosixPath) -> str:
    return f"{path.parts[0]}/**" if len(path.parts) > 1 else f"*{path.suffix}"


def _find_variables(modules: Iterable[Module]) -> list[str]:
    """The environment variables that the source reads, and those that an SDK reads for
    it."""
    variables = set[str]()
    for module in modules:
        variables.update(PATTERNS["variable"].findall(module.text))
        for vendor in PATTERNS["sdk"].findall(module.text):
            variables.add(f"{vendor.upper()}_API_KEY")
    return sorted(filter(may_pass, variables))


def _find_services(files: Iterable[PurePosixPath]) -> list[str]:
    folders = {
        path.parent.as_posix()
        for path in files
        if path.name in NAMES["services"] and 1 < len(path.parts) < 4
    }
    return sorted(folders)


def _find_app(modules: Iterable[Module]) -> tuple[str, str] | None:
    for module in modules:
        app = PATTERNS["app"].search(module.text)
        if app is not None and module.path.suffix == ".py":
            name = ".".join(module.path.with_suffix("").parts)
            return app[2], f"{name}:{app[1]}"
    return None


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


def _parse_modules(directory: Path, files: list[PurePosixPath]) -> list[Module]:
    """The modules and notebooks, nearest first, as far as there are not too many bytes
    of them."""
    modules: list[Module] = []
    size, limits = 0, {".py": MAX_SOURCE_BYTES, ".ipynb": MAX_DATA_BYTES}
    for path in files:
        if path.suffix in limits and not PATTERNS["test"].fullmatch(path.stem):
            text = read_text(directory, path, limits[path.suffix])
            size += len(text)
            modules += (
                [entrypoints.parse_module(path, text)] if size <= MAX_DATA_BYTES else []
            )
    return modules


def _find_entrypoint(directory: Path, modules: list[Module]) -> Proposal | None:
    """The surest proposal; of those that are equally sure, the one of the nearest
    file."""
    proposals: list[Proposal] = []
    models: dict[str, list[str]] = {}
    for module in modules:
        models |= module.fields()
    for module in modules:
        port = container_port(directory) or entrypoints.port_of(module.text)
        with suppress(RecursionError):
            proposals += entrypoints.source_proposals(module)
            proposals += entrypoints.route_proposals(module, models, port)
    usable = [
        proposal
        for proposal in proposals
        if recognised(proposal.entrypoint) is not None
    ]
    return min(usable, key=lambda proposal: proposal.rank, default=None)


def container_port(folder: Path) -> int | None:
    """The port on which the Dockerfile in `folder` serves: that of its command, or else
    the exposed one."""
    content = read_text(folder, "Dockerfile")
    port = PATTERNS["command_port"].search(content) or PATTERNS["exposed_port"].search(
        content
    )
    return int(port[1]) if port else None


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
            is_small = (directory / path).stat().st_size <= MAX_DATA_BYTES
            golden = (
                load_golden_set([pattern], root=directory, within=directory)
                if is_small
                else None
            )
            if golden and golden.mappings[0].columns.keys() & NAMES["compared"]:
                return pattern, golden
    return None, None
