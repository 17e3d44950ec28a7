"""Tests of promptfoo: variables and assertions, as rows of a golden set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from ragstone.errors import GoldenSetError
from ragstone.golden.aliases import INSTEAD, normal
from ragstone.golden.asserted import TYPES, assertions
from ragstone.golden.cells import CellError

_REFERENCES = frozenset(
    {"context-recall", "factuality", "similar", "answer-similarity", "equals", "model-graded-factuality"}
)
"""Assertions whose value is what the answer should say."""

_MAX_CASES = 10_000
"""Number of cases that the lists of one test's variables may make."""


def is_config(document: object) -> bool:
    """Whether a document is a config of promptfoo."""
    return (
        isinstance(document, Mapping)
        and "tests" in document
        and bool({"prompts", "providers", "targets"} & {*document})
    )


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def assertions_in(tests: Mapping[str, Any], default: object) -> Iterator[dict[str, Any]]:
    """The assertions of a test, those of its sets and of ``defaultTest`` too."""
    inherited = default.get("assert") if isinstance(default, Mapping) else None
    options = tests.get("options")
    left_out = isinstance(options, Mapping) and str(options.get("disableDefaultAsserts")).lower() == "true"
    for one in [*([] if left_out else as_list(inherited)), *as_list(tests.get("assert"))]:
        if isinstance(one, Mapping):
            whole = one.get("type") == "assert-set" and one.get("threshold") is None
            yield from assertions_in(one, None) if whole else [dict(one)]


def row_of(
    variables: Mapping[str, object], asserted: list[dict[str, Any]], render: Callable[[str], str | None]
) -> tuple[dict[str, object], list[str]]:
    """The fields of a golden row that a test gives, and the types of assertions that it can't make."""
    kept, left_out, references = [], [], []
    for one in asserted:
        kind, value = str(one.get("type")), one.get("value")
        texts = [render(item) if isinstance(item, str) else item for item in as_list(value)]
        if None in texts:  # what is left of the list would ask less
            left_out.append(kind)
            continue
        written = bool(texts) and all(isinstance(item, str) and not item.startswith("file://") for item in texts)
        if kind in _REFERENCES and written:
            references += texts
        filled = {**one, "value": texts if isinstance(value, list) else texts[0]} if texts else one
        if str(one.get("weight")) not in ("0", "0.0"):  # every assertion must hold, whatever it weighs in the score
            filled = {key: item for key, item in filled.items() if key != "weight"}
        if kind.removeprefix("not-") in TYPES and _is_checked(filled):
            kept.append({key: filled[key] for key in ("type", "value") if key in filled})
        elif not (kind in _REFERENCES and written):
            left_out.append(kind)
    row = {key: value for key, value in variables.items() if normal(key) not in ("assert", "min", "max")}
    if references:
        row["reference"] = list(dict.fromkeys(references))
    return {**row, **({"assert": kept} if kept else {})}, left_out


def _is_checked(one: Mapping[str, object]) -> bool:
    """Whether a golden row can make the assertion as it stands."""
    try:
        return bool(assertions([one]))
    except CellError:
        return False


def spread(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The variables of each case: a list of texts is one case for each. Raises GoldenSetError for too many."""
    lists = (isinstance(one, list) and one and all(isinstance(text, str) for text in one) for one in variables.values())
    several = [one if several else [one] for one, several in zip(variables.values(), lists, strict=True)]
    if prod(map(len, several)) > _MAX_CASES:
        raise GoldenSetError(f"the lists of one test's variables make more than {_MAX_CASES:,} cases.", where="tests")
    return (dict(zip(variables, values, strict=True)) for values in product(*several))


def config_rows(document: Mapping[str, Any]) -> tuple[list[tuple[dict[str, object], int]], tuple[str, ...]]:
    """The rows of the tests that a config has itself, with their place in it, and what was left out, as notes."""
    default = document.get("defaultTest")
    shared = default.get("vars") if isinstance(default, Mapping) else None
    rows, left_out, elsewhere = [], [], 0
    for at, test in enumerate(as_list(document.get("tests"))):
        if not isinstance(test, Mapping):
            elsewhere += 1
            continue
        given = test.get("vars")
        variables = {**(shared if isinstance(shared, Mapping) else {}), **(given if isinstance(given, Mapping) else {})}
        for values in spread(variables):
            row, types = row_of(values, list(assertions_in(test, default)), lambda text: text)
            rows.append((row, at))
            left_out += types
    notes = [
        f"the assertion {kind} is left out; use {INSTEAD.get(kind, 'a metric of your own')}"
        for kind in dict.fromkeys(left_out)
    ]
    notes += ["tests in other files are left out: ragstone migrate reads them"] if elsewhere else []
    return rows, tuple(notes)
