"""Finds the evaluation under a path, and reads it with the reader of its tool."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ragstone.app.survey.look import files_below, survey
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.cells import CellError
from ragstone.golden.convert import native_lines
from ragstone.golden.load import load_golden_set
from ragstone.tools.migrate.deepeval import read_deepeval
from ragstone.tools.migrate.evaluation import Case, Evaluation, canonical, unique_ids
from ragstone.tools.migrate.promptfoo import read_promptfoo
from ragstone.tools.migrate.ragas import read_ragas

TOOLS = {"ragas": read_ragas, "deepeval": read_deepeval, "promptfoo": read_promptfoo}
_CODE = (".js", ".cjs", ".mjs", ".ts", ".mts", ".cts")


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
    try:
        found = [one for name, read in TOOLS.items() if tool in (None, name) and (one := read(root, names))]
    except CellError as error:
        raise GoldenSetError(f"a value {error}.", where=str(path)) from None
    except RecursionError:
        raise GoldenSetError("nested too deeply.", where=str(path)) from None
    if len(found) > 1 and found[0].tool == "ragas" and not any(case.grades for case in found[0].cases):
        del found[0]  # a data set without scores is another tool's
    if len(found) > 1:
        several = " and ".join(f"{one.tool} ({one.files[0]})" for one in found)
        raise ConfigError(
            f"evaluations of several tools were found: {several}.", where=str(path), hint="Choose one with --tool."
        )
    if not found:
        raise _nothing(path, names)
    _complete(found[0], root)
    for name, bound in floors.items():
        graded = (metric for case in found[0].cases for metric in case.grades)
        known = next((metric for metric in graded if canonical(metric) == canonical(name)), name)
        found[0].bounds[known] = bound
        found[0].translated.append((f"--floor {name}={bound:g}", "a bound of the metric"))
    return found[0]


def _complete(found: Evaluation, root: Path) -> None:
    """Take the golden set of the folder for an evaluation without cases. Raises ConfigError if nothing is asked."""
    if not found.cases and (golden := survey(root, ports=()).golden) is not None:
        found.files.append(golden.path)
        samples = load_golden_set([golden.path], root=root, within=root)
        found.cases = [Case(json.loads(line)) for line in native_lines(samples)]
    asked = [case for case in found.cases if case.row.get("question")]
    if not asked:
        reasons = "; ".join(f"{what}: {why}" for what, why in found.left_out[:3])
        raise ConfigError("no question was found in it.", where=found.files[0], hint=reasons or None)
    if len(asked) < len(found.cases):
        found.left_out.append((f"{len(found.cases) - len(asked):,} cases", "they have no question that is a text"))
    found.cases = asked
    unique_ids(found.cases)


def _nothing(path: Path, names: list[PurePosixPath]) -> ConfigError:
    code = [name for name in names if name.suffix in _CODE and name.stem.lower().startswith("promptfoo")]
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
