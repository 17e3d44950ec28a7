"""Test runs and test files of DeepEval."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ragstone.app.survey.look import MAX_DATA_BYTES, MAX_SOURCE_BYTES
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.aliases import normal
from ragstone.golden.formats import json_text
from ragstone.golden.rows import SourceFile
from ragstone.tools.migrate.evaluation import Case, Evaluation, Grade, as_number, entry_of
from ragstone.tools.migrate.python_bounds import constants_of, number_of, parsed
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


def read_deepeval(root: Path, names: list[PurePosixPath]) -> Evaluation | None:
    """The newest test run among the files, and what the test files declare; None if there is neither."""
    found = Evaluation("deepeval", per_case=True)
    runs = [
        name
        for name in names
        if name.suffix == ".json" and (len(names) == 1 or "test_run" in name.name) and not name.name.startswith(".temp")
    ]
    for name in sorted(runs, key=lambda one: (one.name != ".latest_test_run.json", [-ord(sign) for sign in one.name])):
        cases = _test_run(SourceFile(root / name, str(name), root, limit=MAX_DATA_BYTES), found)
        if cases and not found.cases:
            found.files.append(str(name))
            found.cases = cases
        elif cases:
            found.left_out.append((str(name), "another test run; name it to migrate it"))
    asked: list[Case] = []
    asking: set[frozenset[str]] = set()
    for name in names:
        if name.suffix == ".py":
            _test_file(SourceFile(root / name, str(name), root, limit=MAX_SOURCE_BYTES), found, asked, asking)
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
    if not found.files and found.left_out:
        place, why = found.left_out[0]
        raise ConfigError("this test run can't be read.", where=place, hint=f"{why[0].upper()}{why[1:]}.")
    return found if found.files else None


def _keys(value: object) -> dict[str, Any]:
    return {normal(str(key)): one for key, one in value.items()} if isinstance(value, Mapping) else {}


def _test_run(source: SourceFile, found: Evaluation) -> list[Case]:
    try:
        document = _keys(json_text.read_document(source))
    except GoldenSetError:
        return []
    document = _keys(document.get("test_run_data")) or document
    if "test_run_link" in document and "test_cases" not in document:
        hint = "it is on Confident AI; run it once after `deepeval logout` to have it in a file"
        found.left_out.append((f"{source.name}: {document['test_run_link']}", hint))
    single, talks = document.get("test_cases"), document.get("conversational_test_cases")
    given = [*(single if isinstance(single, list) else []), *(talks if isinstance(talks, list) else [])]
    return [_case(_keys(one)) for one in given if isinstance(one, Mapping)]


def _case(given: dict[str, Any]) -> Case:
    turns = [_keys(one) for one in given.get("turns") or []]
    asked, said = (
        conversation([dict(one) for one in turns]) if turns else (given.get("input"), given.get("actual_output"))
    )
    spoken = next((one for one in reversed(turns) if one.get("role") == "assistant"), given)
    row = {
        "id": given.get("name"),
        "question": asked,
        "reference": given.get("expected_output") or given.get("expected_outcome"),
        "reference_contexts": given.get("context"),
        "tags": given.get("tags"),
    }
    answer: dict[str, object] | None = None
    if said is not None:
        answer = {"answer": said}
        if spoken.get("retrieval_context") is not None:
            answer["contexts"] = list(spoken["retrieval_context"])
        latency = as_number(given.get("completion_time"))
        answer |= {} if latency is None else {"latency_s": latency}
    grades = {}
    for one in map(_keys, given.get("metrics_data") or []):
        if one.get("flaky"):  # never decides
            grades[_name(one)] = Grade(as_number(one.get("score")))
        else:
            passed = one["success"] if isinstance(one.get("success"), bool) else False
            grades[_name(one)] = Grade(as_number(one.get("score")), as_number(one.get("threshold")), passed)
    success = given.get("success")
    kept = {key: value for key, value in row.items() if value not in (None, "", [])}
    return Case(kept, answer, grades, success if isinstance(success, bool) else None)


def _name(given: dict[str, Any]) -> str:
    return str(given.get("name") or "metric").removesuffix(" [GEval]")


def _test_file(source: SourceFile, found: Evaluation, asked: list[Case], asking: set[frozenset[str]]) -> None:
    """Add what a test file declares: metrics with their thresholds, rubrics, and test cases that are written out.

    `asking` are the metrics of each function or, where they stand outside of all, of each file.
    """
    try:
        module = parsed(source.read_bytes())
    except GoldenSetError:
        return
    if module is None or not any(_from_deepeval(node) for node in ast.walk(module)):
        return
    constants = constants_of(module)
    texts = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found.files.append(source.name)
    functions = (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    asking |= {names for part in (*functions,) or (module,) if (names := _metrics_in(part))}
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
        literal = {key: _literal(value, texts) for key, value in given.items()}
        place = f"{called} in {source.name}:{call.lineno}"
        if (called in _CASES or {"input", "actual_output"} <= given.keys()) and isinstance(literal.get("input"), str):
            asked.append(_case({key: list(one) if isinstance(one, tuple) else one for key, one in literal.items()}))
        elif called in _CASES or called == "ConversationalTestCase":
            found.left_out.append((place, "its input is not written out in the source"))
        elif called.endswith("Metric") or called == "GEval":
            name = str(literal.get("name") or (call.args and _literal(call.args[0], texts)) or called)
            name = name if called == "GEval" else called.removesuffix("Metric")
            bound = number_of(given.get("threshold"), constants)
            if "threshold" in given and bound is None:
                found.left_out.append((place, "its threshold is not written out in the source; 0.5 is assumed"))
            bound = 1.0 if literal.get("strict_mode") is True else _DEFAULT_THRESHOLD if bound is None else bound
            known = (*(one for case in found.cases for one in case.grades), *found.bounds)
            name = next((one for one in known if _same(one, name)), name)
            if called != "GEval" or _rubric(name, literal, given, found, place):
                found.bounds.setdefault(name, bound)


def _metrics_in(part: ast.AST) -> frozenset[str]:
    """The classes of the metrics that are made in a part of a module."""
    called = (node.func for node in ast.walk(part) if isinstance(node, ast.Call))
    names = (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in called)
    return frozenset(name for name in names if name.endswith("Metric") or name == "GEval")


def _same(one: str, other: str) -> bool:
    entry = entry_of(one)
    return normal(one) == normal(other) or (entry is not None and entry == entry_of(other))


def _rubric(
    name: str, literal: Mapping[str, object], given: Mapping[str, ast.expr], found: Evaluation, place: str
) -> bool:
    """Add what a G-Eval asks as a rubric. Whether it is written out."""
    steps = literal.get("evaluation_steps")
    written = [str(one) for one in steps] if isinstance(steps, list) else []
    text = "\n".join([str(literal["criteria"])] if literal.get("criteria") else written)
    if not text:
        found.left_out.append((place, "its criteria are not written out in the source"))
        return False
    params = given.get("evaluation_params")
    used = {one.attr for one in ast.walk(params) if isinstance(one, ast.Attribute)} if params is not None else set()
    sees = list(dict.fromkeys(seen for param, seen in _SEES.items() if param in used))
    found.metrics.setdefault(name, {"rubric": text[:_MAX_RUBRIC], **({"sees": sees} if sees else {})})
    return True


def _from_deepeval(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == "deepeval" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "deepeval"


def _literal(node: ast.expr, texts: Mapping[str, ast.expr]) -> Any:
    """The value of an expression that is written out, or of a variable that is; None for any other."""
    node = texts.get(node.id, node) if isinstance(node, ast.Name) else node
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
