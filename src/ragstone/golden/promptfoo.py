"""Tests and results of promptfoo, as rows of a golden set and of recorded answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from ragstone.errors import GoldenSetError
from ragstone.formatting import counted
from ragstone.golden.aliases import FIELDS, INSTEAD, RECORDED, normal
from ragstone.golden.asserted import TYPES, assertions
from ragstone.golden.cells import CellError

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
_WRITTEN_TYPES = {"grade": "llm-rubric", "fn": "javascript", "eval": "javascript"}
"""Names of types in a cell that are none elsewhere."""

_MAX_CASES = 10_000
"""Number of cases that the lists of one test's variables may make."""

_QUESTIONS = (*FIELDS["question"].strong, *FIELDS["question"].weak)
_ANSWERS = ("answer", *RECORDED["answer"].strong, *RECORDED["answer"].weak, "text")
_CONTEXTS = ("context", "contexts", *RECORDED["contexts"].strong)
_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_TEMPLATE = re.compile(r"\{[{%#]")

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class PromptfooTable:
    """The rows in a document of promptfoo.

    `path` leads to `items`, the list that the rows are from; each row comes with the
    position of its item.
    """

    path: str
    items: Sequence[object]
    rows: list[tuple[Fields, int]]
    notes: tuple[str, ...]


def read_promptfoo(document: object) -> PromptfooTable | None:
    """The rows of a config, of a list of tests, or of results; None for any other
    document.

    Raises GoldenSetError for a test whose variables make too many cases.
    """
    path, items = _results_in(document)
    if items:
        return _results(path, items)
    if isinstance(document, list) and _are_tests(document):
        return _tests("", document, None)
    if isinstance(document, Mapping) and "tests" in document:
        tests = _as_list(document["tests"])
        if _are_tests(tests) or {"prompts", "providers", "targets"} & document.keys():
            return _tests("tests", tests, document.get("defaultTest"))
    return None


def read_promptfoo_cells(rows: Sequence[Mapping[str, object]]) -> PromptfooTable | None:
    """The rows of a table of tests, whose columns ``__expected`` have assertions such
    as ``contains: 24``.

    None for any other table.
    """
    if not any(name.startswith(_EXPECTED) for row in rows[:1] for name in row):
        return None
    table: list[tuple[Fields, int]] = []
    left_out: list[str] = []
    for position, cells in enumerate(rows):
        variables = {
            name: value for name, value in cells.items() if not name.startswith("__")
        }
        written = [value for name, value in cells.items() if name.startswith(_EXPECTED)]
        row, types = _row(
            variables,
            [_written_assertion(value) for value in written if isinstance(value, str)],
        )
        table.append((row, position))
        left_out += types
    return PromptfooTable("", rows, table, tuple(_left_out_notes(left_out)))


def _written_assertion(text: str) -> dict[str, Any]:
    """The assertion in a cell: a type, perhaps with a threshold, and a value; or the
    answer itself."""
    kind, colon, value = text.strip().partition(":")
    kind = _WRITTEN_TYPES.get(kind, kind.partition("(")[0])
    base = kind.removeprefix("not-")
    if base == "is-json":
        return {"type": kind}
    if colon and (base in TYPES or base in INSTEAD):
        return {"type": kind, "value": value.strip()}
    return {"type": "equals", "value": text.strip()}


def _are_tests(items: Sequence[object]) -> bool:
    return bool(items) and all(
        isinstance(item, Mapping) and isinstance(item.get("vars"), Mapping)
        for item in items
    )


def _tests(path: str, tests: Sequence[object], default: object) -> PromptfooTable:
    shared = _mapping(_mapping(default).get("vars"))
    rows: list[tuple[Fields, int]] = []
    left_out: list[str] = []
    for position, test in enumerate(tests):
        if not isinstance(test, Mapping):
            continue
        for variables in _cases({**shared, **_mapping(test.get("vars"))}):
            row, types = _row(variables, list(_assertions(test, default)))
            rows.append((row, position))
            left_out += types
    notes = _left_out_notes(left_out)
    if rows and not all(isinstance(test, Mapping) for test in tests):
        notes.append(
            "tests in other files are left out; name those files as golden sets too"
        )
    return PromptfooTable(path, tests, rows, tuple(notes))


