"""Reads retrieved contexts from any of the shapes that systems return.

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
    field_of_part,
    field_value,
    is_list,
    number,
)
from ragstone.system.worker.wording import clean, shown

Context = Json

MAX_CONTEXTS = 10_000
MAX_CHARACTERS = 10_000_000
"""Of the answer, its contexts and its steps together."""


def read_contexts(value: Any, fields: Fields) -> list[Context]:
    """Read contexts into plain JSON types, in their order. Raises BadReturn."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    is_single = isinstance(value, (str, Mapping)) or context_text(value) is not None
    if is_single:
        value = [value]
    if not is_list(value):
        raise BadReturn(
            f"The contexts are {shown(value)}, which is not a list. {EXPECTED}"
        )
    contexts = []
    characters = 0
    has_text = False
    for rank, item in enumerate(value, 1):
        if rank > MAX_CONTEXTS:
            raise BadReturn(
                f"More than {MAX_CONTEXTS:,} contexts were returned for one question."
            )
        # A context without a text can be read only if none of those before it has one.
        context = _context(item, rank, fields, may_lack_text=not has_text)
        contexts.append(context)
        if context["text"]:
            has_text = True
        characters += character_count(context)
        refuse_long(characters)
    return contexts


def _context(
    returned: Any, rank: int, fields: Fields, *, may_lack_text: bool
) -> Context:
    """Read one context. If `may_lack_text`, an id or a name of a document is enough.
    Raises BadReturn."""
    item = returned
    score = None
    if type(returned) is tuple and len(returned) == 2:
        score = number(returned[1])
    if score is None:
        score = number(field_of_part(item, "score"))
    else:
        item = returned[0]  # a pair of a context and its score, as of vector stores
    identity = _identity(item)
    text = context_text(item)
    if fields.context_id is not None:
        identity = _as_id(at_path(item, fields.context_id))
    if fields.context_text is not None:
        text = at_path(item, fields.context_text)
    if not isinstance(text, str):
        if fields.context_id is None:
            identity = _document_name(item)
        if not may_lack_text or fields.context_text is not None or identity is None:
            raise BadReturn(
                f"Context {rank} is {shown(returned)}, in which no text was found. {EXPECTED}"
            )
        text = ""
    return {"text": clean(text), "id": identity, "score": score}


def context_text(item: object) -> str | None:
    """The text of a context, which may be in its node (LlamaIndex); None if it has
    none."""
    if isinstance(item, str):
        return item
    for holder in (item, field_value(item, "node")):
        for name in SYSTEM_NAMES["text"]:
            text = field_value(holder, name)
            if isinstance(text, str):
                return text
    return None


def _identity(item: object) -> str | None:
    """The id of a context, which may be in its metadata or its node; None if it has
    none."""
    node = field_value(item, "node")
    names = SYSTEM_NAMES["id"]
    names_in_metadata = (*names, "source")
    for holder, holder_names in (
        (item, names),
        (field_value(item, "metadata"), names_in_metadata),
        (node, names),
        (field_value(node, "metadata"), names_in_metadata),
    ):
        for name in holder_names:
            identity = _as_id(field_value(holder, name))
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


def _document_name(item: object) -> str | None:
    """The id or title of the document that `item` stands for; None if it has neither,
    or any other field that could be a text."""
    fields = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
    naming_fields = (*SYSTEM_NAMES["id"], *SYSTEM_NAMES["title"], "metadata")
    for name, value in fields.items():
        if name in SYSTEM_NAMES["text"]:
            return None
        is_number_or_empty = isinstance(value, (int, float, type(None)))
        if name not in naming_fields and not is_number_or_empty:
            return None
    metadata = field_value(item, "metadata")
    title = field_of_part(item, "title") or field_of_part(metadata, "title")
    return _identity(item) or _as_id(title)


def with_ids(contexts: list[Context], ids: object) -> list[Context]:
    """Give `contexts` without an id the one at their place in `ids`. If there are no
    contexts, make them of the ids. An invalid list of ids changes nothing."""
    if not isinstance(ids, (list, tuple)) or len(ids) > MAX_CONTEXTS:
        return contexts
    checked_ids = list(map(_as_id, ids))
    if None in checked_ids:
        return contexts
    if not contexts:
        return [
            {"text": "", "id": context_id, "score": None} for context_id in checked_ids
        ]
    if len(contexts) == len(checked_ids):
        pairs = zip(contexts, checked_ids)  # noqa: B905 - not in Python 3.8
        for context, context_id in pairs:
            context["id"] = context["id"] or context_id
    return contexts


def character_count(context: Context) -> int:
    return len(context["text"]) + len(context["id"] or "")


def refuse_long(characters: int) -> None:
    """Raise BadReturn for more than MAX_CHARACTERS."""
    if characters > MAX_CHARACTERS:
        raise BadReturn(
            f"The answer and its contexts have {characters:,} characters; at most {MAX_CHARACTERS:,} are read."
        )
