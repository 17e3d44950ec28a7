"""Finds the evaluation under a path, and reads it with the reader of its tool."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from ragstone.app.survey.look import MAX_DATA_BYTES, MAX_SOURCE_BYTES, files_below, survey
from ragstone.errors import ConfigError
from ragstone.files import read_regular
from ragstone.golden.aliases import normal
from ragstone.golden.convert import native_lines
from ragstone.golden.formats.registry import BY_ENDING, format_of
from ragstone.golden.load import load_golden_set
from ragstone.golden.rows import SourceFile
from ragstone.tools.migrate.deepeval import read_deepeval
from ragstone.tools.migrate.evaluation import Case, Evaluation, entry_of, unique_ids
from ragstone.tools.migrate.promptfoo import read_promptfoo
from ragstone.tools.migrate.python_bounds import bounds_in
from ragstone.tools.migrate.ragas import ragas_tables, read_ragas

TOOLS = ("ragas", "deepeval", "promptfoo")
_CODE = (".js", ".cjs", ".mjs", ".ts", ".mts", ".cts")
_MAX_TABLES = 50
"""Number of tables that are read at most to find those of ragas."""


def find_evaluation(path: Path, tool: str | None, floors: Mapping[str, float]) -> Evaluation:
    """The evaluation in a file or a folder. `floors` are bounds that the user gives, by metric.

    Raises ConfigError if there is none, or those of several tools; GoldenSetError if it can't be read.
    """
    if not path.exists():
        raise ConfigError("there is no such file or folder.", where=str(path))
    whole, here = Path(os.path.abspath(path)), Path.cwd()  # noqa: PTH100 - links are not followed
    root = path if path.is_dir() else here if whole.is_relative_to(here) else path.parent
    if path.is_dir():
        names = list(files_below(root, hidden={".deepeval"}, tests=True))
    else:
        names = [PurePosixPath(whole.relative_to(here) if root == here else path.name)]
    readers = {"ragas": _ragas, "deepeval": read_deepeval, "promptfoo": read_promptfoo}
    found = {name: one for name, read in readers.items() if tool in (None, name) and (one := read(root, names))}
    if len(found) > 1 and "ragas" in found and not any(case.grades for case in found["ragas"].cases):
        del found["ragas"]  # a data set without scores is another tool's
    if len(found) > 1:
        several = " and ".join(f"{name} ({some.files[0]})" for name, some in found.items())
        raise ConfigError(
            f"evaluations of several tools were found: {several}.", where=str(path), hint="Choose one with --tool."
        )
    if not found:
        raise _nothing(path, names)
    one = next(iter(found.values()))
    if not one.cases and (golden := survey(root, ports=()).golden) is not None:
        one.files.append(golden.path)
        samples = load_golden_set([golden.path], root=root, within=root)
        one.cases = [Case(json.loads(line)) for line in native_lines(samples)]
    if not any(case.row.get("question") for case in one.cases):
        raise ConfigError("no question was found in it.", where=one.files[0])
    unasked = [case for case in one.cases if not case.row.get("question")]
    one.cases = [case for case in one.cases if case.row.get("question")]
    if unasked:
        one.left_out.append((f"{len(unasked):,} cases", "they have no question that is a text"))
    for name, bound in floors.items():
        known = next((metric for case in one.cases for metric in case.grades if _same(metric, name)), name)
        one.bounds[known] = bound
        one.translated.append((f"--floor {name}={bound:g}", "a bound of the metric"))
    unique_ids(one.cases)
    return one


def _same(metric: str, name: str) -> bool:
    one, other = entry_of(metric), entry_of(name)
    return normal(metric) == normal(name) or (
        one is not None and other is not None and one["metric"] == other["metric"]
    )


def _nothing(path: Path, names: Iterable[PurePosixPath]) -> ConfigError:
    code = [str(name) for name in names if name.suffix in _CODE and normal(name.stem).startswith("promptfoo")]
    if code:
        return ConfigError(
            "the config is a program, which is not executed.",
            where=str(path if path.is_file() else path / code[0]),
            hint="Write it as YAML (promptfoo accepts promptfooconfig.yaml), or migrate the results: "
            "promptfoo eval -o results.json, then ragstone migrate results.json",
        )
    return ConfigError(
        "no evaluation of ragas, DeepEval or promptfoo was found.",
        where=str(path),
        hint="Name its file: a table with question, answer and contexts; .deepeval/.latest_test_run.json or a test "
        "file; promptfooconfig.yaml or results.json.",
    )


def content(root: Path, name: PurePosixPath, limit: int = MAX_SOURCE_BYTES) -> bytes:
    """The content of a file below `root`; nothing if it can't be read or is too large."""
    try:
        return read_regular(root / name, limit=limit, within=root)
    except OSError:
        return b""


def _ragas(root: Path, names: list[PurePosixPath]) -> Evaluation | None:
    tables = [
        SourceFile(root / name, str(name), root)
        for name in names
        if name.suffix.lower() in BY_ENDING
        and not name.name.startswith((".", "package", "tsconfig"))
        and (len(names) == 1 or os.path.getsize(root / name) <= MAX_DATA_BYTES)  # noqa: PTH202
    ]
    if len(names) == 1 and tables:
        format_of(tables[0])
    ranked = sorted(ragas_tables(tables[:_MAX_TABLES]), key=lambda one: one[0], reverse=True)
    if not ranked:
        return None
    found = read_ragas(ranked[0][1])
    found.left_out += [(source.name, "another table; name it to migrate it") for _, source in ranked[1:]]
    columns = {normal(metric): metric for case in found.cases for metric in case.grades}

    def metric_of(word: str) -> str | None:
        entry = entry_of(word)
        same = (name for key, name in columns.items() if key == normal(word) or (entry and entry_of(name) == entry))
        return next(same, None)

    for name in names:
        if name.suffix == ".py":
            for metric, bound, line in bounds_in(content(root, name), metric_of):
                if metric not in found.bounds:
                    found.bounds[metric] = bound
                    found.translated.append((f"{bound:g} in {name}:{line}", f"the bound of {metric}"))
    return found
