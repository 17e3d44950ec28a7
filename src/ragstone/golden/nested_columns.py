"""Nests the columns of other tools' tables: JSON that is written into a cell, and columns
with dotted names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ragstone.golden import cells
from ragstone.golden.aliases import CONTAINERS, OUTPUTS, PATHS, normalise_name
from ragstone.golden.formats.json_text import NotJsonError, decode

_PHOENIX_SPAN_ID = "context.span_id"
_JSON_CELLS = CONTAINERS | OUTPUTS
_DOTTED_COLUMNS = _JSON_CELLS | PATHS
"""The names before the dot of columns that belong to one object."""


def nest_columns(values: Mapping[str, object]) -> dict[str, Any]:
    """Return `values` with dotted columns such as ``inputs.question`` as one object
    ``inputs``, and with the JSON in such columns parsed."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        head, _, inner = name.partition(".")
        if name == "reference" and _PHOENIX_SPAN_ID in values:
            # Phoenix writes the documents of a span as one text under this name.
            nested["retrieved_contexts"] = value
        elif inner and head not in values and normalise_name(head) in _DOTTED_COLUMNS:
            nested.setdefault(head, {})[inner] = value
        elif isinstance(value, str) and normalise_name(head) in _JSON_CELLS:
            nested[name] = _parse_json(value)
        else:
            nested[name] = value
    return nested


def _parse_json(text: str) -> object:
    """Return the object, the list of objects (a chat) or the quoted text that is written
    in `text`; else `text` itself."""
    if text.lstrip().startswith('"'):
        with suppress(NotJsonError):
            return decode(text)
    parsed = cells.parse_structure(text)
    items = cells.as_list(parsed)
    if items and all(isinstance(item, dict) for item in items):
        return parsed
    return text
