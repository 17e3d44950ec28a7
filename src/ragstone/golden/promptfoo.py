"""Tests and results of promptfoo, as rows of a golden set and of recorded answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from ragstone.golden.aliases import INSTEAD, RECORDED, normal
from ragstone.golden.asserted import TYPES, assertions
from ragstone.golden.cells import CellError, as_list, pick
from ragstone.golden.rows import Row, Table, line_of

_REFERENCES = frozenset(
    {
        "context-recall",
        "factuality",
        "similar",
        "answer-similarity",
        "equals",
        "model-graded-factuality",
    }
)
"""Assertions whose value is what the answer should say."""

_EXPECTED = "__expected"
_ANSWERS = ("answer", *RECORDED["answer"].names, "text")
_CONTEXTS = ("context", "contexts", *RECORDED["contexts"].strong)
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_TEMPLATE = re.compile(r"\{[{%#]")

Values = Mapping[str, Any]


def read_promptfoo(document: object) -> Table | None:
    """The rows of a config, of a list of tests, or of results; None for any other
    document."""
    # Under ``results.results``, or in older versions under ``results``.
    path: list[str] = []
    results: Any = document
    while isinstance(results, Mapping) and "results" in results:
        results = results["results"]
        path.append("results")
    if path and _are_tests(results) and all("success" in item for item in results):
        return _results(".".join(path), results)
    if _are_tests(document):
        return _tests("", _as_list(document), {})
    if isinstance(document, Mapping) and "tests" in document:
        tests = _as_list(document["tests"])
        sections = {"prompts", "providers", "targets"} & document.keys()
        if _are_tests(tests) or sections:
            default = _mapping(document.get("defaultTest"))
            return _tests("tests", tests, default)
    return None


# --- tests


def has_expectations(rows: Iterable[Row]) -> bool:
    """Whether a table has tests of promptfoo: columns ``__expected`` with assertions
    such as ``contains: 24``."""
    for row in islice(rows, 1):
        return any(str(name).startswith(_EXPECTED) for name in row.values)
    return False


def read_promptfoo_cells(rows: Iterable[Row]) -> Table:
    """The rows of a table that `has_expectations`."""
    reading = _Reading()
    for row in rows:
        asserted: list[dict[str, str]] = []
        variables = {}
        for name, value in row.values.items():
            if not name.startswith("__"):
                variables[name] = value
            elif name.startswith(_EXPECTED) and isinstance(value, str):
                asserted.append(_assertion_in(value))
        reading.add(variables, asserted, row.line)
    return reading.table("")


def _assertion_in(cell: str) -> dict[str, str]:
    """The assertion in a cell: a type, perhaps with a threshold, and a value; or the
    answer itself."""
    kind, colon, expected = cell.strip().partition(":")
    kind = kind.partition("(")[0]
    base = kind.removeprefix("not-")
    if base == "is-json":
        return {"type": kind}
    if colon and base in {*TYPES, *INSTEAD}:
        return {"type": kind, "value": expected.strip()}
    return {"type": "equals", "value": cell.strip()}


def _are_tests(items: object) -> bool:
    return (
        isinstance(items, list)
        and items != []
        and all(isinstance(_mapping(item).get("vars"), Mapping) for item in items)
    )


def _tests(path: str, tests: Sequence[object], default: Values) -> Table:
    reading = _Reading()
    shared = _mapping(default.get("vars"))
    shared_assertions = _as_list(default.get("assert"))
    for test in tests:
        if not isinstance(test, Mapping):
            reading.notes.add(
                "tests in other files are left out; name those files as golden sets too"
            )
            continue
        own_assertions = _as_list(test.get("assert"))
        asserted = [*shared_assertions, *own_assertions]
        own_variables = _mapping(test.get("vars"))
        variables = {**shared, **own_variables}
        reading.add(variables, asserted, line_of(test))
    return reading.table(path)


# --- results


def _results(path: str, items: list[Any]) -> Table:
    """The results of the first prompt and provider: those of others are other answers
    to the same questions."""
    reading = _Reading()
    left_out = 0
    first = _asked_of(items[0])
    for position, item in enumerate(items):
        if _asked_of(item) != first:
            left_out += 1
            continue
        test = _mapping(item.get("testCase"))
        asserted = _as_list(test.get("assert"))
        line = line_of(item)
        row = reading.add(item["vars"], asserted, line)
        row["testIdx"] = item.get("testIdx", position)
        row |= _response(item)
    if left_out:
        reading.notes.add(
            f"results of other prompts or providers than the first are left out ({left_out})"
        )
    return reading.table(path)


def _asked_of(result: Values) -> tuple[str, object]:
    """The provider and the prompt of a result."""
    provider = json.dumps(result.get("provider"), default=str)
    label = _mapping(result.get("prompt")).get("label")
    prompt = result.get("promptIdx", label)
    return provider, prompt


def _response(result: Values) -> dict[str, object]:
    """The answer and the contexts of the system in a result."""
    response = _mapping(result.get("response"))
    output = response.get("output")
    row: dict[str, object] = {}
    match output:
        case None:
            error = response.get("error") or result.get("error") or "no output"
            row["error"] = str(error)
        case str():
            row["actual_output"] = output
        case _:
            written = json.dumps(output, ensure_ascii=False, default=str)
            answer = pick(_mapping(output), _ANSWERS)
            row["actual_output"] = answer or written
    for place in (output, response.get("metadata"), result["vars"]):
        contexts = pick(_mapping(place), _CONTEXTS)
        if contexts is not None:
            row["retrieval_context"] = contexts
            break
    latency_ms = result.get("latencyMs")
    if isinstance(latency_ms, int | float) and not isinstance(latency_ms, bool):
        row["latency_s"] = latency_ms / 1000
    return row


def _mapping(value: object) -> Values:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[Any]:
    return [] if value is None else as_list(value)


# --- rows


class _Reading:
    """Collects the rows of tests, and what of them is left out."""

    def __init__(self) -> None:
        self.notes: set[str] = set()
        self._rows: list[Row] = []

    def table(self, path: str) -> Table:
        notes = tuple(sorted(self.notes))
        return Table(path, tuple(self._rows), notes)

    def add(
        self, variables: Values, asserted: Sequence[object], line: int | None
    ) -> dict[str, object]:
        """Add the row of a test; returns its values."""
        values: dict[str, object] = {
            name: value
            for name, value in variables.items()
            if normal(str(name)) not in ("assert", "min", "max")
        }
        references: list[str] = []
        checked: list[Values] = []
        for assertion in asserted:
            if not isinstance(assertion, Mapping):
                continue
            kind = str(assertion.get("type"))
            filled = _filled_in(assertion, variables)
            texts = _as_list(filled.get("value"))
            is_reference = kind in _REFERENCES and _are_texts(texts)
            if is_reference:
                references += texts
            if _is_checked(filled):
                checked.append(filled)
            elif not is_reference:
                base = kind.removeprefix("not-")
                instead = INSTEAD.get(base, "a plain value without options")
                self.notes.add(f"an assertion {kind} is left out: use {instead}")
        if references:
            values["reference"] = list(dict.fromkeys(references))
        if checked:
            values["assert"] = checked
        self._rows.append(Row(values, line))
        return values


def _are_texts(values: Sequence[object]) -> bool:
    """Whether there are values, and each is a text that isn't in another file."""
    for value in values:
        if not isinstance(value, str) or value.startswith("file://"):
            return False
    return len(values) > 0


def _is_checked(assertion: Values) -> bool:
    """Whether a golden row can make the assertion as it stands."""
    try:
        return bool(assertion and assertions([assertion]))
    except CellError:
        return False


def _filled_in(assertion: Values, variables: Values) -> Values:
    """The assertion with the variables that its value names; empty if it has anything
    else to fill in, or counts for nothing.

    Every assertion must hold, whatever it weighs.
    """
    if str(assertion.get("weight")) in ("0", "0.0"):
        return {}
    filled = {name: item for name, item in assertion.items() if name != "weight"}
    value = filled.get("value")
    texts: list[object] = []
    for item in _as_list(value):
        text = item
        if isinstance(item, str):
            text = _filled_in_text(item, variables)
            if text is None:
                return {}
        texts.append(text)
    if isinstance(value, list):
        filled["value"] = texts
    elif texts:
        filled["value"] = texts[0]
    return filled


def _filled_in_text(template: str, variables: Values) -> str | None:
    """The text with its variables; None if it has anything else to fill in."""
    for name in _VARIABLE.findall(template):
        if not isinstance(variables.get(name), str | int):
            return None
    text = _VARIABLE.sub(lambda slot: str(variables[slot[1]]), template)
    if _TEMPLATE.search(text):
        return None
    return text
