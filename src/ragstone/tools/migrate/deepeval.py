"""Test runs and test files of DeepEval."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ragstone.app.survey.look import MAX_DATA_BYTES
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.formatting import counted
from ragstone.golden import cells
from ragstone.golden.aliases import normal
from ragstone.golden.formats import json_text
from ragstone.golden.promptfoo import as_list
from ragstone.golden.rows import SourceFile
from ragstone.tools.migrate.evaluation import Case, Evaluation, Grade, as_number, canonical, content, filled, text_of
from ragstone.tools.migrate.python_bounds import module_of, number_of, variables_of, word_of, words_of
from ragstone.tools.migrate.ragas import conversation

_DEFAULT_THRESHOLD = 0.5
_SEES = {
    "INPUT": "question",
    "ACTUAL_OUTPUT": "answer",
    "EXPECTED_OUTPUT": "reference",
    "CONTEXT": "contexts",
    "RETRIEVAL_CONTEXT": "contexts",
}
_MAX_RUBRIC = 4000
_CASES = ("LLMTestCase", "Golden")
_EVALUATES = frozenset(
    {"assert_test", "evaluate", "evals_iterator", "EvaluationDataset", "add_test_case", "add_golden"}
)
_MEASURES = frozenset({"measure", "a_measure"})
_SCORE = frozenset({"score", "success", "is_successful"})
_DOUBLE = re.compile(r"mock|fake|stub|^patch$", re.IGNORECASE)


def read_deepeval(root: Path, names: list[PurePosixPath]) -> Evaluation | None:
    """The newest test run among the files, and what the test files declare; None if there is neither."""
    found = Evaluation("deepeval", per_case=True)
    alone = len(names) == 1
    runs = [
        name
        for name in names
        if name.suffix == ".json" and (alone or "test_run" in name.name) and not name.name.startswith(".temp")
    ]
    for name in sorted(runs, key=lambda one: (one.name == ".latest_test_run.json", one.name), reverse=True):
        cases = _test_run(SourceFile(root / name, str(name), root, limit=MAX_DATA_BYTES), found, alone=alone)
        if cases and not found.cases:
            found.files.append(str(name))
            found.cases = cases
        elif cases:
            found.left_out.append((str(name), "another test run; name it to migrate it"))
    unread = found.left_out[:1]
    asked: list[Case] = []
    asking: set[frozenset[str]] = set()
    for name in names:
        if name.suffix == ".py":
            _test_file(root, name, found, asked, asking)
    scored = {name for case in found.cases for name in case.grades}
    for metric in [metric for metric in found.bounds if scored and metric not in scored]:
        del found.bounds[metric]
        found.metrics.pop(metric, None)
        found.left_out.append((f"metric {metric}", "the source declares it, but the test run has no score of it"))
    if not found.cases and len(asking) > 1:
        found.per_case = False
        why = "the source does not say which; thresholds apply to means. Migrate a test run to have them by case"
        found.left_out.append(("metrics that only some test cases are asked for", why))
    found.cases = found.cases or asked
    if not found.files and unread:
        place, why = unread[0]
        raise ConfigError("this test run can't be read.", where=place, hint=f"{why[0].upper()}{why[1:]}.")
    return found if found.files else None


def _keys(value: object) -> dict[str, Any]:
    return {normal(str(key)): one for key, one in value.items()} if isinstance(value, Mapping) else {}


def _test_run(source: SourceFile, found: Evaluation, *, alone: bool) -> list[Case]:
    try:
        document = _keys(json_text.read_document(source))
    except GoldenSetError as error:
        if not alone:  # a file that is named may be another tool's
            found.left_out.append((error.where or source.name, f"it can't be read: {error.message.rstrip('.')}"))
        return []
    document = _keys(document.get("test_run_data")) or document
    if "test_run_link" in document and "test_cases" not in document:
        hint = "it is on Confident AI; run it once after `deepeval logout` to have it in a file"
        found.left_out.append((f"{source.name}: {document['test_run_link']}", hint))
    given = [*as_list(document.get("test_cases")), *as_list(document.get("conversational_test_cases"))]
    return [_case(_keys(one)) for one in given if isinstance(one, Mapping)]


def _case(given: dict[str, Any]) -> Case:
    """A test case. Raises CellError for a value that can't be read."""
    asked, said, spoken = given.get("input"), given.get("actual_output"), given
    if turns := [_keys(one) for one in as_list(given.get("turns"))]:
        asked, said = conversation([dict(one) for one in turns])
        spoken = next((one for one in reversed(turns) if one.get("role") == "assistant"), given)
    row = {
        "id": given.get("name"),
        "question": asked,
        "reference": given.get("expected_output") or given.get("expected_outcome"),
        "reference_contexts": list(cells.contexts(given.get("context"))),
        "tags": given.get("tags"),
    }
    answer: dict[str, object] | None = None
    if said is not None:
        answer = {"answer": text_of(said)}
        if spoken.get("retrieval_context") is not None:
            answer["contexts"] = list(cells.contexts(spoken["retrieval_context"]))
        latency = as_number(given.get("completion_time"))
        answer |= {} if latency is None else {"latency_s": latency}
    grades = {}
    for one in map(_keys, as_list(given.get("metrics_data"))):
        grade = Grade(as_number(one.get("score")))
        if not one.get("flaky"):  # which never decides
            grade = Grade(grade.value, as_number(one.get("threshold")), one.get("success") is True)
        grades[str(one.get("name") or "metric").removesuffix(" [GEval]")] = grade
    success = given.get("success")
    return Case(filled(row), answer, grades, success if isinstance(success, bool) else None)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call in a test file: its arguments by name, as expressions and as far as they are written out; its place."""

    name: str
    node: ast.Call
    given: dict[str, ast.expr]
    literal: dict[str, Any]
    place: str


def _test_file(
    root: Path, name: PurePosixPath, found: Evaluation, asked: list[Case], asking: set[frozenset[str]]
) -> None:
    """Add what a test file declares: metrics with their thresholds, rubrics, and test cases that are written out.

    Test cases count where their file evaluates them; functions that test a metric itself don't count. `asking` are the
    metrics of each function or, where they stand outside of all, of each file.
    """
    module = module_of(content(root, name))
    imported = set(_imported(module))
    if not imported:
        return
    variables = variables_of(module)
    functions: set[ast.AST] = {
        one for one in ast.walk(module) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    of_metrics = {one for one in functions if _tests_a_metric(one)}
    inside = {node for one in of_metrics for node in ast.walk(one)}
    functions -= inside
    asking |= {names for part in functions or {module} if (names := _metrics_in(part))}
    calls = list(_calls(module, variables, name))
    evaluated = any(
        call.name in _EVALUATES and (call.name in imported or isinstance(call.node.func, ast.Attribute))
        for call in calls
        if call.node not in inside
    )
    evaluated = evaluated or any(_measures(one) for one in functions)
    before = len(asked), len(found.bounds)
    left_out: Counter[str] = Counter()
    for call in calls:
        is_case = call.name in _CASES or {"input", "actual_output"} <= call.given.keys()
        if is_case and call.node in inside:
            left_out["they test a metric: with a double, or by the score of an answer that is written out"] += 1
        elif is_case and not evaluated and call.name != "Golden":
            left_out["the file does not evaluate them: no assert_test, evaluate or EvaluationDataset"] += 1
        elif is_case and isinstance(call.literal.get("input"), str):
            asked.append(_case(call.literal))
        elif is_case or call.name == "ConversationalTestCase":
            found.left_out.append((call.place, "its input is not written out in the source"))
        elif (call.name.endswith("Metric") or call.name == "GEval") and call.node not in inside:
            _metric(call, variables, found)
    found.left_out += [(f"{counted(times, 'test case')} in {name}", why) for why, times in left_out.items()]
    if evaluated or (len(asked), len(found.bounds)) != before:
        found.files.append(str(name))


def _calls(module: ast.Module, variables: Mapping[str, ast.expr], name: PurePosixPath) -> Iterator[_Call]:
    values = {variable: _literal(value, {}) for variable, value in variables.items()}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and (called := word_of(node.func)) is not None:
            given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
            literal = {key: _literal(value, values) for key, value in given.items()}
            if called == "GEval" and node.args:
                literal = {"name": _literal(node.args[0], values), **literal}
            yield _Call(called, node, given, literal, f"{called} in {name}:{node.lineno}")


def _metric(call: _Call, variables: Mapping[str, ast.expr], found: Evaluation) -> None:
    """Add a metric that is made, with its threshold; of a G-Eval also what it asks."""
    name = str(call.literal.get("name") or call.name) if call.name == "GEval" else call.name.removesuffix("Metric")
    bound = number_of(call.given.get("threshold"), variables)
    if "threshold" in call.given and bound is None:
        found.left_out.append((call.place, "its threshold is not written out in the source; 0.5 is assumed"))
    bound = 1.0 if call.literal.get("strict_mode") is True else _DEFAULT_THRESHOLD if bound is None else bound
    known = (*(one for case in found.cases for one in case.grades), *found.bounds)
    name = next((one for one in known if canonical(one) == canonical(name)), name)
    if call.name == "GEval":
        steps = [str(one) for one in as_list(call.literal.get("evaluation_steps"))]
        text = "\n".join([str(call.literal["criteria"])] if call.literal.get("criteria") else steps)
        if not text:
            found.left_out.append((call.place, "its criteria are not written out in the source"))
            return
        params = call.given.get("evaluation_params")
        used = () if params is None else words_of(params)
        sees = list(dict.fromkeys(seen for param, seen in _SEES.items() if param in used))
        found.metrics.setdefault(name, filled({"rubric": text[:_MAX_RUBRIC], "sees": sees}))
    found.bounds.setdefault(name, bound)


def _metrics_in(part: ast.AST) -> frozenset[str]:
    """The classes of the metrics that are made in a part of a module."""
    called = (word_of(node.func) or "" for node in ast.walk(part) if isinstance(node, ast.Call))
    return frozenset(name for name in called if name.endswith("Metric") or name == "GEval")


def _tests_a_metric(function: ast.AST) -> bool:
    """Whether a function uses a double, or asserts the score of an answer that no call gave."""
    nodes = list(ast.walk(function))
    names = [
        one.arg if isinstance(one, ast.arg) else word_of(one) for one in nodes if not isinstance(one, ast.Constant)
    ]
    if any(_DOUBLE.search(name) for name in names if name is not None):
        return True
    asserted: list[ast.AST] = [one for one in nodes if isinstance(one, ast.Assert)]
    asserted += [one for one in nodes if isinstance(one, ast.Call) and (word_of(one.func) or "").startswith("assert")]
    scored = any(not _SCORE.isdisjoint(words_of(one)) for one in asserted)
    return scored and not all(_are_asked(function))


def _measures(function: ast.AST) -> bool:
    """Whether a function measures an answer that a call gave."""
    called = (word_of(one.func) for one in ast.walk(function) if isinstance(one, ast.Call))
    return not _MEASURES.isdisjoint(called) and any(_are_asked(function))


def _are_asked(function: ast.AST) -> list[bool]:
    """Of each answer in the test cases of a function, whether a call gave it, or a variable in it."""
    nodes = list(ast.walk(function))
    given = [one for one in nodes if isinstance(one, ast.Assign) and _has_call(one.value)]
    names = {word for one in given for target in one.targets for word in words_of(target)}
    answers = [one.value for one in nodes if isinstance(one, ast.keyword) and one.arg == "actual_output"]
    return [_has_call(one) or not names.isdisjoint(words_of(one)) for one in answers]


def _has_call(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Call) for one in ast.walk(node))


def _imported(module: ast.Module) -> Iterator[str]:
    """The names that a module imports from DeepEval."""
    for node in ast.walk(module):
        names = node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
        package = node.module if isinstance(node, ast.ImportFrom) else None
        yield from (one.name for one in names if (package or one.name).partition(".")[0] == "deepeval")


def _literal(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression that is written out, or of a variable that is; None for any other."""
    if isinstance(node, ast.Name):
        return values.get(node.id)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return list(value) if isinstance(value, tuple) else value
