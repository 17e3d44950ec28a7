"""Where the parts of a returned value are: named fields, dotted paths, and what is said
of a value without them.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Dict, NamedTuple  # noqa: UP035 - for Python 3.8

from ragstone.golden.aliases import SYSTEM_NAMES

_ANSWERS = "|".join(SYSTEM_NAMES["answer"][:5])
_CONTEXTS = "|".join(SYSTEM_NAMES["contexts"][:7])
_ITEMS = "text|page_content|content|node"
EXPECTED = (
    f"Expected a string, or a mapping or object with the answer under {_ANSWERS} and, optionally, contexts under "
    f"{_CONTEXTS} (strings, or mappings or objects with {_ITEMS}). Where it has another name, set its path under "
    '[system], such as answer_field = "result.text".'
)
EXPECTED_CONTEXTS = (
    f'Expected contexts, since part = "retrieval": a list of strings, or of mappings or objects with {_ITEMS}; or a '
    f"mapping or object with such a list under {_CONTEXTS}."
)


class BadReturn(Exception):  # noqa: N818
    """The system under test returned something that can't be read as an answer.
    `detail` is a traceback, if any."""

    detail: str | None = None


class Fields(NamedTuple):
    """Dotted paths to the answer, its contexts and steps in the returned value; None to
    use the names of SYSTEM_NAMES.

    `contexts_only`: the system only retrieves, so what it returns are contexts, and no
    answer is read.
    """

    answer: str | None = None
    contexts: str | None = None
    context_text: str | None = None
    context_id: str | None = None
    steps: str | None = None
    contexts_only: bool = False

    def paths(self) -> list[str]:
        """The paths that are set."""
        return [path for path in self if isinstance(path, str)]


NO_PATHS = Fields()
"""Everything has one of its usual names."""

Json = Dict[str, Any]  # noqa: UP006 - for Python 3.8
"""An object in plain JSON types."""

_PLAIN = (type(None), str, int, float, bytes, list, tuple, set, frozenset)
"""Types whose attributes are no fields."""

MAX_TOKENS = 2**53 - 1
ABSENT = object()
"""What there is at a path that leads nowhere."""


def first(holder: object, names: Iterable[str], absent: object = None) -> Any:
    """The first of the fields `names` that `holder` has; `absent` if it has none of
    them."""
    for name in names:
        value = get(holder, name)
        if value is not None and not inspect.ismethod(value):
            return value
    return absent


def named(holder: object, part: str, absent: object = None) -> Any:
    """What `holder` has under the first of the names of `part` in SYSTEM_NAMES;
    `absent` if it has none of them."""
    return first(holder, SYSTEM_NAMES[part], absent)


def get(holder: object, name: str) -> Any:
    """The field of a mapping or the attribute of an object; None if absent or if the
    property raises."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    is_named_tuple = hasattr(type(holder), "_fields")
    if isinstance(holder, _PLAIN) and not is_named_tuple:
        return None
    try:
        return getattr(holder, name, None)
    except Exception:  # a user's property that raises counts as missing
        return None


def is_list(value: object) -> bool:
    """Whether `value` has items in an order. A data frame has not: its items are the
    names of its columns."""
    no_lists = (str, bytes, Mapping, set, frozenset)
    is_iterable = isinstance(value, Iterable) and not hasattr(value, "keys")
    return is_iterable and not isinstance(value, no_lists)


def message_text(value: object) -> str | None:
    """The text of a string or of a chat message (its `content`: a string, or a list of
    blocks)."""
    if isinstance(value, str):
        return value
    content = get(value, "content")
    if isinstance(content, list):
        texts = []
        for block in content:
            text = block if isinstance(block, str) else get(block, "text")
            if isinstance(text, str):
                texts.append(text)
        return "".join(texts) if texts else None
    return content if isinstance(content, str) else None


def token_usage(usage: object) -> dict[str, int] | None:
    """The token counts in `usage`, by any of their names; None without both."""
    counts = {}
    for name in ("input_tokens", "output_tokens"):
        count = number(named(usage, name))
        if count is None or not count.is_integer() or not 0 <= count <= MAX_TOKENS:
            return None
        counts[name] = int(count)
    return counts


def number(value: object) -> float | None:
    """A finite number as float; None for anything else, text and truth values too."""
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def seconds(value: object) -> float | None:
    """A number of at least 0; None for anything else."""
    duration = number(value)
    return None if duration is None or duration < 0 else duration


def at_path(value: object, path: str, absent: object = None) -> Any:
    """The value at a dotted path, `absent` if there is none.

    A part is a key or an attribute, an index into a list, or ``*`` for each element of
    a list: ``hits.*.source.text``.
    """
    if isinstance(value, Mapping) and path in value:
        return value[path]  # a key that contains dots, or the last one
    name, _, tail = path.partition(".")
    is_list = isinstance(value, (list, tuple))
    if is_list and name == "*":
        return [at_path(item, tail) if tail else item for item in value]  # type: ignore[attr-defined]
    if is_list and name.isdecimal():
        items = value[int(name) :]  # type: ignore[index]
        child = items[0] if items else ABSENT
    elif isinstance(value, Mapping):
        child = value.get(name, ABSENT)
    else:
        child = first(value, (name,), ABSENT)
    if child is ABSENT:
        return absent
    return at_path(child, tail, absent) if tail else child


def parsed_json(value: object) -> object:
    """The list or object that a text is as JSON; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
