"""Tests and results of promptfoo, as rows of a golden set and of recorded answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from ragstone.golden.aliases import INSTEAD, RECORDED, normal
from ragstone.golden.asserted import TYPES, assertions
from ragstone.golden.cells import CellError
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
_ANSWERS = ("answer", *RECORDED["answer"].strong, *RECORDED["answer"].weak, "text")
_CONTEXTS = ("context", "contexts", *RECORDED["contexts"].strong)
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_TEMPLATE = re.compile(r"\{[{%#]")

Values = Mapping[str, Any]
Columns = dict[str, object]


def read_promptfoo(document: object) -> Table | None:
    """The rows of a config, of a list of tests, or of results; None for any other
    document."""
    # Under ``results.results``, or in older versions under ``results``.
    path: list[str] = []
    results: Any = document
    while isinstance(results, Mapping) and "results" in results:
        results = results["results"]
        path.append("results")
    is_whole = path and isinstance(results, list) and _are_tests(results)
    if is_whole and all("success" in item for item in results):
        return _results(".".join(path), results)
    if isinstance(document, list) and _are_tests(document):
        return _tests("", document, {})
    if isinstance(document, Mapping) and "tests" in document:
        tests = _as_list(document["tests"])
        if _are_tests(tests) or {"prompts", "providers", "targets"} & document.keys():
            return _tests("tests", tests, _mapping(document.get("defaultTest")))
    return None


# --- tests


def has_expectations(rows: Iterable[Row]) -> bool:
    """Whether a table has tests of promptfoo: columns ``__expected`` with assertions
    such as ``contains: 24``."""
    columns = [str(name) for row in islice(rows, 1) for name in row.values]
    return any(column.startswith(_EXPECTED) for column in columns)


def read_promptfoo_cells(rows: Iterable[Row]) -> Table:
    """The rows of a table that `has_expectations`."""
    reading = _Reading()
    for row in rows:
        asserted: list[dict[str, Any]] = []
        variables = {}
        for name, value in row.values.items():
            if not name.startswith("__"):
                variables[name] = value
            elif name.startswith(_EXPECTED) and isinstance(value, str):
                # A type, perhaps with a threshold, and a value; or the answer itself.
                kind, colon, expected = value.strip().partition(":")
                kind = kind.partition("(")[0]
                base = kind.removeprefix("not-")
                if base == "is-json":
                    asserted.append({"type": kind})
                elif colon and (base in TYPES or base in INSTEAD):
                    asserted.append({"type": kind, "value": expected.strip()})
                else:
                    asserted.append({"type": "equals", "value": value.strip()})
        reading.add(variables, asserted, row.line)
    return reading.table("")


def _are_tests(items: Sequence[object]) -> bool:
    return bool(items) and all(
        isinstance(item, Mapping) and isinstance(item.get("vars"), Mapping)
        for item in items
    )


def _tests(path: str, tests: Sequence[object], default: Values) -> Table:
    reading = _Reading()
    shared = _mapping(default.get("vars"))
    for position, test in enumerate(tests):
        if not isinstance(test, Mapping):
            reading.notes.add(
                "tests in other files are left out; name those files as golden sets too"
            )
            continue
        asserted = [*_as_list(default.get("assert")), *_as_list(test.get("assert"))]
        variables = {**shared, **_mapping(test.get("vars"))}
        reading.add(variables, asserted, line_of(tests, position))
    return reading.table(path)


# --- results


def _results(path: str, items: list[Any]) -> Table:
    """The results of the first prompt and provider: those of others are other answers
    to the same questions."""
    reading = _Reading()
    left_out = 0
    for position, item in enumerate(items):
        if _asked_of(item) != _asked_of(items[0]):
            left_out += 1
            continue
        asserted = _as_list(_mapping(item.get("testCase")).get("assert"))
        row = reading.add(item["vars"], asserted, line_of(items, position))
        row |= {"testIdx": item.get("testIdx", position), **_response(item)}
    if left_out:
        reading.notes.add(
            f"results of other prompts or providers than the first are left out ({left_out})"
        )
    return reading.table(path)


def _asked_of(result: Values) -> tuple[str, object]:
    """The provider and the prompt of a result."""
    provider = json.dumps(result.get("provider"), default=str)
    prompt = result.get("promptIdx", _mapping(result.get("prompt")).get("label"))
    return provider, prompt


def _response(result: Values) -> Columns:
    """The answer and the contexts of the system in a result."""
    response = _mapping(result.get("response"))
    output = response.get("output")
    row: Columns = {}
    if output is None:
        row["error"] = str(response.get("error") or result.get("error") or "no output")
    elif isinstance(output, str):
        row["actual_output"] = output
    else:
        written = json.dumps(output, ensure_ascii=False, default=str)
        row["actual_output"] = _named(output, _ANSWERS) or written
    for place in (output, response.get("metadata"), result["vars"]):
        contexts = _named(place, _CONTEXTS)
        if contexts is not None:
            row["retrieval_context"] = contexts
            break
    latency_ms = result.get("latencyMs")
    if isinstance(latency_ms, int | float) and not isinstance(latency_ms, bool):
        row["latency_s"] = latency_ms / 1000
    return row


def _named(value: object, names: Sequence[str]) -> object:
    """What `value` has under the first of `names`; None if it has none of them."""
    by_name = {normal(str(name)): item for name, item in _mapping(value).items()}
    for name in names:
        if by_name.get(name) is not None:
            return by_name[name]
    return None


def _mapping(value: object) -> Values:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


# --- rows


class _Reading:
    """Collects the rows of tests, and what of them is left out."""

    def __init__(self) -> None:
        self.notes: set[str] = set()
        self._rows: list[tuple[Columns, int | None]] = []

    def table(self, path: str) -> Table:
        rows = tuple(Row(values, line) for values, line in self._rows)
        return Table(path, rows, tuple(sorted(self.notes)))

    def add(
        self, variables: Values, asserted: Sequence[object], line: int | None
    ) -> Columns:
        """Add the row of a test; returns it."""
        row: Columns = {
            name: value
            for name, value in variables.items()
            if normal(str(name)) not in ("assert", "min", "max")
        }
        references: list[str] = []
        checked: list[Columns] = []
        for assertion in asserted:
            if not isinstance(assertion, Mapping):
                continue
            kind = str(assertion.get("type"))
            filled = _filled_in(assertion, variables)
            texts = _as_list(filled.get("value"))
            is_text = all(
                isinstance(text, str) and not text.startswith("file://")
                for text in texts
            )
            is_reference = kind in _REFERENCES and bool(texts) and is_text
            if is_reference:
                references += texts
            try:
                # Whether a golden row can make the assertion as it stands.
                is_checked = bool(filled and assertions([filled]))
            except CellError:
                is_checked = False
            if is_checked:
                checked.append(filled)
            elif not is_reference:
                instead = INSTEAD.get(kind.removeprefix("not-"))
                why = (
                    f"use {instead}"
                    if instead
                    else "its value or an option is not supported"
                )
                self.notes.add(f"an assertion {kind} is left out: {why}")
        if references:
            row["reference"] = list(dict.fromkeys(references))
        if checked:
            row["assert"] = checked
        self._rows.append((row, line))
        return row


def _filled_in(assertion: Values, variables: Values) -> dict[str, Any]:
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
        if isinstance(item, str):
            names = _SLOT.findall(item)
            if not all(isinstance(variables.get(name), str | int) for name in names):
                return {}
            item = _SLOT.sub(lambda slot: str(variables[slot[1]]), item)
            if _TEMPLATE.search(item):
                return {}
        texts.append(item)
    if texts:
        filled["value"] = texts if isinstance(value, list) else texts[0]
    return filled