def _results_in(document: object) -> tuple[str, list[Any]]:
    """The path and the list of the results: under ``results.results``, or in older
    versions under ``results``."""
    path = ""
    while isinstance(document, Mapping) and "results" in document:
        document = document["results"]
        path = f"{path}.results" if path else "results"
    items = document if isinstance(document, list) and path else []
    return path, items if items and all(_is_result(item) for item in items) else []


def _is_result(item: object) -> bool:
    return (
        isinstance(item, Mapping)
        and "success" in item
        and isinstance(item.get("vars"), Mapping)
    )


def _results(path: str, items: list[Any]) -> PromptfooTable:
    """The results of the first prompt and provider: those of others are other answers
    to the same questions."""
    chosen = [
        position
        for position, item in enumerate(items)
        if _asked_of(item) == _asked_of(items[0])
    ]
    rows: list[tuple[Fields, int]] = []
    left_out: list[str] = []
    for position in chosen:
        row, types = _result(items[position])
        rows.append((row, position))
        left_out += types
    questions = {_question(row) for row, _ in rows}
    if len(questions) < len(rows) or None in questions:
        rows = [
            ({"id": _test_id(items[position], position), **row}, position)
            for row, position in rows
        ]
    notes = _left_out_notes(left_out)
    if len(chosen) < len(items):
        other_results = counted(len(items) - len(chosen), "result")
        notes.append(
            f"{other_results} of other prompts or providers than the first left out"
        )
    return PromptfooTable(path, items, rows, tuple(notes))


def _asked_of(result: Mapping[str, Any]) -> tuple[str, object]:
    """The provider and the prompt of a result."""
    provider = json.dumps(result.get("provider"), default=str)
    prompt = result.get("promptIdx", _mapping(result.get("prompt")).get("label"))
    return provider, prompt


def _test_id(result: Mapping[str, Any], position: int) -> str:
    number = result.get("testIdx")
    return f"test-{number if isinstance(number, int) else position}"


def _question(row: Fields) -> str | None:
    by_name = {normal(name): value for name, value in row.items()}
    return next((str(by_name[name]) for name in _QUESTIONS if by_name.get(name)), None)


def _result(result: Mapping[str, Any]) -> tuple[Fields, list[str]]:
    """The row of a result: the question and reference of its test, and the answer and
    contexts of the system."""
    variables = _mapping(result["vars"])
    test, response = _mapping(result.get("testCase")), _mapping(result.get("response"))
    row, left_out = _row(variables, list(_assertions(test, None)))
    output = response.get("output")
    if output is None:
        row["error"] = str(response.get("error") or result.get("error") or "no output")
    else:
        row["actual_output"] = _answer(output)
    contexts = _contexts(result, response, output)
    if contexts is not None:
        row["retrieval_context"] = contexts
    latency_ms = result.get("latencyMs")
    if isinstance(latency_ms, int | float) and not isinstance(latency_ms, bool):
        row["latency_s"] = latency_ms / 1000
    return row, left_out


def _answer(output: object) -> str:
    if isinstance(output, str):
        return output
    answer = _named(output, _ANSWERS)
    return (
        answer
        if isinstance(answer, str)
        else json.dumps(output, ensure_ascii=False, default=str)
    )


def _contexts(
    result: Mapping[str, Any], response: Mapping[str, Any], output: object
) -> object:
    """The contexts in a result: what the provider returned, what an assertion took from
    it, or a variable."""
    graded = _mapping(result.get("gradingResult")).get("componentResults")
    components = [_mapping(component).get("metadata") for component in _as_list(graded)]
    places = [
        output,
        response.get("metadata"),
        result.get("metadata"),
        *components,
        result["vars"],
    ]
    candidates = (_named(place, _CONTEXTS) for place in places)
    return next((contexts for contexts in candidates if contexts is not None), None)


