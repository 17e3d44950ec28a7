"""Retrieved contexts in any of the shapes that systems return, as texts with ids and
scores.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.worker.fields import (
    EXPECTED,
    BadReturn,
    Fields,
    at_path,
    first,
    get,
    number,
)
from ragstone.system.worker.wording import clean, shown

MAX_CONTEXTS = 10_000
MAX_NODES = 4
"""A context may be a node in a node."""
MAX_CHARACTERS = 10_000_000
MAX_LABEL_WORDS = 5
"""A field of more words could be the text of a context."""


def read_contexts(value: object, fields: Fields) -> list[dict[str, Any]]:
    """Contexts in plain JSON types, in their order. Raises BadReturn."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    value = _opened(value)
    if isinstance(value, (str, Mapping)) or context_text(value) is not None:
        value = [value]
    table = hasattr(value, "keys")  # iterating over a data frame gives its column names
    if (
        table
        or isinstance(value, (set, frozenset, bytes))
        or not isinstance(value, Iterable)
    ):
        reason = (
            "a set has no order"
            if isinstance(value, (set, frozenset))
            else "it is not a list"
        )
        raise BadReturn(f"The contexts are {shown(value)}: {reason}. {EXPECTED}")
    contexts: list[dict[str, Any]] = []
    characters, only_names = 0, True
    for rank, item in enumerate(value):
        if rank >= MAX_CONTEXTS:
            raise BadReturn(
                f"More than {MAX_CONTEXTS:,} contexts were returned for one question."
            )
        context = _context(item, fields, may_lack_text=only_names)
        if context is None:
            raise BadReturn(
                f"Context {rank + 1} is {shown(item)}, in which no text was found. {EXPECTED}"
            )
        contexts.append(context)
        only_names = only_names and not context["text"]
        characters += characters_in(context)
        refuse_long(characters)
    return contexts


def _opened(value: object) -> object:
    """Contexts by their ids, as an object or as the text of one, as a list; anything
    else as it is."""
    opened = value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            opened = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if (
        not isinstance(opened, Mapping)
        or not opened
        or context_text(opened) is not None
    ):
        return value
    contexts = []
    for name, item in opened.items():
        if not isinstance(item, Mapping) or context_text(item) is None:
            return value
        contexts.append({**item, "id": _identity(item) or str(name)})
    return contexts


def _context(
    item: Any, fields: Fields, *, may_lack_text: bool
) -> dict[str, Any] | None:
    """One context; None if it has no text. `may_lack_text`: it can be known by its id
    or name, as all before it are."""
    score = None
    if type(item) is tuple and len(item) == 2 and number(item[1]) is not None:
        item, score = (
            item[0],
            number(item[1]),
        )  # (document, score), as returned by vector stores
    if isinstance(item, str) and fields.context_text is None:
        return {"text": clean(item), "id": None, "score": score}
    own_score = number(first(item, SYSTEM_NAMES["score"]))
    score = score if own_score is None else own_score
    identity = (
        _identity(item)
        if fields.context_id is None
        else _as_id(at_path(item, fields.context_id))
    )
    if fields.context_text is not None:
        text = at_path(item, fields.context_text)
        may_lack_text = False
    else:
        text = context_text(item)
    if isinstance(text, str):
        return {"text": clean(text), "id": identity, "score": score}
    name = _name_alone(item) if fields.context_id is None else identity
    if name is None or not may_lack_text:
        return None
    return {"text": "", "id": name, "score": score}


def context_text(item: object) -> str | None:
    for _ in range(MAX_NODES):
        if isinstance(item, str):
            return item
        for name in SYSTEM_NAMES["text"]:
            text = get(item, name)
            if isinstance(text, str):
                return text
        method = None if isinstance(item, Mapping) else get(item, "get_content")
        text = method() if callable(method) else None
        if isinstance(text, str):
            return text
        item = get(item, "node")
    return None


def _identity(item: object) -> str | None:
    """The id of a context, in it, in its metadata or in its node."""
    for holder in (item, get(item, "node")):
        metadata = get(holder, "metadata")
        for place, names in (
            (holder, SYSTEM_NAMES["id"]),
            (metadata, (*SYSTEM_NAMES["id"], "source")),
        ):
            for name in names:
                identity = _as_id(get(place, name))
                if identity is not None:
                    return identity
    return None


def _as_id(value: object) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas reads a column of ids with an empty cell
    if (
        not isinstance(value, (str, int))
        or isinstance(value, bool)
        or not str(value).strip()
    ):
        return None
    return clean(str(value))


def _name_alone(item: object) -> str | None:
    """The id or name of a document in `item`, if there is nothing in it that could be
    its text."""
    fields = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
    for name, value in fields.items():
        is_text_field = name in SYSTEM_NAMES["text"]
        is_nested = (
            name != "metadata"
            and isinstance(value, (Mapping, list, tuple))
            and len(value) > 0
        )
        is_long = (
            name not in SYSTEM_NAMES["title"]
            and isinstance(value, str)
            and len(value.split()) > MAX_LABEL_WORDS
        )
        if is_text_field or is_nested or is_long:
            return None
    identity = _identity(item)
    if identity is not None:
        return identity
    for place in (item, get(item, "metadata")):
        for name in SYSTEM_NAMES["title"]:
            title = _as_id(get(place, name))
            if title is not None:
                return title
    return None


def with_ids(contexts: list[dict[str, Any]], ids: object) -> list[dict[str, Any]]:
    """`contexts` with the `ids` that were returned beside them, or, if there are none,
    those ids alone."""
    if not isinstance(ids, (list, tuple)) or len(ids) > MAX_CONTEXTS:
        return contexts
    names = [_as_id(name) for name in ids]
    if None in names or (contexts and len(contexts) != len(names)):
        return contexts
    if not contexts:
        return [{"text": "", "id": name, "score": None} for name in names]
    for context, name in zip(contexts, names):  # noqa: B905 - not in Python 3.8
        context["id"] = context["id"] or name
    return contexts


def characters_in(context: Mapping[str, Any]) -> int:
    return len(context["text"]) + len(context["id"] or "")


def refuse_long(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise BadReturn(
            f"The answer and its contexts have {characters:,} characters; at most {MAX_CHARACTERS:,} are read."
        )
