"""Looks around in a folder for its RAG system and its golden set."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.directory import MANIFEST, SAMPLES
from ragstone.files import read_regular
from ragstone.golden.formats import yaml_document
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import load_golden_set
from ragstone.golden.rows import SourceFile
from ragstone.pipeline.survey import notebook, openapi
from ragstone.pipeline.survey.proposal import Proposal
from ragstone.pipeline.survey.python_code import Source, glue_of, parsed, proposals_of
from ragstone.system.entrypoint import parse_entrypoint
from ragstone.system.environment import may_pass

MAX_FILES = 5_000
MAX_DEPTH = 5
MAX_SOURCE_BYTES = 500_000
MAX_DATA_BYTES = 10_000_000
_MAX_CONFIG_BYTES = 10_000
MAX_CANDIDATES = 20
"""Number of files that are read as a golden set at most."""

_SKIPPED = frozenset(
    [
        "node_modules",
        "site-packages",
        "__pycache__",
        "venv",
        "env",
        "build",
        "dist",
        "tests",
        "test",
        "migrations",
        "target",
    ]
)
_TEST = re.compile(r"test_.*|.*_test|conftest|setup|noxfile")
_GOLDEN = re.compile(
    r"golden|eval|(^|[^a-z])qa|question|test_?set|ground_?truth|benchmark|ragas|quer(y|ies)", re.IGNORECASE
)
_COMPARED = frozenset({"reference", "relevant_ids", "reference_contexts", "answerable"})
_SHOWN = ("question", "reference", "relevant_ids")
MAX_VARIABLES = 20
_DOTENV = (".env", ".env.example", ".env.sample", ".env.template", "env.example")
_SETTING = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Z][A-Z0-9_]*)[ \t]*=", re.MULTILINE)
_NAME = re.compile(r"[A-Z][A-Z0-9_]+")
_DESCRIPTIONS = ("openapi.json", "openapi.yaml", "openapi.yml", "swagger.json", "swagger.yaml", "swagger.yml")


@dataclass(frozen=True, slots=True)
class FoundGolden:
    """A file that reads as a golden set. `columns` says which columns are read as what, in words."""

    path: str
    samples: int
    columns: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found: proposals, the surest first; a golden set; ports on which something listens.

    `python` is the interpreter of an environment in the folder, and `version` its version. `variables` are names of
    environment variables that the source reads.
    """

    proposals: tuple[Proposal, ...] = ()
    golden: FoundGolden | None = None
    ports: tuple[int, ...] = ()
    python: str | None = None
    version: str | None = None
    variables: tuple[str, ...] = ()


def survey(directory: Path, *, probe: bool = False, ports: Sequence[int] = openapi.PORTS) -> Survey:
    """Look around in `directory`. With `probe`, the services on `ports` are asked for their API description."""
    files = list(_files_below(directory))
    open_ports = openapi.listening(ports)
    beside: dict[PurePosixPath, set[str]] = {}
    for path in files:
        if path.suffix == ".py":
            beside.setdefault(path.parent, set()).add(path.stem)
    found, named = list(_in_descriptions(directory, files)), _variables(directory)
    is_package = PurePosixPath("src/__init__.py") in files
    for source in _sources(directory, files):
        if source.path.suffix == ".py":
            found += proposals_of(source, beside[source.path.parent], is_package=is_package)
            named.update(source.variables())
        elif glue := glue_of(source):
            found.append(glue)
    if probe:
        found += [proposal for port in open_ports for proposal in openapi.proposals_on(port)]
    python = _interpreter(directory)
    return Survey(
        proposals=tuple(sorted((one for one in found if _usable(one)), key=_order)),
        golden=_golden(directory, files),
        ports=open_ports,
        python=python,
        variables=tuple(sorted(name for name in named if _NAME.fullmatch(name) and may_pass(name)))[:MAX_VARIABLES],
        version=None if python is None else _version(directory / PurePosixPath(python).parts[0]),
    )


def _order(proposal: Proposal) -> tuple[int, int, str]:
    return proposal.rank, proposal.entrypoint.count("."), proposal.entrypoint


def _usable(proposal: Proposal) -> bool:
    try:
        parse_entrypoint(proposal.entrypoint)
    except ConfigError:
        return False
    return proposal.entrypoint.isprintable() and proposal.why.isprintable()


