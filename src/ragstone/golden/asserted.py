"""The column `assert` of a golden row: assertions in the words of promptfoo, as objects
with `type` and `value`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping

from ragstone.errors import suggestion
from ragstone.golden import cells
from ragstone.golden.aliases import INSTEAD
from ragstone.golden.sample import Assertion

_SINGLE = ("contains", "icontains", "equals", "starts-with", "regex")
_SEVERAL = ("contains-any", "contains-all", "icontains-any", "icontains-all")
TYPES: Mapping[str, tuple[int, float]] = {
    **dict.fromkeys(_SINGLE, (1, 1)),
    **dict.fromkeys(_SEVERAL, (1, math.inf)),
    "is-json": (0, 0),  # no schema is checked
}
"""The types of assertions, each also with ``not-`` before it, and the fewest and most
values that they take."""


def assertions(value: object) -> tuple[Assertion, ...]:
    """`value` as assertions: a list of objects, also as JSON in one cell. Raises
    CellError."""
    items = cells.listed(value, split_bars=False)
    return tuple(dict.fromkeys(map(_assertion, items)))


def _assertion(item: object) -> Assertion:
    if not isinstance(item, Mapping) or not isinstance(item.get("type"), str):
        raise cells.unexpected(
            item, 'a list of objects such as {"type": "contains", "value": "…"}'
        )
    kind: str = item["type"]
    base = kind.removeprefix("not-")
    if base not in TYPES:
        hint = suggestion(base, TYPES)
        if base in INSTEAD:
            hint = f"use {INSTEAD[base]}"
        advice = hint.rstrip(".")
        raise cells.CellError(
            f"contains an assertion of type '{kind}', which is not checked here: {advice}"
        )
    # `metric` is only a label, and a weight of 1 the default.
    options = item.keys() - {"type", "value", "metric"}
    if str(item.get("weight")) == "1":
        options -= {"weight"}
    if options:
        raise cells.CellError(
            f"contains an assertion of type '{kind}' with '{min(options)}', which is not supported"
        )
    value = item.get("value")
    values = _values(base, value)
    fewest, most = TYPES[base]
    if not fewest <= len(values) <= most:
        shown_value = cells.shown(value)
        raise cells.CellError(
            f"contains {shown_value} as the value of '{kind}', expected a text "
            "(of several types a list of texts, of is-json none)"
        )
    if base == "regex":
        cells.patterns(list(values))
    return Assertion(kind, values)


def _values(base: str, value: object) -> tuple[str, ...]:
    if base in _SEVERAL and isinstance(value, str):
        # As in promptfoo: separated by commas, perhaps quoted.
        try:
            reader = csv.reader([value], skipinitialspace=True)
            texts = next(reader, [])
        except csv.Error as error:
            shown_value = cells.shown(value)
            raise cells.CellError(f"contains {shown_value}: {error}") from None
        value = [text.strip() for text in texts]
    values: list[str] = []
    for item in cells.as_list(value):
        match item:
            case None:
                continue
            case list() | Mapping():
                raise cells.CellError(
                    f"contains {cells.shown(item)} as the value of '{base}', expected text"
                )
            case bool():
                text = str(item).lower()
            case float():
                text = str(item).removesuffix(".0")
            case _:
                text = str(item)
        values.append(cells.sound(text))
    return tuple(values)
