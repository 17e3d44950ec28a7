"""Reads tests and results of promptfoo as rows of a golden set and of recorded
answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ragstone.golden.aliases import INSTEAD, RECORDED, normalise_name
from ragstone.golden.cells import CellError, as_list, find_by_key
from ragstone.golden.promptfoo_assertions import ASSERTION_TYPES, to_assertions
from ragstone.golden.rows import Row, Table, line_of

_REFERENCE_TYPES = frozenset(
    {
        "context-recall",
        "factuality",
        "similar",
        "answer-similarity",
        "equals",
        "model-graded-factuality",
    }
)
"""The types of assertions whose value is a reference answer."""

_EXPECTED_PREFIX = "__expected"
"""How the names of columns with assertions begin: ``__expected``, ``__expected1``."""

_ANSWER_KEYS = ("answer", *RECORDED["answer"].names, "text")
_CONTEXT_KEYS = ("context", "contexts", *RECORDED["contexts"].strong)

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
"""A variable in a template of promptfoo: ``{{city}}``."""

_TEMPLATE_START = re.compile(r"\{[{%#]")
"""The start of any other part of a template, such as a filter or a condition."""

Values = Mapping[str, Any]


def read_promptfoo(document: object) -> Table | None:
    """Return the rows of a config, of a list of tests, or of results; None for any other
    document."""
    # Results are under ``results.results``, or in older versions under ``results``.
    path: list[str] = []
    results: Any = document
    while isinstance(results, Mapping) and "results" in results:
        results = results["results"]
        path.append("results")
    if path and _are_tests(results) and all("success" in item for item in results):
        return _table_of_results(".".join(path), results)
    if _are_tests(document):
        return _table_of_tests("", _as_list(document), default_test={})
    if isinstance(document, Mapping) and "tests" in document:
        tests = _as_list(document["tests"])
        has_config_keys = not document.keys().isdisjoint(
            {"prompts", "providers", "targets"}
        )
        if _are_tests(tests) or has_config_keys:
            default_test = _as_mapping(document.get("defaultTest"))
            return _table_of_tests("tests", tests, default_test)
    return None


# --- tests


def has_expectations(rows: Iterable[Row]) -> bool:
    """Whether a table of cells has tests of promptfoo: columns ``__expected`` with
    assertions such as ``contains: 24``."""
    first_row = next(iter(rows), None)
    if first_row is None:
        return False
    return any(str(name).startswith(_EXPECTED_PREFIX) for name in first_row.values)


def read_promptfoo_cells(rows: Iterable[Row]) -> Table:
    """Return the rows of a table for which `has_expectations` is true."""
    builder = _TableBuilder()
    for row in rows:
        assertions: list[dict[str, str]] = []
        variables = {}
        for name, value in row.values.items():
            if not name.startswith("__"):
                variables[name] = value
            elif name.startswith(_EXPECTED_PREFIX) and isinstance(value, str):
                assertions.append(_assertion_of_cell(value))
        builder.add_row(variables, assertions, row.line)
    return builder.table("")


def _assertion_of_cell(cell: str) -> dict[str, str]:
    """Return the assertion in a cell: a type and a value, as in ``similar(0.8): Paris``,
    or the answer itself."""
    type_with_threshold, colon, value = cell.strip().partition(":")
    assertion_type = type_with_threshold.partition("(")[0]
    base = assertion_type.removeprefix("not-")
    if base == "is-json":
        return {"type": assertion_type}
    if colon and base in {*ASSERTION_TYPES, *INSTEAD}:
        return {"type": assertion_type, "value": value.strip()}
    return {"type": "equals", "value": cell.strip()}


def _are_tests(items: object) -> bool:
    """Whether `items` is a list of objects with variables, and not empty."""
    return (
        isinstance(items, list)
        and items != []
        and all(isinstance(_as_mapping(item).get("vars"), Mapping) for item in items)
    )


def _table_of_tests(path: str, tests: Sequence[object], default_test: Values) -> Table:
    builder = _TableBuilder()
    default_variables = _as_mapping(default_test.get("vars"))
    default_assertions = _as_list(default_test.get("assert"))
    for test in tests:
        if not isinstance(test, Mapping):
            builder.notes.add(
                "tests in other files are left out; name those files as golden sets too"
            )
            continue
        own_assertions = _as_list(test.get("assert"))
        own_variables = _as_mapping(test.get("vars"))
        builder.add_row(
            variables={**default_variables, **own_variables},
            assertions=[*default_assertions, *own_assertions],
            line=line_of(test),
        )
    return builder.table(path)


# --- results


def _table_of_results(path: str, results: list[Any]) -> Table:
    """Return the results of the first prompt and provider; those of others are other
    answers to the same questions."""
    builder = _TableBuilder()
    left_out_count = 0
    first_variant = _variant_of(results[0])
    for position, result in enumerate(results):
        if _variant_of(result) != first_variant:
            left_out_count += 1
            continue
        test = _as_mapping(result.get("testCase"))
        assertions = _as_list(test.get("assert"))
        row = builder.add_row(result["vars"], assertions, line_of(result))
        row["testIdx"] = result.get("testIdx", position)
        row |= _response_columns(result)
    if left_out_count:
        builder.notes.add(
            f"results of other prompts or providers than the first are left out ({left_out_count})"
        )
    return builder.table(path)


class _Variant(Struct, frozen=True):
    """What the questions of a result were asked with."""

    provider: str
    prompt: object


def _variant_of(result: Values) -> _Variant:
    provider = json.dumps(result.get("provider"), default=str)
    label = _as_mapping(result.get("prompt")).get("label")
    return _Variant(provider, prompt=result.get("promptIdx", label))


def _response_columns(result: Values) -> dict[str, object]:
    """Return the columns of recorded answers for the system's response in a result."""
    response = _as_mapping(result.get("response"))
    output = response.get("output")
    columns: dict[str, object] = {}
    match output:
        case None:
            error = response.get("error") or result.get("error") or "no output"
            columns["error"] = str(error)
        case str():
            columns["actual_output"] = output
        case _:
            output_json = json.dumps(output, ensure_ascii=False, default=str)
            answer = find_by_key(_as_mapping(output), _ANSWER_KEYS)
            columns["actual_output"] = answer or output_json
    for holder in (output, response.get("metadata"), result["vars"]):
        contexts = find_by_key(_as_mapping(holder), _CONTEXT_KEYS)
        if contexts is not None:
            columns["retrieval_context"] = contexts
            break
    latency_ms = result.get("latencyMs")
    if isinstance(latency_ms, int | float) and not isinstance(latency_ms, bool):
        columns["latency_s"] = latency_ms / 1000
    return columns


