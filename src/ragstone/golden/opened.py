"""Opens the cells of other tools' tables: JSON that is written into a cell, and columns
that are named by a path."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ragstone.golden import cells
from ragstone.golden.aliases import CONTAINERS, OUTPUTS, PATHS, normal
from ragstone.golden.formats.json_text import NotJsonError, decode

_PHOENIX_SPAN_ID = "context.span_id"
_JSON_CELLS = CONTAINERS | OUTPUTS
_HEADS = _JSON_CELLS | PATHS


def open_cells(values: Mapping[str, object]) -> dict[str, Any]:
    """`values` with columns such as ``inputs.question`` in one object ``inputs``, and
    the JSON in a text of such a name read: an object, a chat, or a quoted text.
    """
    opened: dict[str, Any] = {}
    for name, value in values.items():
        head, _, inner = name.partition(".")
        if name == "reference" and _PHOENIX_SPAN_ID in values:
            opened["retrieved_contexts"] = value  # the documents of a span, in one text
        elif inner and head not in values and normal(head) in _HEADS:
            opened.setdefault(head, {})[inner] = value
        elif isinstance(value, str) and normal(head) in _JSON_CELLS:
            opened[name] = _read(value)
        else:
            opened[name] = value
    return opened


def _read(text: str) -> object:
    """The object, the chat or the quoted text that is written in `text`, or `text`
    itself."""
    if text.lstrip().startswith('"'):
        with suppress(NotJsonError):
            return decode(text)
    value = cells.opened(text)
    items = cells.as_list(value)
    if items and all(isinstance(item, dict) for item in items):
        return value
    return text
