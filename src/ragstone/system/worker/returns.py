"""What an entrypoint may return, whatever its kind: an answer and contexts in plain JSON types, or a refusal in words.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.worker.wording import clean, formatted, holds_secret, shown, summary

TRACE_NAMES = ("trace_id", "index_digest")
_PARTS = ("answer", "contexts", "context_ids", "usage", *TRACE_NAMES)
"""What an answer may have."""

MAX_CONTEXTS = 10_000
MAX_NODES = 4
"""A context may be a node in a node."""
MAX_CHARACTERS = 10_000_000
MAX_ANSWER_CHARACTERS = 1_000_000
MAX_TRACE_CHARACTERS = 256
MAX_TOKENS = 2**53 - 1
MAX_LABEL_WORDS = 5
"""A field of more words could be the text of a context."""

_ANSWERS = "|".join(SYSTEM_NAMES["answer"][:5])
_CONTEXTS = "|".join(SYSTEM_NAMES["contexts"][:7])
_ITEMS = "text|page_content|content|node"
EXPECTED = (
    f"Expected a string, or a mapping or object with the answer under {_ANSWERS} and, optionally, contexts under "
    f"{_CONTEXTS} (strings, or mappings or objects with {_ITEMS})."
)
EXPECTED_CONTEXTS = (
    f'Expected contexts, since part = "retrieval": a list of strings, or of mappings or objects with {_ITEMS}; or a '
    f"mapping or object with such a list under {_CONTEXTS}."
)
ONLY_RETRIEVES = ' If it only retrieves, set part = "retrieval" under [system].'


class BadReturn(Exception):  # noqa: N818
    """The system under test returned something that can't be read as an answer. `detail` is a traceback, if any."""

    detail: str | None = None


class Fields(NamedTuple):
    """Dotted paths to the answer and its contexts in the returned value; None to use the names of SYSTEM_NAMES.

    `contexts_only`: the system only retrieves, so what it returns are contexts, and no answer is read.
    """

    answer: str | None = None
    contexts: str | None = None
    context_text: str | None = None
    context_id: str | None = None
    contexts_only: bool = False

    def paths(self) -> list[str]:
        """The paths that are set."""
        return [path for path in self if isinstance(path, str)]


class Parts(dict):  # type: ignore[type-arg]
    """The parts of an answer by the names in _PARTS; those that it hasn't are left out."""


# --- the whole answer --------------------------------------------------------------------------------------------


def normalise(value: object, fields: Fields | None = None) -> dict[str, Any]:
    """An answer in plain JSON types: ``{"answer": str, "contexts": [{"text", "id", "score"}], "usage": ... | None}``.

    If the answer names its trace or its index, ``"trace"`` has what it says; ``"contexts_returned"`` is False if it
    came without contexts. Accepts every shape listed in docs/entrypoints.md. Lone surrogates become U+FFFD. Raises
    BadReturn with what was returned and what is expected, and nothing else, whatever the code in a returned object
    raises.
    """
    try:
        return _payload(value, fields or Fields())
    except BadReturn:
        raise
    except (Exception, SystemExit) as error:
        unread = BadReturn(f"What was returned can't be read: {summary(error)}")
        unread.detail = formatted(error)
        raise unread from None


def _payload(value: object, fields: Fields) -> dict[str, Any]:
    payload: dict[str, Any] = {}
    if fields.contexts_only:
        parts = Parts({} if isinstance(value, str) else parts_of(value, Fields()))
        parts["contexts"] = _retrieved(value, fields)
        payload["answer"] = ""
    else:
        parts = parts_of(value, fields)
        _refuse_empty_paths(value, parts, fields)
        payload["answer"] = _answer_text(value, parts)
    contexts = _contexts(parts.get("contexts"), fields)
    payload["contexts"] = _with_ids(contexts, parts.get("context_ids"))
    _refuse_long(len(payload["answer"]) + sum(map(_characters, payload["contexts"])))
    payload["usage"] = _usage(parts.get("usage"))
    trace = _trace(parts)
    if trace:
        payload["trace"] = trace
    if parts.get("contexts") is None and not fields.contexts_only:
        payload["contexts_returned"] = False
    return payload


def parts_of(value: object, fields: Fields) -> Parts:
    """The parts of an answer in `value`, by the paths of `fields` and the names of SYSTEM_NAMES."""
    if isinstance(value, Parts):
        return value
    if is_pair(value):
        value = {"answer": value[0], "contexts": value[1]}  # type: ignore[index]
    elif fields.answer is None and isinstance(value, Mapping) and first(value, SYSTEM_NAMES["answer"]) is None:
        value = _graph_state(value) or _pipeline_result(value) or value
    paths = {"answer": fields.answer, "contexts": fields.contexts}
    parts = Parts()
    for name in _PARTS:
        path = paths.get(name)
        if path is not None:
            part = at_path(value, path, _ABSENT)
            if part is not _ABSENT:
                parts[name] = part
        else:
            part = None if isinstance(value, str) else first(value, SYSTEM_NAMES[name])
            if part is not None:
                parts[name] = part
    if "answer" not in parts and fields.answer is None:
        text = message_text(value)
        if text is not None:
            parts["answer"] = text
    return parts