def _files_below(directory: Path) -> Iterator[PurePosixPath]:
    """The files below `directory`, nearest first, without links, hidden folders, environments, tests and runs."""
    level, seen = [PurePosixPath()], 0
    for _ in range(MAX_DEPTH):
        below: list[PurePosixPath] = []
        for folder in level:
            try:
                with os.scandir(directory / folder) as listed:
                    entries = sorted(listed, key=lambda entry: entry.name)
            except OSError:
                continue
            names = {entry.name for entry in entries}
            if "pyvenv.cfg" in names or {MANIFEST, SAMPLES} <= names:
                continue
            for entry in entries:
                seen += 1
                if seen > MAX_FILES:
                    return
                if entry.is_symlink() or entry.name.startswith("."):
                    continue
                if entry.is_file(follow_symlinks=False):
                    yield folder / entry.name
                elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                    below.append(folder / entry.name)
        level = below


def _sources(directory: Path, files: Sequence[PurePosixPath]) -> Iterator[Source]:
    """The modules and the notebooks, as far as there are not too many bytes of them."""
    modules = [path for path in files if path.suffix == ".py" and not _TEST.fullmatch(path.stem)]
    for path in _small(directory, modules, MAX_SOURCE_BYTES):
        yield Source(path, parsed(_content(directory, path, MAX_SOURCE_BYTES)))
    for path in _small(directory, [path for path in files if path.suffix == ".ipynb"], MAX_DATA_BYTES):
        if code := notebook.code_of(_content(directory, path, MAX_DATA_BYTES)):
            yield Source(path, parsed(code))


def _small(directory: Path, files: Iterable[PurePosixPath], limit: int) -> Iterator[PurePosixPath]:
    """Those of `files` that have at most `limit` bytes, the nearest first, and at most MAX_DATA_BYTES together."""
    left = MAX_DATA_BYTES
    for path in files:
        try:
            size = (directory / path).stat().st_size
        except OSError:
            continue
        if size <= min(limit, left):
            left -= size
            yield path


def _variables(directory: Path) -> set[str]:
    """Names of the variables in dotenv files."""
    texts = (_content(directory, PurePosixPath(name), _MAX_CONFIG_BYTES) for name in _DOTENV)
    return {name for text in texts for name in _SETTING.findall(text.decode(errors="replace"))}


def _in_descriptions(directory: Path, files: Sequence[PurePosixPath]) -> Iterator[Proposal]:
    described = [path for path in files if path.name.lower() in _DESCRIPTIONS]
    for path in _small(directory, described, MAX_DATA_BYTES):
        yield from openapi.proposals_in(_document(directory, path), str(path))


def _document(directory: Path, path: PurePosixPath) -> object:
    try:
        if path.suffix == ".json":
            return json.loads(_content(directory, path, MAX_DATA_BYTES))
        return yaml_document.read_document(SourceFile(directory / path, str(path), directory))
    except (ValueError, RecursionError, OSError, GoldenSetError):
        return None


def _content(directory: Path, path: PurePosixPath, limit: int) -> bytes:
    """The file's content; nothing if it can't be read or is too large."""
    try:
        return read_regular(directory / path, limit=limit, within=directory)
    except OSError:
        return b""


def _golden(directory: Path, files: Sequence[PurePosixPath]) -> FoundGolden | None:
    """The nearest file with a telling name that reads as a golden set with something to compare answers with."""
    candidates = [
        path
        for path in files
        if path.suffix.lower() in BY_ENDING and _GOLDEN.search(str(path)) and path.name.lower() not in _DESCRIPTIONS
    ]
    for path in islice(_small(directory, candidates, MAX_DATA_BYTES), MAX_CANDIDATES):
        pattern = glob.escape(str(path))
        try:
            found = load_golden_set([pattern], root=directory, within=directory)
        except (GoldenSetError, ConfigError, OSError):
            continue
        columns = found.mappings[0].columns
        if _COMPARED & columns.keys() and pattern.isprintable():
            read = ", ".join(f"{name} from '{column}'" for name, column in columns.items() if name in _SHOWN)
            return FoundGolden(pattern, len(found), read)
    return None


def _interpreter(directory: Path) -> str | None:
    """The interpreter of an environment in the folder, as a path relative to it."""
    places = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")
    return next((place for place in places if os.path.exists(directory / place)), None)  # noqa: PTH110 - false if unreadable


def _version(environment: Path) -> str | None:
    """The version of Python in `environment`, such as 3.12, as its pyvenv.cfg says."""
    found = re.search(
        r"^version(?:_info)? *= *(3\.\d{1,2})\b",
        _content(environment, PurePosixPath("pyvenv.cfg"), _MAX_CONFIG_BYTES).decode(errors="replace"),
        re.MULTILINE,
    )
    return None if found is None else found[1]
