"""Retrieved contexts in any of the shapes that systems return, as texts with ids and
scores.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.worker.fields import (
    EXPECTED,
    BadReturn,
    Fields,
    Json,
    at_path,
    get,
    is_list,
    named,
    number,
)
from ragstone.system.worker.wording import clean, shown

Context = Json

MAX_CONTEXTS = 10_000
MAX_CHARACTERS = 10_000_000


def read_contexts(value: Any, fields: Fields) -> list[Context]:
    """Contexts in plain JSON types, in their order. Raises BadReturn."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    is_single = isinstance(value, (str, Mapping)) or context_text(value) is not None
    if is_single:
        value = [value]
    if not is_list(value):
        raise BadReturn(
            f"The contexts are {shown(value)}: it is not a list. {EXPECTED}"
        )
    contexts = []
    characters = 0
    only_names = True
    for rank, item in enumerate(value, 1):
        if rank > MAX_CONTEXTS:
            raise BadReturn(
                f"More than {MAX_CONTEXTS:,} contexts were returned for one question."
            )
        context = _context(item, rank, fields, only_names)
        contexts.append(context)
        if context["text"]:
            only_names = False
        characters += characters_in(context)
        refuse_long(characters)
    return contexts


def _context(returned: Any, rank: int, fields: Fields, may_lack_text: bool) -> Context:
    """One context. `may_lack_text`: it can be known by its id or name, as all before it
    are. Raises BadReturn."""
    item, score = returned, None
    if type(returned) is tuple and len(returned) == 2:
        score = number(returned[1])
    if score is None:
        score = number(named(item, "score"))
    else:
        item = returned[0]  # of a pair with a score, as vector stores return it
    identity = _identity(item)
    text = context_text(item)
    if fields.context_id is not None:
        identity = _as_id(at_path(item, fields.context_id))
    if fields.context_text is not None:
        text = at_path(item, fields.context_text)
    if not isinstance(text, str):
        if fields.context_id is None:
            identity = _name_alone(item)
        if not may_lack_text or fields.context_text is not None or identity is None:
            raise BadReturn(
                f"Context {rank} is {shown(returned)}, in which no text was found. {EXPECTED}"
            )
        text = ""
    return {"text": clean(text), "id": identity, "score": score}


def context_text(item: object) -> str | None:
    """The text of a context, in it or in its node; None if it has none."""
    if isinstance(item, str):
        return item
    for holder in (item, get(item, "node")):
        for name in SYSTEM_NAMES["text"]:
            text = get(holder, name)
            if isinstance(text, str):
                return text
    return None


def _identity(item: object) -> str | None:
    """The id of a context, in it, in its metadata or in its node; a text has none."""
    node = get(item, "node")
    names = SYSTEM_NAMES["id"]
    names_in_metadata = (*names, "source")
    for holder, holder_names in (
        (item, names),
        (get(item, "metadata"), names_in_metadata),
        (node, names),
        (get(node, "metadata"), names_in_metadata),
    ):
        for name in holder_names:
            identity = _as_id(get(holder, name))
            if identity is not None:
                return identity
    return None


def _as_id(value: object) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas reads a column of ids with an empty cell
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value)
    return clean(text) if text.strip() else None


def _name_alone(item: object) -> str | None:
    """The id or name of a document in `item`, if there is nothing in it that could be
    its text."""
    fields = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
    telling = (*SYSTEM_NAMES["id"], *SYSTEM_NAMES["title"], "metadata")
    for name, value in fields.items():
        if name in SYSTEM_NAMES["text"]:
            return None
        is_number_or_empty = isinstance(value, (int, float, type(None)))
        if name not in telling and not is_number_or_empty:
            return None
    metadata = get(item, "metadata")
    title = named(item, "title") or named(metadata, "title")
    return _identity(item) or _as_id(title)


def with_ids(contexts: list[Context], ids: object) -> list[Context]:
    """`contexts` with the `ids` that were returned beside them, or, if there are none,
    those ids alone."""
    if not isinstance(ids, (list, tuple)) or len(ids) > MAX_CONTEXTS:
        return contexts
    names = list(map(_as_id, ids))
    if None in names:
        return contexts
    if not contexts:
        return [{"text": "", "id": name, "score": None} for name in names]
    if len(contexts) == len(names):
        for context, name in zip(contexts, names):  # noqa: B905 - not in Python 3.8
            context["id"] = context["id"] or name
    return contexts


def characters_in(context: Context) -> int:
    return len(context["text"]) + len(context["id"] or "")


def refuse_long(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise BadReturn(
            f"The answer and its contexts have {characters:,} characters; at most {MAX_CHARACTERS:,} are read."
        )
