"""The column `assert` of a golden row: assertions in the words of promptfoo, as objects
with `type` and `value`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping

from msgspec import Struct

from ragstone.errors import suggestion
from ragstone.golden import cells
from ragstone.golden.aliases import INSTEAD
from ragstone.golden.sample import Assertion

_SINGLE_VALUE_TYPES = ("contains", "icontains", "equals", "starts-with", "regex")
_LIST_TYPES = ("contains-any", "contains-all", "icontains-any", "icontains-all")


class _ValueCount(Struct, frozen=True):
    """How many values an assertion of a type takes."""

    fewest: int
    most: float
    expectation: str
    """What an error message says was expected."""


_ONE_VALUE = _ValueCount(1, 1, "one text")
_ONE_OR_MORE_VALUES = _ValueCount(1, math.inf, "a list of texts")
_NO_VALUE = _ValueCount(0, 0, "no value (a JSON schema is not checked)")

ASSERTION_TYPES: Mapping[str, _ValueCount] = {
    **dict.fromkeys(_SINGLE_VALUE_TYPES, _ONE_VALUE),
    **dict.fromkeys(_LIST_TYPES, _ONE_OR_MORE_VALUES),
    "is-json": _NO_VALUE,
}
"""The types of assertions, each of which may also have ``not-`` before it."""


def to_assertions(value: object) -> tuple[Assertion, ...]:
    """Return the assertions in `value`, a list of objects, which may also be JSON in one
    cell. Raises CellError."""
    items = cells.to_items(value, split_bars=False)
    return tuple(dict.fromkeys(map(_to_assertion, items)))


def _to_assertion(item: object) -> Assertion:
    if not isinstance(item, Mapping) or not isinstance(item.get("type"), str):
        raise cells.unexpected(
            item, 'a list of objects such as {"type": "contains", "value": "…"}'
        )
    kind: str = item["type"]
    base = kind.removeprefix("not-")
    if base not in ASSERTION_TYPES:
        advice = suggestion(base, ASSERTION_TYPES).rstrip(".")
        if base in INSTEAD:
            advice = f"use {INSTEAD[base]}"
        raise cells.CellError(
            f"contains an assertion of type '{kind}', which is not supported: {advice}"
        )
    # `metric` is only a label, and 1 is the default weight.
    options = item.keys() - {"type", "value", "metric"}
    if str(item.get("weight")) == "1":
        options -= {"weight"}
    if options:
        raise cells.CellError(
            f"contains an assertion of type '{kind}' with '{min(options)}', which is not supported"
        )
    value = item.get("value")
    values = _values_of(base, value)
    value_count = ASSERTION_TYPES[base]
    if not value_count.fewest <= len(values) <= value_count.most:
        raise cells.CellError(
            f"contains {cells.short_repr(value)} as the value of '{kind}', expected {value_count.expectation}"
        )
    if base == "regex":
        cells.to_patterns(list(values))  # raises for an invalid pattern
    return Assertion(kind, values)


def _values_of(base: str, value: object) -> tuple[str, ...]:
    """Return the values of an assertion as texts. `base` is its type without ``not-``."""
    if base in _LIST_TYPES and isinstance(value, str):
        # As in promptfoo, a text is a list separated by commas, with or without quotes.
        try:
            reader = csv.reader([value], skipinitialspace=True)
            texts = next(reader, [])
        except csv.Error as error:
            raise cells.CellError(
                f"contains {cells.short_repr(value)}: {error}"
            ) from None
        value = [text.strip() for text in texts]
    values: list[str] = []
    for item in cells.as_list(value):
        match item:
            case None:
                continue
            case list() | Mapping():
                expectation = ASSERTION_TYPES[base].expectation
                raise cells.CellError(
                    f"contains {cells.short_repr(item)} as the value of '{base}', expected {expectation}"
                )
            case bool():
                text = str(item).lower()
            case float():
                text = str(item).removesuffix(".0")
            case _:
                text = str(item)
        values.append(cells.validate_text(text))
    return tuple(values)
