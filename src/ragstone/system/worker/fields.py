"""Finds the parts of a returned value by the names of fields or by dotted paths, with
the error for a value in which they are not found.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Dict, NamedTuple  # noqa: UP035 - for Python 3.8

from ragstone.golden.aliases import SYSTEM_NAMES

# The first names of a part are the most common ones, which a message shows.
_ANSWER_KEYS = "|".join(SYSTEM_NAMES["answer"][:5])
_CONTEXT_LIST_KEYS = "|".join(SYSTEM_NAMES["contexts"][:7])
_CONTEXT_KEYS = "text|page_content|content|node"
EXPECTED = (
    f"Expected a string, or a mapping or object with the answer under {_ANSWER_KEYS} and, optionally, contexts under "
    f"{_CONTEXT_LIST_KEYS} (strings, or mappings or objects with {_CONTEXT_KEYS}). If a field has another name, set its "
    'path under [system], for example answer_field = "result.text".'
)
EXPECTED_CONTEXTS = (
    f'Expected contexts, since part = "retrieval": a list of strings, or of mappings or objects with {_CONTEXT_KEYS}; or '
    f"a mapping or object with such a list under {_CONTEXT_LIST_KEYS}."
)


class BadReturn(Exception):  # noqa: N818
    """The system under test returned something that can't be read as an answer."""

    detail: str | None = None
    """A traceback, if any."""


class Fields(NamedTuple):
    """Dotted paths to the parts of a returned value. Parts without a path are found by
    the names in SYSTEM_NAMES."""

    answer: str | None = None
    contexts: str | None = None
    context_text: str | None = None
    context_id: str | None = None
    steps: str | None = None
    contexts_only: bool = False
    """Whether the system only retrieves, so that no answer is read."""

    def paths(self) -> list[str]:
        """The paths that are set."""
        return [path for path in self if isinstance(path, str)]


NO_PATHS = Fields()
"""Find every part by its usual names."""

Json = Dict[str, Any]  # noqa: UP006 - for Python 3.8
"""An object in plain JSON types."""

# Types whose attributes are not fields of an answer.
_TYPES_WITHOUT_FIELDS = (
    type(None),
    str,
    int,
    float,
    bytes,
    list,
    tuple,
    set,
    frozenset,
)

MAX_TOKENS = 2**53 - 1
"""The largest integer that every reader of JSON holds exactly."""
ABSENT = object()
"""A default that no returned value equals."""


def first_field(holder: object, names: Iterable[str], absent: object = None) -> Any:
    """The value of the first of `names` that is a field of `holder`, and neither None
    nor a method; `absent` if there is none."""
    for name in names:
        value = field_value(holder, name)
        if value is not None and not inspect.ismethod(value):
            return value
    return absent


def field_of_part(holder: object, part: str, absent: object = None) -> Any:
    """The value of the first field of `holder` that has one of the names of `part` in
    SYSTEM_NAMES; `absent` if there is none."""
    return first_field(holder, SYSTEM_NAMES[part], absent)


def field_value(holder: object, name: str) -> Any:
    """The field of a mapping, or the attribute of an object; None if it is absent, or
    if the property raises."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    is_named_tuple = hasattr(type(holder), "_fields")
    if isinstance(holder, _TYPES_WITHOUT_FIELDS) and not is_named_tuple:
        return None
    try:
        return getattr(holder, name, None)
    except Exception:  # the user's property raises: it counts as absent
        return None


def is_list(value: object) -> bool:
    """Whether `value` has items in an order. A data frame doesn't count: iterating over
    it gives the names of its columns."""
    other_types = (str, bytes, Mapping, set, frozenset)
    is_iterable = isinstance(value, Iterable) and not hasattr(value, "keys")
    return is_iterable and not isinstance(value, other_types)


def message_text(value: object) -> str | None:
    """The text of a string or of a chat message, whose `content` is a string or a list
    of blocks; None for anything else."""
    if isinstance(value, str):
        return value
    content = field_value(value, "content")
    if isinstance(content, list):
        texts = []
        for block in content:
            text = block if isinstance(block, str) else field_value(block, "text")
            if isinstance(text, str):
                texts.append(text)
        return "".join(texts) if texts else None
    return content if isinstance(content, str) else None


def token_usage(usage: object) -> dict[str, int] | None:
    """The numbers of input and output tokens in `usage`, by any of their names; None
    unless it has both."""
    counts = {}
    for name in ("input_tokens", "output_tokens"):
        count = number(field_of_part(usage, name))
        if count is None or not count.is_integer() or not 0 <= count <= MAX_TOKENS:
            return None
        counts[name] = int(count)
    return counts


def number(value: object) -> float | None:
    """`value` as a float; None unless it is a finite number. Strings and booleans don't
    count."""
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        converted = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return converted if math.isfinite(converted) else None


def seconds(value: object) -> float | None:
    """`value` as a float; None unless it is a number of at least 0."""
    duration = number(value)
    return None if duration is None or duration < 0 else duration


def at_path(value: object, path: str, absent: object = None) -> Any:
    """The value at a dotted path, such as ``hits.*.source.text``; `absent` if there is
    none.

    Each part of a path is a key, an attribute, an index into a list, or ``*`` for all
    items of a list. An item without the rest of the path gives None.
    """
    if isinstance(value, Mapping) and path in value:
        return value[path]  # the last part of the path, or a key with dots in it
    name, _, tail = path.partition(".")
    has_indexes = isinstance(value, (list, tuple))
    if has_indexes and name == "*":
        return [at_path(item, tail) if tail else item for item in value]  # type: ignore[attr-defined]
    if has_indexes and name.isdecimal():
        index = int(name)
        child = value[index] if index < len(value) else ABSENT  # type: ignore[index,arg-type]
    elif isinstance(value, Mapping):
        child = value.get(name, ABSENT)
    else:
        child = first_field(value, (name,), ABSENT)
    if child is ABSENT:
        return absent
    return at_path(child, tail, absent) if tail else child


def parsed_json(value: object) -> object:
    """Parse a string that looks like a list or an object in JSON. Any other value is
    returned as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