def is_pair(value: object) -> bool:
    """Whether `value` is an answer and its contexts."""
    if type(value) is not tuple or len(value) != 2:
        return False
    answer, contexts = value
    if contexts is not None and not isinstance(contexts, (list, tuple, str)):
        return False
    return is_stream(answer) or message_text(answer) is not None


def _graph_state(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer in the state of a graph with `messages`: the last, and what tools returned since the question."""
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages:
        return None
    contexts: list[Any] = []
    for message in messages:
        kind = get(message, "type") or get(message, "role")
        if kind in ("human", "user"):
            contexts = []
        elif kind == "tool":
            artifact = get(message, "artifact") or [message]
            contexts.extend(artifact if isinstance(artifact, (list, tuple)) else [artifact])
    return {"contexts": contexts, **value, "answer": messages[-1]}


def _pipeline_result(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer in what the components of a Haystack pipeline returned, by their names: the last reply."""
    reply: Any = None
    contexts: list[Any] = []
    for component in value.values():
        if not isinstance(component, Mapping):
            return None
        for name in ("replies", "answers"):
            replies = component.get(name)
            if isinstance(replies, list) and replies:
                reply = replies[0]
        documents = component.get("documents")
        if isinstance(documents, list):
            contexts = documents
    if reply is None:
        return None
    text, documents = get(reply, "data"), get(reply, "documents")
    if isinstance(documents, list) and documents:
        contexts = documents
    return {"answer": reply if text is None else text, "contexts": contexts}


def _refuse_empty_paths(value: object, parts: Parts, fields: Fields) -> None:
    """Raise BadReturn if there is nothing at a path of `fields`."""
    if isinstance(value, Parts):
        return
    for name, path in (("answer", fields.answer), ("contexts", fields.contexts)):
        if path is not None and name not in parts:
            hint = named_texts(value) if name == "answer" else ""
            raise BadReturn(f"Nothing at {name}_field '{path}' in {shown(value)}. {hint}".strip())


def _answer_text(value: object, parts: Parts) -> str:
    text = message_text(parts.get("answer"))
    if text is None:
        raise BadReturn(_bad_answer(value, parts))
    text = clean(text)
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise BadReturn(f"The answer has {len(text):,} characters; at most {MAX_ANSWER_CHARACTERS:,} are read.")
    return text


def _bad_answer(value: object, parts: Parts) -> str:
    answer = parts.get("answer")
    if answer is not None:
        return f"The answer in {shown(value)} is {shown(answer, 80)}, which is not text. {named_texts(value)}{EXPECTED}"
    retrieves = "contexts" in parts or (isinstance(value, (list, tuple)) and len(value) > 0)
    return f"Returned {shown(value)}. {named_texts(value)}{EXPECTED}{ONLY_RETRIEVES if retrieves else ''}"


def message_text(value: object) -> str | None:
    """The text of a string or of a chat message (its `content`: a string, or a list of blocks)."""
    if isinstance(value, str):
        return value
    content = get(value, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    blocks = [block if isinstance(block, str) else get(block, "text") for block in content]
    texts = [block for block in blocks if isinstance(block, str)]
    return "".join(texts) if texts else None


def is_stream(value: object) -> bool:
    """Whether `value` is an iterator of pieces, sync or async; an open file is none."""
    if hasattr(type(value), "__anext__"):
        return True
    return hasattr(type(value), "__next__") and not hasattr(value, "fileno")


def _usage(usage: object) -> dict[str, int] | None:
    counts = {}
    for name in ("input_tokens", "output_tokens"):
        count = first(usage, SYSTEM_NAMES[name])
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_TOKENS:
            return None
        counts[name] = int(str(count))
    return counts


def _trace(parts: Parts) -> dict[str, str]:
    """What an answer says of its trace and its index, by the names in TRACE_NAMES."""
    trace = {}
    for name in TRACE_NAMES:
        text = parts.get(name)
        if isinstance(text, str) and 0 < len(text) <= MAX_TRACE_CHARACTERS:
            trace[name] = clean(text)
    return trace


# --- contexts ----------------------------------------------------------------------------------------------------


def _retrieved(value: object, fields: Fields) -> object:
    """The contexts in what a system returned that only retrieves; None if it returned ids alone. Raises BadReturn."""
    if isinstance(value, Parts):
        return value.get("contexts")
    if is_pair(value) and not isinstance(value[1], str):  # type: ignore[index]
        return value[1]  # type: ignore[index]
    if fields.contexts is not None:
        contexts = at_path(value, fields.contexts, _ABSENT)
        if contexts is _ABSENT:
            raise BadReturn(f"Nothing at contexts_field '{fields.contexts}' in {shown(value)}.")
        return contexts
    if isinstance(value, (list, tuple)):
        return value
    if value is not None and not isinstance(value, str):
        contexts = first(value, SYSTEM_NAMES["contexts"])
        if contexts is not None or first(value, SYSTEM_NAMES["context_ids"]) is not None:
            return contexts
        if _context_text(value) is not None or hasattr(type(value), "__next__"):
            return value
    raise BadReturn(f"Returned {shown(value)}. {EXPECTED_CONTEXTS}")


def _contexts(value: object, fields: Fields) -> list[dict[str, Any]]:
    """Contexts in plain JSON types, in their order. Raises BadReturn."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    value = _opened(value)
    if isinstance(value, (str, Mapping)) or _context_text(value) is not None:
        value = [value]
    table = hasattr(value, "keys")  # iterating over a data frame gives its column names
    if table or isinstance(value, (set, frozenset, bytes)) or not isinstance(value, Iterable):
        reason = "a set has no order" if isinstance(value, (set, frozenset)) else "it is not a list"
        raise BadReturn(f"The contexts are {shown(value)}: {reason}. {EXPECTED}")
    contexts: list[dict[str, Any]] = []
    characters, only_names = 0, True
    for rank, item in enumerate(value):
        if rank >= MAX_CONTEXTS:
            raise BadReturn(f"More than {MAX_CONTEXTS:,} contexts were returned for one question.")
        context = _context(item, fields, may_lack_text=only_names)
        if context is None:
            raise BadReturn(f"Context {rank + 1} is {shown(item)}, in which no text was found. {EXPECTED}")
        contexts.append(context)
        only_names = only_names and not context["text"]
        characters += _characters(context)
        _refuse_long(characters)
    return contexts


def _opened(value: object) -> object:
    """Contexts by their ids, as an object or as the text of one, as a list; anything else as it is."""
    opened = value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            opened = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if not isinstance(opened, Mapping) or not opened or _context_text(opened) is not None:
        return value
    contexts = []
    for name, item in opened.items():
        if not isinstance(item, Mapping) or _context_text(item) is None:
            return value
        contexts.append({**item, "id": _identity(item) or str(name)})
    return contexts


def _context(item: Any, fields: Fields, *, may_lack_text: bool) -> dict[str, Any] | None:
    """One context; None if it has no text. `may_lack_text`: it can be known by its id or name, as all before it are."""
    score = None
    if type(item) is tuple and len(item) == 2 and number(item[1]) is not None:
        item, score = item[0], number(item[1])  # (document, score), as returned by vector stores
    if isinstance(item, str) and fields.context_text is None:
        return {"text": clean(item), "id": None, "score": score}
    own_score = number(first(item, SYSTEM_NAMES["score"]))
    score = score if own_score is None else own_score
    identity = _identity(item) if fields.context_id is None else _as_id(at_path(item, fields.context_id))
    if fields.context_text is not None:
        text = at_path(item, fields.context_text)
        may_lack_text = False
    else:
        text = _context_text(item)
    if isinstance(text, str):
        return {"text": clean(text), "id": identity, "score": score}
    name = _name_alone(item) if fields.context_id is None else identity
    if name is None or not may_lack_text:
        return None
    return {"text": "", "id": name, "score": score}


def _context_text(item: object) -> str | None:
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
        for place, names in ((holder, SYSTEM_NAMES["id"]), (metadata, (*SYSTEM_NAMES["id"], "source"))):
            for name in names:
                identity = _as_id(get(place, name))
                if identity is not None:
                    return identity
    return None


def _as_id(value: object) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas reads a column of ids with an empty cell
    if not isinstance(value, (str, int)) or isinstance(value, bool) or not str(value).strip():
        return None
    return clean(str(value))


def _name_alone(item: object) -> str | None:
    """The id or name of a document in `item`, if there is nothing in it that could be its text."""
    fields = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
    for name, value in fields.items():
        is_text_field = name in SYSTEM_NAMES["text"]
        is_nested = name != "metadata" and isinstance(value, (Mapping, list, tuple)) and len(value) > 0
        is_long = name not in SYSTEM_NAMES["title"] and isinstance(value, str) and len(value.split()) > MAX_LABEL_WORDS
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


def _with_ids(contexts: list[dict[str, Any]], ids: object) -> list[dict[str, Any]]:
    """`contexts` with the `ids` that were returned beside them, or, if there are none, those ids alone."""
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


def _characters(context: Mapping[str, Any]) -> int:
    return len(context["text"]) + len(context["id"] or "")


def _refuse_long(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise BadReturn(
            f"The answer and its contexts have {characters:,} characters; at most {MAX_CHARACTERS:,} are read."
        )


# --- fields and paths --------------------------------------------------------------------------------------------

_ABSENT = object()
_PLAIN_NAME = re.compile(r"[\w -]{1,100}")
_REPLY = re.compile(r"(?i)(answer|reply|response|message|content|text|completion|generation|output|delta|token)[^.]*$")
_NO_REPLY = re.compile(r"(^|[._])(id|type|event|role|object|model|status)$|Id$")
"""Names of texts that are never an answer."""
_MAX_DEPTH = 4
_MAX_NAMES = 20
_MAX_TEXTS = 200


def first(holder: object, names: Iterable[str]) -> Any:
    """The first of the fields `names` that `holder` has; None if it has none of them."""
    for name in names:
        value = get(holder, name)
        if value is not None and not inspect.ismethod(value):
            return value
    return None


def get(holder: object, name: str) -> Any:
    """The field of a mapping or the attribute of an object; None if absent or if the property raises."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    plain = holder is None or isinstance(holder, (str, int, float, bytes, list, tuple, set, frozenset))
    if plain and not hasattr(type(holder), "_fields"):  # as named tuples have
        return None
    try:
        return getattr(holder, name, None)
    except Exception:  # a user's property that raises counts as missing
        return None


def number(value: object) -> float | None:
    """A finite number as float; None for anything else, text and truth values too."""
    if value is None or isinstance(value, (bool, str, bytes)):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def at_path(value: object, path: str, absent: object = None) -> Any:
    """The value at a dotted path, `absent` if there is none.

    A part is a key or an attribute, an index into a list, or ``*`` for each element of a list: ``hits.*.source.text``,
    or ``hits[].source.text``.
    """
    if isinstance(value, Mapping) and path in value:  # a key that contains dots, or the last one
        return value[path]
    if "[" in path:
        path = re.sub(r"\[(\d*)\]", lambda match: f".{match[1] or '*'}", path).lstrip(".")
    name, _, tail = path.partition(".")
    if isinstance(value, (list, tuple)) and name == "*":
        return [at_path(item, tail) if tail else item for item in value]
    child = _child(value, name)
    if child is _ABSENT:
        return absent
    return at_path(child, tail, absent) if tail else child


def _child(value: object, name: str) -> object:
    """The value under one part of a path, _ABSENT if there is none."""
    if isinstance(value, Mapping):
        return value.get(name, _ABSENT)
    if isinstance(value, (list, tuple)) and name.isdecimal():
        items = value[int(name) :]
        return items[0] if items else _ABSENT
    child = None if name.startswith("_") else get(value, name)
    return _ABSENT if child is None or inspect.ismethod(child) else child


def named_texts(value: object) -> str:
    """A sentence that names the setting for an answer in `value` without a known name; "" if there is no text in it."""
    paths = text_paths(value)[:4]
    if not paths:
        return ""
    beside = f" (there is text at {str(paths[1:])[1:-1]} too)" if len(paths) > 1 else ""
    return f"If its answer is at '{paths[0]}', set answer_field = \"{paths[0]}\" under [system]{beside}. "


def text_paths(value: object) -> list[str]:
    """Paths to the texts in `value` that `answer_field` can have, the likeliest answer first."""
    lengths = {}
    for path, text in islice(_texts_in(value, "", _MAX_DEPTH), _MAX_TEXTS):
        unlikely = _NO_REPLY.search(path) or holds_secret(f"{path}={text[:200]}")
        if not unlikely and isinstance(at_path(value, path), str):
            lengths[path] = len(text)
    return sorted(lengths, key=lambda path: (_REPLY.search(path) is None, path.count("."), -lengths[path]))


def _texts_in(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Paths to texts in `value`, and the texts; of a list, the first element's."""
    if isinstance(value, str):
        if path and value.strip():
            yield path, value
        return
    if depth == 0:
        return
    for name, item in _fields_of(value).items():
        yield from _texts_in(item, f"{path}.{name}".lstrip("."), depth - 1)


def _fields_of(value: object) -> dict[Any, Any]:
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value[:1]))
    if isinstance(value, Mapping):
        names: Iterable[Any] = value
    else:
        names = get(value, "__dict__") or getattr(type(value), "__dataclass_fields__", None) or ()
    return {
        name: get(value, name)
        for name in islice(names, _MAX_NAMES)
        if isinstance(name, str) and _PLAIN_NAME.fullmatch(name)
    }