def _named(value: object, names: Sequence[str]) -> object:
    """What `value` has under the first of `names`; None if it has none of them."""
    by_name = {normal(str(name)): item for name, item in _mapping(value).items()}
    return next(
        (by_name[name] for name in names if by_name.get(name) is not None), None
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _assertions(test: Mapping[str, Any], default: object) -> Iterator[dict[str, Any]]:
    """The assertions of a test, those of its sets and of ``defaultTest`` too."""
    disabled = (
        str(_mapping(test.get("options")).get("disableDefaultAsserts")).lower()
        == "true"
    )
    inherited = [] if disabled else _as_list(_mapping(default).get("assert"))
    for assertion in [*inherited, *_as_list(test.get("assert"))]:
        whole = _mapping(assertion)
        is_set = whole.get("type") == "assert-set" and whole.get("threshold") is None
        members = _as_list(whole.get("assert")) if is_set else [assertion]
        yield from (dict(member) for member in members if isinstance(member, Mapping))


def _row(
    variables: Mapping[str, Any], asserted: list[dict[str, Any]]
) -> tuple[Fields, list[str]]:
    """The fields of a golden row that a test gives, and the types of assertions that it
    can't make."""
    checked: list[dict[str, Any]] = []
    left_out: list[str] = []
    references: list[str] = []
    for assertion in asserted:
        kind, value = str(assertion.get("type")), assertion.get("value")
        texts = [
            _filled_in(item, variables) if isinstance(item, str) else item
            for item in _as_list(value)
        ]
        if None in texts:  # the rest of the list would ask less
            left_out.append(kind)
            continue
        is_text = bool(texts) and all(
            isinstance(text, str) and not text.startswith("file://") for text in texts
        )
        is_reference = kind in _REFERENCES and is_text
        if is_reference:
            references += [str(text) for text in texts]
        filled = (
            {**assertion, "value": texts if isinstance(value, list) else texts[0]}
            if texts
            else assertion
        )
        if str(assertion.get("weight")) not in (
            "0",
            "0.0",
        ):  # every assertion must hold, whatever it weighs
            filled = {name: item for name, item in filled.items() if name != "weight"}
        if kind.removeprefix("not-") in TYPES and _is_checked(filled):
            checked.append(
                {name: filled[name] for name in ("type", "value") if name in filled}
            )
        elif not is_reference:
            left_out.append(kind)
    row: Fields = {
        name: value
        for name, value in variables.items()
        if normal(str(name)) not in ("assert", "min", "max")
    }
    if references:
        row["reference"] = list(dict.fromkeys(references))
    if checked:
        row["assert"] = checked
    return row, left_out


def _filled_in(text: str, variables: Mapping[str, Any]) -> str | None:
    """`text` with the variables that it names; None if it has anything else to fill
    in."""
    names = _SLOT.findall(text)
    if _TEMPLATE.search(_SLOT.sub("", text)) or not all(
        isinstance(variables.get(name), str | int) for name in names
    ):
        return None
    return _SLOT.sub(lambda slot: str(variables[slot[1]]), text)


def _is_checked(assertion: Mapping[str, object]) -> bool:
    """Whether a golden row can make the assertion as it stands."""
    try:
        return bool(assertions([assertion]))
    except CellError:
        return False


def _cases(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The variables of each case: a list of texts is one case for each. Raises
    GoldenSetError for too many."""
    choices = [
        value if _is_list_of_texts(value) else [value] for value in variables.values()
    ]
    if prod(map(len, choices)) > _MAX_CASES:
        raise GoldenSetError(
            f"the lists of one test's variables make more than {_MAX_CASES:,} cases.",
            where="tests",
        )
    return (dict(zip(variables, values, strict=True)) for values in product(*choices))


def _is_list_of_texts(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(text, str) for text in value)
    )


def _left_out_notes(kinds: list[str]) -> list[str]:
    notes = []
    for kind in dict.fromkeys(kinds):
        base = kind.removeprefix("not-")
        if base in TYPES:
            notes.append(
                f"an assertion {kind} is left out: its value is a template, or it has an unsupported option"
            )
        else:
            notes.append(
                f"the assertion {kind} is left out; use {INSTEAD.get(base, 'a metric of your own')}"
            )
    return notes
