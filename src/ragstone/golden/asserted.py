"""The column `assert` of a golden row: assertions in the words of promptfoo, as objects
with `type` and `value`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping

from ragstone.errors import suggestion
from ragstone.golden import cells
from ragstone.golden.aliases import INSTEAD
from ragstone.golden.sample import Assertion

_SINGLE = ("contains", "icontains", "equals", "starts-with", "regex")
_SEVERAL = ("contains-any", "contains-all", "icontains-any", "icontains-all")
TYPES = (*_SINGLE, *_SEVERAL, "is-json")
"""The types of assertions; each also with ``not-`` before it."""

_WEIGHT = ("weight", "1")


def assertions(value: object) -> tuple[Assertion, ...]:
    """`value` as assertions: a list of objects, also as JSON in one cell. Raises
    CellError."""
    return tuple(
        dict.fromkeys(
            _assertion(item) for item in cells.listed(value, split_bars=False)
        )
    )


def _assertion(item: object) -> Assertion:
    if not isinstance(item, Mapping) or not isinstance(kind := item.get("type"), str):
        raise cells.CellError(
            f'contains {cells.shown(item)}, expected a list of objects such as {{"type": "contains", "value": "…"}}'
        )
    base = kind.removeprefix("not-")
    if base in INSTEAD:
        raise cells.CellError(
            f"contains an assertion of type '{kind}', which is not checked here; use {INSTEAD[base]}"
        )
    if base not in TYPES:
        hint = suggestion(base, TYPES).rstrip(".")
        raise cells.CellError(
            f"contains an assertion of the unknown type '{kind}'. {hint}"
        )
    # `metric` is only a label, and a weight of 1 the default.
    if strange := [
        key
        for key in item
        if key not in ("type", "value", "metric") and (key, f"{item[key]}") != _WEIGHT
    ]:
        raise cells.CellError(
            f"contains an assertion of type '{kind}' with '{strange[0]}', which is not supported"
        )
    content = item.get("value")
    values = tuple(_values(base, content))
    if (base == "is-json") is bool(values) or (base in _SINGLE and len(values) > 1):
        wanted = (
            "none: no schema is checked"
            if base == "is-json"
            else "text"
            if base in _SINGLE
            else "a list of texts"
        )
        raise cells.CellError(
            f"contains {cells.shown(content)} as the value of '{kind}', expected {wanted}"
        )
    if base == "regex":
        cells.patterns(list(values))
    return Assertion(kind, values)


def _values(base: str, value: object) -> Iterator[str]:
    if base in _SEVERAL and isinstance(
        value, str
    ):  # as in promptfoo: separated by commas, perhaps quoted
        try:
            value = [
                text.strip()
                for text in next(csv.reader([value], skipinitialspace=True), [])
            ]
        except csv.Error as error:
            raise cells.CellError(
                f"contains {cells.shown(value)} as the value of '{base}': {error}"
            ) from None
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, float) and item.is_integer():
            item = int(item)
        if item is not None and not isinstance(item, list | Mapping):
            yield cells.sound(
                str(item).lower() if isinstance(item, bool) else str(item)
            )
        elif item is not None:
            raise cells.CellError(
                f"contains {cells.shown(item)} as the value of '{base}', expected text"
            )