def _as_mapping(value: object) -> Values:
    """Return `value` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[Any]:
    """Return `value` as a list, which is empty for None."""
    return [] if value is None else as_list(value)


# --- rows


class _TableBuilder:
    """Collects the rows of tests, and notes on what is left out of them."""

    def __init__(self) -> None:
        self.notes: set[str] = set()
        self._rows: list[Row] = []

    def table(self, path: str) -> Table:
        notes = tuple(sorted(self.notes))
        return Table(path, tuple(self._rows), notes)

    def add_row(
        self, variables: Values, assertions: Sequence[object], line: int | None
    ) -> dict[str, object]:
        """Add the row of a test, and return its values, to which more may be added."""
        # A variable with the name of one of these fields is not the field.
        values: dict[str, object] = {
            name: value
            for name, value in variables.items()
            if normalise_name(str(name)) not in ("assert", "min", "max")
        }
        references: list[str] = []
        supported: list[Values] = []
        for assertion in assertions:
            if not isinstance(assertion, Mapping):
                continue
            assertion_type = str(assertion.get("type"))
            filled = _fill_in_assertion(assertion, variables)
            texts = _as_list(filled.get("value"))
            is_reference = assertion_type in _REFERENCE_TYPES and _are_texts(texts)
            if is_reference:
                references += texts
            if _is_supported(filled):
                supported.append(filled)
            elif not is_reference:
                base = assertion_type.removeprefix("not-")
                instead = INSTEAD.get(base, "a plain value without options")
                self.notes.add(
                    f"an assertion {assertion_type} is left out: use {instead}"
                )
        if references:
            values["reference"] = list(dict.fromkeys(references))
        if supported:
            values["assert"] = supported
        self._rows.append(Row(values, line))
        return values


def _are_texts(values: Sequence[object]) -> bool:
    """Whether each of `values` is a text, and not a link to a file; False if there are
    none."""
    for value in values:
        if not isinstance(value, str) or value.startswith("file://"):
            return False
    return len(values) > 0


def _is_supported(assertion: Values) -> bool:
    """Whether the column `assert` of a golden row may have this assertion."""
    try:
        return bool(assertion and to_assertions([assertion]))
    except CellError:
        return False


def _fill_in_assertion(assertion: Values, variables: Values) -> Values:
    """Return the assertion with the variables in its value filled in, and without its
    weight: in a golden set, every assertion must hold.

    Empty if the weight is 0, or if the value has anything else to fill in.
    """
    if str(assertion.get("weight")) in ("0", "0.0"):
        return {}
    filled = {key: item for key, item in assertion.items() if key != "weight"}
    value = filled.get("value")
    items: list[object] = []
    for item in _as_list(value):
        filled_item = item
        if isinstance(item, str):
            filled_item = _fill_in_text(item, variables)
            if filled_item is None:
                return {}
        items.append(filled_item)
    if isinstance(value, list):
        filled["value"] = items
    elif items:
        filled["value"] = items[0]
    return filled


def _fill_in_text(template: str, variables: Values) -> str | None:
    """Return the text with its variables filled in, None if it has anything else to fill
    in."""
    for name in _VARIABLE.findall(template):
        if not isinstance(variables.get(name), str | int):
            return None
    text = _VARIABLE.sub(lambda match: str(variables[match[1]]), template)
    # The value of a variable may be a template too.
    if _TEMPLATE_START.search(text):
        return None
    return text
