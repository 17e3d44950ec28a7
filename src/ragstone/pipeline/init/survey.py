"""What a folder says about its RAG system and its golden set. Files are read within bounds, and none through a link."""

from __future__ import annotations

import glob
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ragstone.errors import RagstoneError
from ragstone.evaluation.directory import MANIFEST
from ragstone.files import read_regular
from ragstone.golden.formats import yaml_document
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import load_golden_set
from ragstone.golden.rows import SourceFile
from ragstone.pipeline.init.entrypoints import (
    Module,
    Proposal,
    described_proposals,
    model_fields,
    parse_module,
    route_proposals,
    source_proposals,
    variables_in,
)
from ragstone.system.entrypoint import recognised
from ragstone.system.environment import may_pass

_PYTHONS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")
STARTER = "golden/golden.jsonl"
"""The golden set that is written where there is none."""

MAX_FILES = 5_000
MAX_FILES_OF_FOLDER = 500
MAX_DEPTH = 5
MAX_SOURCE_BYTES = 500_000
MAX_DATA_BYTES = 10_000_000
_MAX_GOLDEN_CANDIDATES = 20
_SKIPPED = {"node_modules", "site-packages", "__pycache__", "build", "dist", "tests", "test", "migrations", "target"}
_TEST = re.compile(r"test_.*|.*_test|conftest|setup|noxfile")
_GOLDEN = re.compile(r"golden|eval|(^|[^a-z])qa|question|test_?set|ground_?truth|benchmark|ragas", re.IGNORECASE)
_DESCRIPTION = re.compile(r"(openapi|swagger)\.(json|ya?ml)", re.IGNORECASE)
_COMPARED = {"reference", "relevant_ids", "reference_contexts", "answerable"}
_SERVICE_MARKS = ("Dockerfile", "requirements.txt", "pyproject.toml", "package.json")
_APP = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=\s*(FastAPI|Starlette|Litestar|Quart|Flask)\(", re.MULTILINE)
_COMMAND_PORT = re.compile(r"""(?:--port|-p|--bind|-b)[\s=",']+(?:[\w.]*:)?(?:\$\{PORT:-)?(\d+)""")
_EXPOSED_PORT = re.compile(r"^EXPOSE\s+(\d+)", re.MULTILINE)
_SOURCE_PORT = re.compile(r"\bport\s*=\s*(\d+)")


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """A file that reads as a golden set. `columns` says which columns are read as what."""

    path: str
    samples: int
    columns: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What a folder says. `sources` are patterns of its source files, `variables` what they read of the environment."""

    proposal: Proposal | None
    golden: GoldenFile | None
    sources: list[str]
    variables: list[str]
    app: str | None
    """The command that serves an app of FastAPI, Flask or the like, but for the port."""
    services: list[str]
    """Folders that look like services of their own."""
    python: str | None
    """The interpreter of an environment in the folder."""
    python_version: str | None
    """Its version, such as 3.12, if it is known."""


def survey(directory: Path) -> Survey:
    files = _list_files(directory)
    modules = _parse_modules(directory, files)
    golden = _find_golden(directory, files)
    variables: set[str] = set()
    sources: set[str] = {"golden/**"} if golden is None else set()
    for path in [*(module.path for module in modules), *([PurePosixPath(golden.path)] if golden else [])]:
        sources.add(f"{path.parts[0]}/**" if len(path.parts) > 1 else f"*{path.suffix}")
    for module in modules:
        variables |= variables_in(module.text)
    services = {path.parent.as_posix() for path in files if path.name in _SERVICE_MARKS and 2 <= len(path.parts) <= 3}
    python = next((place for place in _PYTHONS if (directory / place).exists()), None)
    return Survey(
        proposal=_find_entrypoint(directory, files, modules),
        golden=golden,
        sources=sorted(sources),
        variables=sorted(filter(may_pass, variables)),
        app=_find_app(modules),
        services=sorted(services),
        python=python,
        python_version=None if python is None else _python_version(directory / python.partition("/")[0]),
    )


def _list_files(directory: Path) -> list[PurePosixPath]:
    """The files below `directory`, nearest first, without links, hidden folders, environments, tests and runs."""
    files: list[PurePosixPath] = []
    for place, folders, names in os.walk(directory):  # which follows no links
        if {"pyvenv.cfg", MANIFEST} & set(names):
            folders.clear()
            continue
        here = PurePosixPath(Path(place).relative_to(directory).as_posix())
        usual_names = [name for name in names if name.isprintable() and not Path(place, name).is_symlink()]
        files += [here / name for name in sorted(usual_names)[:MAX_FILES_OF_FOLDER]]
        usual = [name for name in folders if name.isprintable() and name[0] != "." and name not in _SKIPPED]
        folders[:] = sorted(usual) if len(here.parts) < MAX_DEPTH else []
        if len(files) > MAX_FILES:
            break
    return sorted(files, key=lambda path: (len(path.parts), str(path)))


def read_text(directory: Path, path: PurePosixPath | str, limit: int = MAX_SOURCE_BYTES) -> str:
    """The text of a file below `directory`; nothing if it can't be read, leads out, or has more than `limit` bytes."""
    try:
        return read_regular(directory / path, limit=limit, within=directory).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def _parse_modules(directory: Path, files: list[PurePosixPath]) -> list[Module]:
    """The modules and notebooks, nearest first, as far as there are not too many bytes of them."""
    modules = []
    remaining = MAX_DATA_BYTES
    for path in files:
        if path.suffix not in (".py", ".ipynb") or _TEST.fullmatch(path.stem):
            continue
        text = read_text(directory, path, MAX_SOURCE_BYTES if path.suffix == ".py" else MAX_DATA_BYTES)
        remaining -= len(text)
        if remaining < 0:
            break
        modules.append(parse_module(path, text))
    return modules


def _find_entrypoint(directory: Path, files: list[PurePosixPath], modules: list[Module]) -> Proposal | None:
    """The surest proposal; of those that are equally sure, the one of the nearest file."""
    proposals: list[Proposal] = []
    models: dict[str, list[str]] = {}
    for module in modules:
        models.update(model_fields(module))
    for module in modules:
        neighbours = {other.path.stem for other in modules if other.path.parent == module.path.parent}
        proposals += source_proposals(module, neighbours - {module.path.stem})
        proposals += route_proposals(module, models, _service_port(directory, module))
    for path in files:
        if _DESCRIPTION.fullmatch(path.name):
            proposals += described_proposals(_document(directory, path), str(path))
    usable = [proposal for proposal in proposals if recognised(proposal.entrypoint) is not None]
    return min(usable, key=lambda proposal: proposal.rank, default=None)


def _service_port(directory: Path, module: Module) -> int:
    """The port of the Dockerfile's command, or the one that the module names, or the usual one."""
    port = container_port(directory)
    if port is not None:
        return port
    named = _SOURCE_PORT.search(module.text)
    if named is not None:
        return int(named[1])
    return 5000 if "Flask(" in module.text else 8000


def container_port(folder: Path) -> int | None:
    """The port on which the Dockerfile in `folder` serves: that of its command, or else the exposed one."""
    content = read_text(folder, "Dockerfile")
    port = _COMMAND_PORT.search(content) or _EXPOSED_PORT.search(content)
    return int(port[1]) if port else None


def _document(directory: Path, path: PurePosixPath) -> object:
    """A document in YAML, or in JSON, which is YAML too; None if it can't be read."""
    try:
        return yaml_document.read_document(SourceFile(directory / path, str(path), directory, limit=MAX_DATA_BYTES))
    except RagstoneError:
        return None


def _find_app(modules: list[Module]) -> str | None:
    for module in modules:
        app = _APP.search(module.text)
        if app is not None and module.path.suffix == ".py":
            name = shlex.quote(f"{'.'.join(module.path.with_suffix('').parts)}:{app[1]}")
            return f"flask --app {name} run" if app[2] == "Flask" else f"uvicorn {name}"
    return None


def _find_golden(directory: Path, files: list[PurePosixPath]) -> GoldenFile | None:
    """The nearest file with a telling name that reads as a golden set with something to compare answers with."""
    candidates = [path for path in files if path.suffix.lower() in BY_ENDING and _GOLDEN.search(str(path))]
    for path in candidates[:_MAX_GOLDEN_CANDIDATES]:
        pattern = glob.escape(str(path))
        try:
            if (directory / path).stat().st_size > MAX_DATA_BYTES:
                continue
            golden = load_golden_set([pattern], root=directory, within=directory)
        except (RagstoneError, OSError):
            continue
        columns = golden.mappings[0].columns
        if _COMPARED & columns.keys():
            read = [f"{name} from '{columns[name]}'" for name in ("question", "reference") if name in columns]
            return GoldenFile(pattern, len(golden), ", ".join(read))
    return None


def _python_version(environment: Path) -> str | None:
    config = read_text(environment, "pyvenv.cfg")
    version = re.search(r"^version(?:_info)? *= *(3\.\d{1,2})\b", config, re.MULTILINE)
    return version[1] if version else None
