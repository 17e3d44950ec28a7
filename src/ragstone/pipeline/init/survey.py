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
    """What a folder says. `sources` are patterns of its source files, `variables` what
    they read of the environment, `services` folders that look like services of their
    own; `app` is a framework and what it serves: ``main:app``."""

    proposal: Proposal | None
    golden_file: str | None
    golden: GoldenSet | None
    sources: list[str]
    variables: list[str]
    services: list[str]
    app: tuple[str, str] | None
    python: str | None
    python_version: str | None


def survey(directory: Path) -> Survey:
    files = _list_files(directory)
    modules = _parse_modules(directory, files)
    golden_file, golden = _find_golden(directory, files)
    paths = [
        *(module.path for module in modules),
        PurePosixPath(golden_file or STARTER),
    ]
    variables = {
        name for module in modules for name in PATTERNS["variable"].findall(module.text)
    }
    variables |= {
        f"{vendor.upper()}_API_KEY"
        for module in modules
        for vendor in PATTERNS["sdk"].findall(module.text)
    }
    services = {
        path.parent.as_posix()
        for path in files
        if path.name in NAMES["services"] and 1 < len(path.parts) < 4
    }
    apps = [
        (module.path, PATTERNS["app"].search(module.text))
        for module in modules
        if module.path.suffix == ".py"
    ]
    served = [
        (app[2], f"{'.'.join(path.with_suffix('').parts)}:{app[1]}")
        for path, app in apps
        if app
    ]
    python = next(
        (place for place in NAMES["pythons"] if (directory / place).exists()), None
    )
    config = (
        read_text(directory, f"{python.partition('/')[0]}/pyvenv.cfg") if python else ""
    )
    return Survey(
        proposal=_find_entrypoint(directory, modules),
        golden_file=golden_file,
        golden=golden,
        sources=sorted(
            {
                f"{path.parts[0]}/**" if len(path.parts) > 1 else f"*{path.suffix}"
                for path in paths
            }
        ),
        variables=sorted(filter(may_pass, variables)),
        services=sorted(services),
        app=next(iter(served), None),
        python=python,
        python_version=next(iter(PATTERNS["python_version"].findall(config)), None),
    )


def _list_files(directory: Path) -> list[PurePosixPath]:
    """The files below `directory`, nearest first, without links, hidden folders,
    environments, tests and runs."""
    files: list[PurePosixPath] = []
    for place, folders, names in os.walk(directory):  # which follows no links
        folder = PurePosixPath(Path(place).relative_to(directory).as_posix())
        usual = {name for name in folders if name.isprintable() and name[0] != "."} - {
            *NAMES["skipped"]
        }
        is_other = bool({"pyvenv.cfg", MANIFEST} & set(names))
        folders[:] = [] if is_other or len(folder.parts) == MAX_DEPTH else sorted(usual)
        readable = [
            name
            for name in sorted(names)
            if name.isprintable() and not Path(place, name).is_symlink()
        ]
        files += [
            folder / name for name in readable[:MAX_FILES_OF_FOLDER] if not is_other
        ]
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
    models = {
        name: fields for module in modules for name, fields in module.fields().items()
    }
    for module in modules:
        neighbours = {
            neighbour.path.stem
            for neighbour in modules
            if neighbour.path.parent == module.path.parent
        }
        ports = [
            *PATTERNS["source_port"].findall(module.text),
            5000 if "Flask(" in module.text else 8000,
        ]
        with suppress(RecursionError):
            proposals += entrypoints.source_proposals(
                module, neighbours - {module.path.stem}
            )
            proposals += entrypoints.route_proposals(
                module, models, container_port(directory) or int(ports[0])
            )
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
