"""The worker: runs a python entrypoint in the user's interpreter. One file, standard library only, Python 3.8 or newer.

Ragstone sends this source to the child's stdin (see `python_worker.py`), so the interpreter needs neither Ragstone nor
read access to its files. The worker then moves stdin and stdout to other descriptors, points descriptor 1 at the log,
and exchanges frames: ten decimal digits of length, then ASCII JSON. Questions come one at a time.

Ragstone itself also uses `adapt` (what can be called, and how) and `normalise` (what may be returned), for callables
and for the JSON of commands, services and files. They are the only implementation of those rules.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import json
import math
import os
import re
import reprlib
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    import asyncio

SOURCE_NAME = "<ragstone worker>"
ANSWER_NAMES = ("answer", "response", "output", "result", "text", "actual_output")
CONTEXTS_NAMES = (
    "contexts",
    "retrieved_contexts",
    "context",
    "source_documents",
    "documents",
    "source_nodes",
    "sources",
    "retrieved_context",
    "retrieval_context",
)
CONTEXT_IDS_NAMES = tuple(
    f"{what}_ids"
    for what in ("retrieved_context", "retrieved", "retrieved_doc", "context", "doc", "document", "chunk", "source")
)
TEXT_NAMES = ("text", "page_content", "content", "document.content")
ID_NAMES = ("id", "doc_id", "document_id", "chunk_id", "node_id", "id_", "doc_uri", "document.id")
NAMING = ("source", "file", "filename", "file_name", "file_path", "path", "url", "uri", "link", "title", "name")
"""What names a document that comes without its text and without an id."""
MAX_LABEL_WORDS = 5
"""A field of more words could be the text."""
SCORE_NAMES = ("score", "similarity", "relevance_score", "document.score")
TRACE_NAMES = ("trace_id", "index_digest")
USAGE_NAMES = ("usage", "usage_metadata")
_BESIDE = (
    ("contexts", CONTEXTS_NAMES),
    ("context_ids", CONTEXT_IDS_NAMES),
    ("usage", USAGE_NAMES),
    *((name, (name,)) for name in TRACE_NAMES),
)
METHODS = ("answer", "ask", "query", "invoke", "chat")
QUESTION_NAMES = ("question", "input", "query", "user_query", "user_question", "user_input", "prompt", "text")
"""Names of an input that takes the question, the surest first."""
RETRIEVING = ("retrieve", *METHODS)
"""Methods of a system that only retrieves."""

MAX_CONTEXTS = 10_000
MAX_NODES = 4
"""A context may be a node in a node."""
MAX_CHARACTERS = 10_000_000
MAX_ANSWER_CHARACTERS = 1_000_000
MAX_TRACE_CHARACTERS = 256
MAX_TOKENS = 2**53 - 1
EXPECTED = (
    "Expected a string, or a mapping or object with the answer under "
    + "|".join(ANSWER_NAMES[:5])
    + " and, optionally, contexts under "
    + "|".join(CONTEXTS_NAMES[:7])
    + " (strings, or mappings or objects with text|page_content|content|node)."
)


EXPECTED_CONTEXTS = (
    'Expected contexts, since part = "retrieval": a list of strings, or of mappings or objects with '
    "text|page_content|content|node; or a mapping or object with such a list under "
    + "|".join(CONTEXTS_NAMES[:7])
    + "."
)
ONLY_RETRIEVES = ' If it only retrieves, set part = "retrieval" under [system].'


class BadReturn(Exception):  # noqa: N818
    """The system under test returned something that can't be read as an answer. `detail` is a traceback, if any."""

    detail: str | None = None


class EntrypointError(Exception):
    """The entrypoint can't be found or called; the message is for the user, without a traceback."""


# --- what was returned -------------------------------------------------------------------------------------------


def normalise(value: object, fields: Fields | None = None) -> dict[str, Any]:
    """An answer in plain JSON types: ``{"answer": str, "contexts": [{"text", "id", "score"}], "usage": ... | None}``.

    If the answer names its trace or its index, ``"trace"`` has what it says.

    Accepts every shape listed in docs/entrypoints.md. Lone surrogates become U+FFFD. Raises BadReturn with what was
    found and what is expected, and nothing else, whatever the code in a returned object raises.
    """
    try:
        return _answer_in(value, fields)
    except BadReturn:
        raise
    except (Exception, SystemExit) as error:
        unread = BadReturn(f"What was returned can't be read: {summary(error)}")
        unread.detail = formatted(error)
        raise unread from None


def _answer_in(value: object, fields: Fields | None) -> dict[str, Any]:
    if fields is not None and fields.contexts_only:
        return _checked("", fields.retrieved(value), value)
    if _is_pair(value):
        value = {"answer": value[0], "contexts": value[1]}  # type: ignore[index]
    if not fields or fields.answer is None:
        value = _unfolded(value)
    if fields and not isinstance(value, Joined):
        value = fields.whole(value)
    answer = value if isinstance(value, str) else _first(value, ANSWER_NAMES)
    text = _message_text(answer if answer is not None else value)
    if text is None:
        raise BadReturn(_bad_answer(value, answer))
    text = _clean(text)
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise BadReturn(f"The answer has {len(text):,} characters; at most {MAX_ANSWER_CHARACTERS:,} are read.")
    contexts = None if isinstance(value, str) else _first(value, CONTEXTS_NAMES)
    found = _checked(text, _contexts(contexts), value)
    return {**found, "contexts_returned": False} if contexts is None else found


def _checked(text: str, contexts: list[dict[str, Any]], value: object) -> dict[str, Any]:
    contexts = _with_ids(contexts, None if isinstance(value, str) else _first(value, CONTEXT_IDS_NAMES))
    _refuse_long(len(text) + sum(map(_characters, contexts)))
    found: dict[str, Any] = {"answer": text, "contexts": contexts, "usage": _usage(value)}
    named = _trace(value)
    return {**found, "trace": named} if named else found


def _unfolded(value: object) -> object:
    """The state of a graph with `messages`, or what a pipeline's components returned, under the known names."""
    if not isinstance(value, Mapping) or isinstance(value, Joined) or _first(value, ANSWER_NAMES) is not None:
        return value
    messages = value.get("messages")
    if isinstance(messages, list) and messages:
        kinds = [_get(one, "type") or _get(one, "role") for one in messages]
        since = max((at for at, kind in enumerate(kinds) if kind in ("human", "user")), default=0)
        tools = [one for one, kind in zip(messages[since:], kinds[since:]) if kind == "tool"]  # noqa: B905
        found = [_get(one, "artifact") or [one] for one in tools]
        listed = [item for items in found for item in (items if isinstance(items, (list, tuple)) else [items])]
        return {"contexts": listed, **value, "answer": messages[-1]}
    parts = [part for part in value.values() if isinstance(part, Mapping)]
    found = [part[name] for part in parts for name in ("replies", "answers") if isinstance(part.get(name), list)]
    replies = [items[0] for items in found if items]
    if not replies or len(parts) != len(value):
        return value
    reply, documents = replies[-1], [part["documents"] for part in parts if isinstance(part.get("documents"), list)]
    own, text = _get(reply, "documents"), _get(reply, "data")
    contexts = own if isinstance(own, list) and own else documents[-1] if documents else []
    return {"answer": reply if text is None else text, "contexts": contexts}


def _bad_answer(value: object, answer: object) -> str:
    if answer is None:
        retrieves = _first(value, CONTEXTS_NAMES) is not None or (isinstance(value, (list, tuple)) and len(value) > 0)
        return f"Returned {shown(value)}. {named_texts(value)}{EXPECTED}{ONLY_RETRIEVES if retrieves else ''}"
    return f"The answer in {shown(value)} is {shown(answer, 80)}, which is not text. {named_texts(value)}{EXPECTED}"


_PLAIN_NAME = re.compile(r"[\w -]{1,100}")
_REPLY = re.compile(r"(?i)(answer|reply|response|message|content|text|completion|generation|output)[^.]*$")


def named_texts(value: object) -> str:
    """A sentence that names the setting for an answer in `value` without a known name; "" if there is no text in it."""
    first, *others = text_paths(value)[:4] or [""]
    too = f" (there is text at {str(others)[1:-1]} too)" if others else ""
    return f"If its answer is at '{first}', set answer_field = \"{first}\" under [system]{too}. " if first else ""


def text_paths(value: object) -> list[str]:
    """Paths to the texts in `value` that `answer_field` can have, the likeliest answer first."""
    found = [
        (path, len(text))
        for path, text in _texts_in(value, "", 4)[:200]
        if not _SECRET.search(f"{path}={text[:200]}") and isinstance(at_path(value, path), str)
    ]
    return [path for path, _ in sorted(found, key=lambda one: (_REPLY.search(one[0]) is None, -one[1]))]


def _texts_in(value: object, path: str, depth: int) -> list[tuple[str, str]]:
    """Paths to texts in `value`, and the texts; of a list, the first element's."""
    if isinstance(value, str):
        return [(path, value)] if path and value.strip() else []
    if not depth:
        return []
    if isinstance(value, (list, tuple)):
        items: dict[Any, Any] = dict(enumerate(value[:1]))
    else:
        inside = _get(value, "__dict__") or getattr(type(value), "__dataclass_fields__", None) or {}
        names = islice(value if isinstance(value, Mapping) else inside, 20)
        items = {name: _get(value, name) for name in names if isinstance(name, str) and _PLAIN_NAME.fullmatch(name)}
    inner = [(f"{path}.{name}".lstrip("."), item) for name, item in items.items()]
    return [found for name, item in inner for found in _texts_in(item, name, depth - 1)]


class Fields(NamedTuple):
    """Dotted paths to the answer and its contexts in the returned value; None to use the known names.

    `contexts_only`: the system only retrieves, so what it returns are contexts, and no answer is read.
    """

    answer: str | None = None
    contexts: str | None = None
    context_text: str | None = None
    context_id: str | None = None
    contexts_only: bool = False

    @property
    def _inside(self) -> dict[str, str]:
        named = (("text", self.context_text), ("id", self.context_id))
        return {name: path for name, path in named if path is not None}

    def __bool__(self) -> bool:
        return bool(self.paths())

    def paths(self) -> dict[str, str]:
        """The paths, by the fields that hold them."""
        return {name: path for name, path in self._asdict().items() if isinstance(path, str)}

    def retrieved(self, value: object) -> list[dict[str, Any]]:
        """The contexts in what a system returned that only retrieves. Raises BadReturn."""
        found = value
        if _is_pair(value) and not isinstance(value[1], str):  # type: ignore[index]
            found = value[1]  # type: ignore[index]
        elif self.contexts is not None and not isinstance(value, Joined):
            found = at_path(value, self.contexts, _ABSENT)
            if found is _ABSENT:
                raise BadReturn(f"Nothing at contexts_field '{self.contexts}' in {shown(value)}.")
        elif value is None or isinstance(value, str):
            raise BadReturn(f"Returned {shown(value)}. {EXPECTED_CONTEXTS}")
        elif not isinstance(value, (list, tuple)):
            named = _first(value, CONTEXTS_NAMES)
            unnamed = named is None and _first(value, CONTEXT_IDS_NAMES) is None
            if unnamed and _context_text(value) is None and not hasattr(type(value), "__next__"):
                raise BadReturn(f"Returned {shown(value)}. {EXPECTED_CONTEXTS}")
            found = value if unnamed else named
        if self._inside and isinstance(found, (list, tuple)):
            found = [self._context(item) for item in found]
        return _contexts(found)

    def whole(self, value: object) -> dict[str, Any]:
        """`value` with answer and contexts under their known names. Raises BadReturn for a path to nothing."""
        picked = self.part(value)
        for name, path in (("answer", self.answer), ("contexts", self.contexts)):
            if path is not None and name not in picked:
                hint = named_texts(value) if name == "answer" else ""
                raise BadReturn(f"Nothing at {name}_field '{path}' in {shown(value)}. {hint}".strip())
        return picked

    def part(self, piece: object) -> dict[str, Any]:
        """Those fields of a whole answer that are in `piece`, under their known names."""
        picked: dict[str, Any] = {}
        for name, names in (("answer", ANSWER_NAMES), *_BESIDE):
            path = {"answer": self.answer, "contexts": self.contexts}.get(name)
            found = _first(piece, names) if path is None else at_path(piece, path, _ABSENT)
            if found is None and name == "answer":
                found = _message_text(piece)
            if found is not _ABSENT and (path is not None or found is not None):
                picked[name] = found
        if self._inside and isinstance(picked.get("contexts"), (list, tuple)):
            picked["contexts"] = [self._context(item) for item in picked["contexts"]]
        return picked

    def _context(self, item: object) -> dict[str, Any]:
        found: dict[str, Any] = {"text": _context_text(item), "id": None, "score": None}
        if not isinstance(item, str):
            found["id"], found["score"] = _identity(item), _first(item, SCORE_NAMES)
        found.update((name, at_path(item, path)) for name, path in self._inside.items())
        if found["text"] is None and self.context_text is None:
            del found["text"]  # there may be nothing but an id
        return found


_ABSENT = object()


def at_path(value: object, path: str, absent: object = None) -> Any:
    """The value at a dotted path, `absent` if there is none.

    A part is a key or an attribute, an index into a list, or ``*`` for each element of a list: ``hits.*.source.text``,
    or ``hits[].source.text``.
    """
    if "[" in path and not (isinstance(value, Mapping) and path in value):
        path = re.sub(r"\[(\d*)\]", lambda found: f".{found[1] or '*'}", path).lstrip(".")
    head, _, rest = path.partition(".")
    if isinstance(value, Mapping):
        if path in value:  # a key that contains dots, or the last one
            return value[path]
        return at_path(value[head], rest, absent) if rest and head in value else absent
    if isinstance(value, (list, tuple)):
        if head == "*":
            return [at_path(item, rest) if rest else item for item in value]
        if head.isdecimal() and int(head) < len(value):
            return at_path(value[int(head)], rest, absent) if rest else value[int(head)]
    found = None if head.startswith("_") or isinstance(value, (str, bytes)) else _get(value, head)
    if found is None or inspect.ismethod(found):
        return absent
    return at_path(found, rest, absent) if rest else found


def _is_pair(value: object) -> bool:
    return (
        type(value) is tuple
        and len(value) == 2
        and (value[1] is None or isinstance(value[1], (list, tuple, str)))
        and (_is_stream(value[0]) or _message_text(value[0]) is not None)
    )


def _message_text(value: object) -> str | None:
    """The text of a string or of a chat message (its `content`: a string, or a list of blocks)."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return None
    content = _get(value, "content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        blocks = [block if isinstance(block, str) else _get(block, "text") for block in content]
        texts = [block for block in blocks if isinstance(block, str)]
        return "".join(texts) if texts else None
    return None


def _contexts(value: object) -> list[dict[str, Any]]:
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    value = _opened(value)
    if isinstance(value, (str, Mapping)) or _context_text(value) is not None:
        return [_context(value, 0, _context_text(value) is None)]
    table = hasattr(value, "keys")  # iterating over a data frame gives its column names
    if table or isinstance(value, (set, frozenset, bytes)) or not isinstance(value, Iterable):
        reason = "a set has no order" if isinstance(value, (set, frozenset)) else "it is not a list"
        raise BadReturn(f"The contexts are {shown(value)}: {reason}. {EXPECTED}")
    contexts: list[dict[str, Any]] = []
    characters, only_ids = 0, True
    for rank, item in enumerate(value):
        if rank >= MAX_CONTEXTS:
            raise BadReturn(f"More than {MAX_CONTEXTS:,} contexts were returned for one question.")
        contexts.append(_context(item, rank, only_ids))
        only_ids = only_ids and not contexts[-1]["text"]
        characters += _characters(contexts[-1])
        _refuse_long(characters)
    return contexts


def _opened(value: object) -> object:
    """Contexts by their ids, as an object or as the text of one, as a list; anything else as it is."""
    opened = value
    if isinstance(value, str):
        if not value.lstrip().startswith("{"):
            return value
        try:
            opened = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if not isinstance(opened, Mapping) or not opened or _context_text(opened) is not None:
        return value
    if not all(isinstance(item, Mapping) and _context_text(item) is not None for item in opened.values()):
        return value
    return [{**item, "id": _identity(item) or str(name)} for name, item in opened.items()]


def _characters(context: Mapping[str, Any]) -> int:
    return len(context["text"]) + len(context["id"] or "")


def _refuse_long(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise BadReturn(
            f"The answer and its contexts have {characters:,} characters; at most {MAX_CHARACTERS:,} are read."
        )


def _with_ids(contexts: list[dict[str, Any]], ids: object) -> list[dict[str, Any]]:
    """`contexts` with the `ids` that were returned beside them, or, if there are none, those ids alone."""
    if not isinstance(ids, (list, tuple)) or len(ids) > MAX_CONTEXTS or not all(_as_id(one) for one in ids):
        return contexts
    if not contexts:
        return [{"text": "", "id": _as_id(one), "score": None} for one in ids]
    if len(ids) != len(contexts):
        return contexts
    return [{**context, "id": context["id"] or _as_id(ids[rank])} for rank, context in enumerate(contexts)]


def _as_id(value: object) -> str | None:
    named = isinstance(value, (str, int)) and not isinstance(value, bool)
    return _clean(str(value)) if named and str(value).strip() else None


def _context(item: Any, rank: int, may_be_id: bool) -> dict[str, Any]:
    """One context; `may_be_id`: one without text, which is known by its id, as all before it are."""
    score = None
    if type(item) is tuple and len(item) == 2 and number(item[1]) is not None:
        item, score = item[0], number(item[1])  # (document, score), as returned by vector stores
    text = _context_text(item)
    if text is None and may_be_id and (name := _name_alone(item)):
        found = number(_first(item, SCORE_NAMES))
        return {"text": "", "id": name, "score": score if found is None else found}
    if text is None:
        raise BadReturn(f"Context {rank + 1} is {shown(item)}, in which no text was found. {EXPECTED}")
    if isinstance(item, str):
        return {"text": _clean(text), "id": None, "score": score}
    node = _get(item, "node")
    found = number(_first(item, SCORE_NAMES))
    identity = _identity(item) or (None if node is None or isinstance(node, str) else _identity(node))
    return {"text": _clean(text), "id": identity, "score": score if found is None else found}


def _context_text(item: object) -> str | None:
    for _ in range(MAX_NODES):
        if isinstance(item, str):
            return item
        if item is None or isinstance(item, (bool, int, float, bytes, list, tuple)):
            return None
        method = None if isinstance(item, Mapping) else _get(item, "get_content")
        for value in (*(_get(item, name) for name in TEXT_NAMES), method() if callable(method) else None):
            if isinstance(value, str):
                return value
        item = _get(item, "node")
    return None


def _identity(item: object) -> str | None:
    metadata = _get(item, "metadata")
    for holder, names in ((item, ID_NAMES), (metadata, (*ID_NAMES, "source"))):
        for name in names:
            value = None if holder is None else _get(holder, name)
            if isinstance(value, float) and value.is_integer():
                value = int(value)  # as pandas reads a column of ids with an empty cell
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
                return _clean(str(value))
    return None


def _name_alone(item: object) -> str | None:
    """The id or name of a document in `item`, if there is nothing in it that could be its text."""
    fields = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
    for key, value in fields.items():
        if key in TEXT_NAMES or (key != "metadata" and value and isinstance(value, (Mapping, list, tuple))):
            return None
        if key not in NAMING and isinstance(value, str) and len(value.split()) > MAX_LABEL_WORDS:
            return None
    named = (_as_id(_get(holder, name)) for holder in (item, _get(item, "metadata")) for name in NAMING)
    return _identity(item) or next(filter(None, named), None)


def _usage(value: object) -> dict[str, int] | None:
    usage = None if isinstance(value, str) else _first(value, USAGE_NAMES)
    if usage is None:
        return None
    counts = [
        _first(usage, names) for names in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
    ]
    if all(isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_TOKENS for count in counts):
        return {"input_tokens": int(str(counts[0])), "output_tokens": int(str(counts[1]))}
    return None


def _trace(value: object) -> dict[str, str]:
    """What an answer says of its trace and its index, by the names in TRACE_NAMES."""
    found = {} if isinstance(value, str) else {name: _get(value, name) for name in TRACE_NAMES}
    return {
        name: _clean(text)
        for name, text in found.items()
        if isinstance(text, str) and 0 < len(text) <= MAX_TRACE_CHARACTERS
    }


def _first(holder: object, names: Iterable[str]) -> Any:
    for name in names:
        value = _get(holder, name)
        if value is not None and not inspect.ismethod(value):
            return value
    return None


def _get(holder: object, name: str) -> Any:
    """The field of a mapping or the attribute of an object; None if absent or if the property raises."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    if holder is None or isinstance(holder, (str, int, float, bytes, list, tuple, set, frozenset)):
        return getattr(holder, name, None) if hasattr(type(holder), "_fields") else None
    try:
        return getattr(holder, name, None)
    except Exception:  # a user's property that raises counts as missing
        return None


def number(value: object) -> float | None:
    if value is None or isinstance(value, (bool, str, bytes)):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _clean(text: str) -> str:
    """`text` as a plain str that UTF-8 can hold: a lone surrogate becomes U+FFFD."""
    plain = str.__str__(text)
    try:
        plain.encode("utf-8")
    except UnicodeEncodeError:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_SECRET = re.compile(
    r"(?i)(?P<before>\b(?:sk|pk|xox\w|gh\w|github_pat|glpat|hf)[-_]|\b(?:AKIA|AIza|eyJ)(?=\w{12})|\bBearer\s+|"
    r"://[^\s/:@]*:(?=[^\s/@]+@)|(?:api[_-]?key|secret|passw(?:or)?d|access_?token|authorization)"
    r"['\"]?\s*[:=]\s*['\"]?(?:basic\s+|bearer\s+)?)(?P<value>[^\s'\",;}]{8,})"
)


def _masked(text: str) -> str:
    """`text` without what looks like a key or a password."""
    return _SECRET.sub(lambda found: found["before"] + "***", text)


def shown(value: object, limit: int = 200) -> str:
    """A bounded repr with the type's name; never raises."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = limit
    short.maxlevel, short.maxdict, short.maxlist, short.maxtuple = 2, 8, 4, 4
    try:
        text = short.repr(value)
    except Exception:
        text = "an object whose repr() fails"
    text = _ADDRESS.sub("", text)  # addresses differ each time, so equal failures would look different
    text = _masked(text)
    text = _clean(text if len(text) <= limit else text[: limit - 3] + "...")
    return f"{text} ({type(value).__name__})"


# --- what can be asked -------------------------------------------------------------------------------------------


CONTEXTS = "contexts"
"""The parameter or field that takes the contexts that a system is given."""

HISTORY_NAMES = ("history", "chat_history", "messages")
"""Parameters and fields that take the earlier turns; `messages` ends with the question itself."""


class Asker:
    """Calls one object, whatever its shape, and gives the returned value. Created by `adapt`.

    `history_name` is the parameter, or the field of the input, that takes the earlier turns of a conversation; None if
    there is none. `takes_contexts`: it has a parameter or field `contexts`, for contexts that it is given.
    """

    def __init__(
        self,
        ask: Callable[..., Any],
        ask_async: Callable[..., Any] | None,
        key: str | None,
        history_field: str | None = None,
        contexts_field: str | None = None,
        declared: bool = False,
    ) -> None:
        self._ask = ask
        self._ask_async = ask_async
        self._key = key
        self._in_input = history_field is not None
        self.history_name = history_field or _parameter(ask, HISTORY_NAMES)
        self._always = self.history_name in _required(ask) and not self._in_input
        self._contexts_in_input = contexts_field is not None or (declared and key is not None)
        self.takes_contexts = declared or contexts_field is not None or _parameter(ask, (CONTEXTS,)) is not None

    @property
    def accepts(self) -> list[str]:
        """What it takes besides the question."""
        taken = ["history"] if self.history_name is not None else []
        return [*taken, CONTEXTS] if self.takes_contexts else taken

    @property
    def is_async(self) -> bool:
        """Whether `begin` certainly returns an awaitable (a coroutine function)."""
        return _is_coroutine_function(self._ask)

    def begin(
        self,
        question: str,
        history: Sequence[Mapping[str, str]] = (),
        contexts: Sequence[str] | None = None,
    ) -> Any:
        """Call it; the result may be awaitable. Falls back to the async method if the sync one is not implemented.

        `history` are the earlier turns, as ``{"role", "content"}``; they are left out if it takes none. `contexts` are
        the texts that it is given in place of its own retrieval; None: it retrieves by itself.
        """
        name = self.history_name
        inside: dict[str, Any] = {}
        beside: dict[str, Any] = {}
        if name is not None and (history or self._always):
            last = [{"role": "user", "content": question}] if name == "messages" else []
            (inside if self._in_input else beside)[name] = [dict(turn) for turn in (*history, *last)]
        if contexts is not None and self.takes_contexts:
            (inside if self._contexts_in_input else beside)[CONTEXTS] = list(contexts)
        if self._key == "messages":
            question = [*map(dict, history), {"role": "user", "content": question}]  # type: ignore[assignment]
        return self._call(question if self._key is None else {self._key: question, **inside}, beside)

    def _call(self, given: Any, more: dict[str, Any]) -> Any:
        try:
            return self._ask(given, **more)
        except (TypeError, NotImplementedError) as error:
            refused = isinstance(error, NotImplementedError) or "synchronously" in str(error)
            if self._ask_async is None or not refused:
                raise
        self._ask, self._ask_async = self._ask_async, None
        return self._ask(given, **more)


def finish(value: object, heard: Callable[[], None] | None = None, fields: Fields | None = None) -> Any:
    """Join a streamed answer into a whole one; the result may be awaitable.

    Accepts generators, async generators and other iterators of pieces, alone or as the answer of a mapping or a pair,
    and LlamaIndex's streaming responses (which have `response_gen`). `heard` is called at the first text.
    `fields` are looked up in each piece. What a system yields that only retrieves are contexts.
    """
    if fields is not None and fields.contexts_only:
        return _listed(value) if _is_stream(value) else value
    if _is_stream(value):
        return _joined(value, Pieces({}, heard, fields))
    if _is_pair(value) and _is_stream(value[0]):  # type: ignore[index]
        return _joined(value[0], Pieces({"contexts": value[1]}, heard, fields))  # type: ignore[index]
    if fields and fields.answer is not None:
        picked = fields.part(value)
        if _is_stream(picked.get("answer")):
            return _joined(picked.pop("answer"), Pieces(picked, heard))
    if not isinstance(value, str) and _get(value, "response_gen") is not None:
        method = _get(value, "get_response")
        if callable(method):
            return method()
    for name in () if isinstance(value, str) else ANSWER_NAMES:
        stream = _get(value, name)
        if _is_stream(stream):
            beside = value if isinstance(value, Mapping) else {key: _first(value, names) for key, names in _BESIDE}
            rest = fields.part(beside) if fields else beside
            more = {key: rest[key] for key in rest if key not in (name, "answer")}
            return _joined(stream, Pieces(more, heard, fields))
    return value


def _listed(stream: Any) -> Any:
    """The items of `stream`, one more than are allowed at most; awaitable if it is async."""
    items: list[Any] = []

    def add(item: Any) -> bool:
        items.append(item)
        return len(items) > MAX_CONTEXTS

    return _walked(stream, add, lambda: items)


def _walked(stream: Any, add: Callable[[Any], object], whole: Callable[[], Any]) -> Any:
    """`whole()`, once all items of `stream` are added, or `add` says that it is enough; awaitable if it is async."""
    if hasattr(type(stream), "__anext__"):
        return _walked_async(stream, add, whole)
    for item in stream:
        if add(item):
            break
    return whole()


async def _walked_async(stream: Any, add: Callable[[Any], object], whole: Callable[[], Any]) -> Any:
    async for item in stream:
        if add(item):
            break
    return whole()


def _is_stream(value: object) -> bool:
    return hasattr(type(value), "__anext__") or (hasattr(type(value), "__next__") and not hasattr(value, "fileno"))


def _joined(stream: Any, pieces: Pieces) -> Any:
    return _walked(stream, pieces.add, pieces.whole)


class Pieces:
    """Joins pieces of a streamed answer in order of arrival. Raises BadReturn for a bad piece.

    A piece is text, a chat message or chunk, or a mapping or object with a part of the answer or what comes with it.
    """

    def __init__(
        self, rest: Mapping[str, Any], heard: Callable[[], None] | None = None, fields: Fields | None = None
    ) -> None:
        self._whole: dict[str, Any] = dict(rest)
        self._texts: list[str] = []
        self._size = 0
        self._count = 0
        self._heard = heard
        self._fields = fields

    def add(self, piece: object) -> None:
        self._count += 1
        text, others = read_piece(piece, self._fields)
        if text is None and not others:
            raise BadReturn(
                f"Piece {self._count} of the stream is {shown(piece)}, in which no text was found. {EXPECTED}"
            )
        self._whole.update(others)
        if text:
            if not self._texts and self._heard is not None:
                self._heard()
            self._texts.append(text)
            self._size += len(text)
            if self._size > MAX_ANSWER_CHARACTERS:
                raise BadReturn(f"The streamed answer has more than {MAX_ANSWER_CHARACTERS:,} characters.")

    @property
    def any(self) -> bool:
        """Whether anything came."""
        return self._count > 0

    def whole(self) -> dict[str, Any]:
        """The answer. Raises BadReturn if nothing came."""
        if not self._count:
            raise BadReturn(f"The stream ended without a piece. {EXPECTED}")
        return Joined({**self._whole, "answer": "".join(self._texts)})


class Joined(dict):  # type: ignore[type-arg]
    """A joined stream, whose fields have already been resolved."""


def read_piece(piece: object, fields: Fields | None = None) -> tuple[str | None, dict[str, Any]]:
    """The text in a piece of a stream, and the contexts, usage and trace in it."""
    if isinstance(piece, str):
        return piece, {}
    if fields and (fields.answer is not None or isinstance(piece, Mapping)):
        piece = fields.part(piece)
    answer = _first(piece, ANSWER_NAMES)
    text = _message_text(piece if answer is None else answer)
    others = ((name, _first(piece, names)) for name, names in _BESIDE)
    return _delta(piece) if text is None else text, {name: value for name, value in others if value is not None}


def _delta(piece: object) -> str | None:
    """The text of a chunk of a chat completion; "" for a chunk that has none."""
    choices = _get(piece, "choices")
    if not isinstance(choices, list):
        return None
    delta = _get(choices[0], "delta") if choices else None
    content = _get(delta, "content") if delta is not None else None
    return content if isinstance(content, str) else ""


class Part(NamedTuple):
    """Which half of the system is evaluated: ``retrieval``, ``generation``, or None for the whole.

    `takes_contexts` is what the user says of it, None for nothing: then the signature decides.
    """

    name: str | None = None
    takes_contexts: bool | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods to look for in an object."""
        return RETRIEVING if self.name == "retrieval" else METHODS


def adapt(target: object, build: Callable[[Any], Any], part: Part | None = None) -> Asker:
    """An Asker for a function, class, zero-argument factory, or object with answer/query/invoke/__call__.

    `build` receives the value returned by a class or factory and resolves it if awaitable. `part` is the half that is
    evaluated; None for the whole system. Raises EntrypointError.
    """
    part = part or Part()
    if inspect.isclass(target):
        _refuse_parameters(target)
        return _adapt_object(build(target()), part)
    if inspect.isroutine(target) or type(target).__name__ == "partial":
        takes, required = _positional(target)
        if takes == 0 and not required:
            made = build(target())  # type: ignore[operator]
            return adapt(made, build, part) if inspect.isroutine(made) else _adapt_object(made, part)
        _check_one_question(target, required, part)
        return Asker(target, None, None, declared=_declared(target, part))  # type: ignore[arg-type]
    return _adapt_object(target, part)


def _adapt_object(target: object, part: Part) -> Asker:
    for name in part.methods:
        method = _get(target, name)
        if callable(method) and not inspect.isclass(method):
            twin = _get(target, "a" + name)
            return _method_asker(target, name, method, twin if callable(twin) else None, part)
    for name in part.methods:
        method = _get(target, "a" + name)
        if callable(method):
            return _method_asker(target, name, method, None, part)
    run, inputs = _get(target, "run"), _get(target, "inputs")
    if callable(run) and callable(inputs):
        return Asker(_pipeline(target, inputs()), None, None)
    if callable(target):
        _check_one_question(target, _required(target), part)
        key = _keyword(target)
        asked = target if key is None else lambda question: target(**{key: question})
        return Asker(asked, None, None, declared=_declared(target, part))
    raise EntrypointError(
        f"{shown(target)} can't be asked. Expected a function answer(question), or an object with "
        "answer(question), ask(question), query(question), invoke(question), chat(question) or __call__(question)."
    )


def _keyword(target: object) -> str | None:
    """The name by which a DSPy module takes the question, if it takes none by position."""
    forward = getattr(type(target), "forward", None)  # an instance's own warns when it is looked up
    if not callable(forward) or _positional(forward)[0] > 1:
        return None
    for holder in (target, _get(target, "predict")):
        names = list(_get(_get(holder, "signature"), "input_fields") or ())
        if names:
            return next((name for name in QUESTION_NAMES if name in names), str(names[0]))
    return None


def _pipeline(target: Any, inputs: Mapping[str, Mapping[str, Any]]) -> Callable[[str], Any]:
    """Asks a Haystack pipeline: the question goes to each open input for one, and documents come back with the reply.

    Raises EntrypointError if it has no such input, or nothing in it replies.
    """
    open_inputs = {
        component: [
            name
            for name, socket in sockets.items()
            if socket.get("type") in (str, Any) and (name in QUESTION_NAMES or socket.get("is_mandatory"))
        ]
        for component, sockets in inputs.items()
    }
    open_inputs = {component: names for component, names in open_inputs.items() if names}
    graph = _get(target, "graph")
    sends = {name: set(_get(node, "output_sockets") or ()) for name, node in _get(graph, "nodes").items()}
    if not open_inputs or not any(names & {"replies", "answers"} for names in sends.values()):
        what = "replies to a question" if open_inputs else "takes a question"
        raise EntrypointError(f"nothing in this pipeline of {', '.join(sends) or 'no components'} {what}.")
    last = [
        sender
        for sender, receiver in _get(graph, "edges")()
        if "documents" in sends[sender] and "documents" not in sends[receiver]
    ]
    given = {"include_outputs_from": set(last[-1:])} if last else {}
    return lambda question: target.run(
        {component: dict.fromkeys(names, question) for component, names in open_inputs.items()}, **given
    )


def _method_asker(target: object, name: str, method: Any, twin: Any, part: Part) -> Asker:
    if name != "invoke":
        return Asker(method, twin, None, declared=_declared(method, part))
    fields = _input_fields(target)
    key, named = _input_key(target, fields), fields or {}
    history = next((name for name in HISTORY_NAMES if name in named), None)
    contexts = CONTEXTS if key is not None and CONTEXTS in named else None
    declared = bool(part.takes_contexts) and key is not None
    return Asker(method, twin, key, history, contexts, declared or _declared(method, part))


def _declared(target: Any, part: Part) -> bool:
    """Whether the user says that `target` takes contexts. Raises EntrypointError if its signature says otherwise."""
    signature = _signature(target)
    if not part.takes_contexts or signature is None or _parameter(target, (CONTEXTS,)) is not None:
        return bool(part.takes_contexts)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return True
    name = getattr(target, "__name__", type(target).__name__)
    raise EntrypointError(f"takes_contexts = true, but {name} has no parameter '{CONTEXTS}'.")


def _input_fields(target: object) -> dict[str, Any] | None:
    """The fields of a LangChain Runnable's input; None if it names none."""
    method = _get(target, "get_input_jsonschema")
    try:
        schema = method() if callable(method) else None
    except Exception:  # of a state that pydantic can't describe: a graph's own class has its fields
        graph = _get(target, "builder")
        state = _get(graph, "input_schema") or _get(graph, "state_schema") or _get(graph, "schema")
        return dict(getattr(state, "__annotations__", {})) or None
    fields = schema.get("properties") if isinstance(schema, dict) and schema.get("type") == "object" else None
    return fields if isinstance(fields, dict) else None


def _input_key(target: object, fields: Mapping[str, Any] | None) -> str | None:
    """The field in which a LangChain Runnable expects the question, None if it takes the bare string."""
    keys = _get(target, "input_keys")
    if isinstance(keys, list) and len(keys) == 1 and isinstance(keys[0], str):
        return keys[0]
    only = [str(name) for name in fields or () if name != "root"]  # LangChain's name of an untyped input
    known = (name for name in (*QUESTION_NAMES, "messages") if name in only)
    return next(known, only[0] if fields is not None and len(fields) == 1 and only else None)


def _signature(target: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return None


def _positional(target: Any) -> tuple[int, list[str]]:
    """The number of positional parameters, and the names of all required ones."""
    signature = _signature(target)
    if signature is None:
        return 1, []
    keyword_kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return sum(p.kind not in keyword_kinds for p in signature.parameters.values()), _required(target)


def _required(target: Any) -> list[str]:
    signature = _signature(target)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = [] if signature is None else signature.parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]


def _parameter(target: Any, names: Sequence[str]) -> str | None:
    """The name of the parameter of `target` that is one of `names`, beside the question, and can be passed by name."""
    signature = _signature(target)
    for at, parameter in enumerate([] if signature is None else signature.parameters.values()):
        after_question = at > 0 and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if parameter.name in names and (after_question or parameter.kind is parameter.KEYWORD_ONLY):
            return str(parameter.name)
    return None


def _check_one_question(target: Any, required: list[str], part: Part) -> None:
    takes, _ = _positional(target)
    history, contexts = _parameter(target, HISTORY_NAMES), _parameter(target, (CONTEXTS,))
    name = getattr(target, "__name__", type(target).__name__)
    if contexts in required and part.name != "generation":
        raise EntrypointError(
            f"{name} needs '{CONTEXTS}'. Give the parameter a default, such as None, for questions without contexts. "
            'If it only generates, set part = "generation" under [system]: then it is given the reference contexts.'
        )
    required = [name for name in required if name not in (history, contexts)]
    if len(required) > 1 or takes == 0:
        raise EntrypointError(
            f"{name}({', '.join(required)}) can't be called with one question. Expected {name}(question)."
        )


def _is_coroutine_function(target: Any) -> bool:
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


def load(spec: str) -> object:
    """The object that ``package.module:attribute`` or ``path/to/file.py:attribute`` names. Raises EntrypointError."""
    target, _, attribute = spec.rpartition(":")
    try:
        module = _load_file(target) if target.endswith(".py") else _load_module(target)
    except EOFError:
        raise EntrypointError(
            f"'{target}' asks for input when it is imported: put what asks under `if __name__ == \"__main__\":`."
        ) from None
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            names = [name for name in dir(value) if not name.startswith("_")]
            close = difflib.get_close_matches(part, names, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise EntrypointError(f"'{target}' has no attribute '{part}'.{hint}")
        if inspect.isclass(value) and inspect.isfunction(inspect.getattr_static(value, part)):
            _refuse_parameters(value)
            value = value()  # a method needs an object
        value = getattr(value, part)
    return value


def _refuse_parameters(target: Any) -> None:
    missing = _required(target)
    if missing:
        raise EntrypointError(
            f"the class {target.__name__} can't be created without arguments ({', '.join(missing)}). "
            "Point the entrypoint at a function without parameters that returns an instance."
        )


def _load_module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        folder = os.path.join(*name.split(".")[:-1], "")  # noqa: PTH118
        if folder and os.path.isfile(f"{folder}{error.name}.py"):  # noqa: PTH113
            file = name.replace(".", os.sep) + ".py"
            raise EntrypointError(
                f"'{name}' imports '{error.name}', which is beside it: name the file, {file}."
            ) from None
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise EntrypointError(
            f"no module named '{error.name}', neither in {_here()} nor installed for {sys.executable}."
        ) from None


def _load_file(path: str) -> object:
    full = os.path.abspath(path)  # noqa: PTH100
    if not os.path.isfile(full):  # noqa: PTH113
        raise EntrypointError(f"file not found: {full}")
    sys.path.insert(0, os.path.dirname(full))  # noqa: PTH120
    name = os.path.splitext(os.path.basename(full))[0]  # noqa: PTH119, PTH122
    specification = importlib.util.spec_from_file_location(name, full)
    if specification is None or specification.loader is None:
        raise EntrypointError(f"not a Python file: {full}")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _refuse_modules_from(folder: str) -> None:
    """Raise EntrypointError if a module was imported from `folder`, unless it is installed in this environment."""
    real = os.path.realpath
    allowed = tuple(os.path.join(real(path), "") for path in (_here(), sys.prefix, sys.base_prefix))  # noqa: PTH118
    for name, module in sorted(sys.modules.items()):
        file = real(getattr(module, "__file__", None) or os.sep)
        if file.startswith(os.path.join(real(folder), "")) and not file.startswith(allowed):  # noqa: PTH118
            raise EntrypointError(
                f"it imports '{name}' from the current checkout ({file}), so the base commit would be asked with the "
                "current code. Evaluate the base commit in an environment of its own (`ragstone run`), and "
                "name that run with --baseline."
            )


def formatted(error: BaseException, *own_files: str) -> str:
    """The user's traceback, without Ragstone's own leading frames, at most 8,000 characters."""
    frames = error.__traceback__
    while frames is not None and (
        frames.tb_frame.f_code.co_filename in (SOURCE_NAME, globals().get("__file__"), *own_files)
        or frames.tb_frame.f_code.co_filename.startswith("<frozen importlib")
        or frames.tb_frame.f_globals.get("__name__", "").startswith("importlib")
    ):
        frames = frames.tb_next
    text = _masked(_cut("".join(traceback.format_exception(type(error), error, frames)), 80_000))
    return _cut(text, 8_000)


def _cut(text: str, limit: int) -> str:
    """`text` as UTF-8 can hold it, without its middle if it is too long."""
    return _clean(text if len(text) <= limit else text[: limit // 2] + "\n...\n" + text[100 - limit // 2 :])


def _here() -> str:
    return os.getcwd()  # noqa: PTH109


def summary(error: BaseException) -> str:
    """``Type: message`` in one line of at most 300 characters."""
    lines = traceback.format_exception_only(type(error), error)
    line = " ".join(_masked(_cut(lines[-1], 80_000)).split())
    return line if len(line) <= 300 else line[:297] + "..."


# --- functions of custom metrics -----------------------------------------------------------------------------------

GIVEN = ("question", "answer", "contexts", "context_ids", "reference", "tags", "id")
"""What a metric's function can ask for, by the names of its parameters."""


class Functions:
    """The functions of custom metrics, by metric. A request names the metric and has what can be asked for."""

    def __init__(self, targets: Mapping[str, object]) -> None:
        self._targets: dict[str, tuple[Any, tuple[str, ...]]] = {
            name: (target, _asks_for(name, target)) for name, target in targets.items()
        }

    def is_async(self, metric: str) -> bool:
        return _is_coroutine_function(self._targets[metric][0])

    def call(self, metric: str, given: Mapping[str, Any]) -> Any:
        """What the function of `metric` returns; it may be awaitable."""
        target, names = self._targets[metric]
        return target(**{name: given[name] for name in names})

    def begin(self, request: str) -> Any:
        """What the function of a `request`, which is JSON, returns; it may be awaitable."""
        asked = json.loads(request)
        return self.call(asked["metric"], asked["given"])


def _asks_for(metric: str, target: Any) -> tuple[str, ...]:
    """The names that `target` is called with. Raises EntrypointError for a target that can't be called with them."""
    label = str(getattr(target, "__name__", type(target).__name__))
    if not callable(target) or inspect.isclass(target):
        raise EntrypointError(f"{shown(target)} is not a function (metric '{metric}').")
    signature = _signature(target)
    if signature is None:
        raise EntrypointError(f"the parameters of {label} can't be read (metric '{metric}'): write a Python function.")
    names = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            return GIVEN
        if parameter.name in GIVEN and parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            names.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            close = difflib.get_close_matches(parameter.name, GIVEN, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise EntrypointError(
                f"{label} asks for '{parameter.name}' (metric '{metric}').{hint} A metric's function gets, by the "
                f"names of its parameters: {', '.join(GIVEN)}."
            )
    if not names:
        raise EntrypointError(
            f"{label} asks for nothing (metric '{metric}'). A metric's function gets, by the names of its parameters: "
            f"{', '.join(GIVEN)}."
        )
    return tuple(names)


def grade(value: object) -> float | None:
    """A returned value as a number in [0, 1]; None (does not apply) stays None. Raises BadReturn."""
    if value is None:
        return None
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # numpy's bool is no bool
        return 1.0 if value else 0.0
    found = number(value)
    if found is None or not 0.0 <= found <= 1.0:
        raise BadReturn(
            f"Returned {shown(value)}. Expected True, False, a number from 0 to 1, or None if it does not apply."
        )
    return found


# --- the worker process ------------------------------------------------------------------------------------------


def frame(body: bytes) -> bytes:
    """`body` behind its length, in ten digits."""
    return b"%010d" % len(body) + body


class _Link:
    """Frames to and from Ragstone, on separate descriptors."""

    def __init__(self) -> None:
        # Descriptors from dup() are not inherited by programs that user code starts.
        self._in, self._out, self._pid = os.dup(0), os.dup(1), os.getpid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)

    def greet(self, token: str) -> None:
        """Mark the start of the worker's output; anything before it comes from start-up hooks of the interpreter."""
        self._write(("\n" + token + "\n").encode("ascii"))

    def receive(self) -> Any:
        head = self._read(10)
        body = self._read(int(head)) if head else b""
        return json.loads(body) if body else None

    def send(self, message: dict[str, Any]) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # a forked child of user code returned from the call; only its parent may answer
        self._write(frame(json.dumps(message, allow_nan=False).encode("ascii")))

    def _read(self, size: int) -> bytes:
        chunks = []
        while size > 0:
            chunk = os.read(self._in, min(size, 1 << 20))
            if not chunk:
                return b""
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._out, view) :]
        except OSError as error:
            sys.exit(
                f"The worker can't answer ({error.strerror}). Has your system closed descriptors that are not its own?"
            )


class _Session:
    """One entrypoint for all questions. Async code runs in one loop that lives as long as the worker."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._loop: asyncio.AbstractEventLoop | None = None

    def resolve(self, value: Any) -> Any:
        """`value`, awaited in the worker's loop if it is awaitable."""
        if not inspect.isawaitable(value):
            return value
        import asyncio  # takes longer to load than all the rest, and only async code needs it

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(_await(value))

    def serve(self, asker: Asker | Functions, fields: Fields) -> None:
        while True:
            request = self._link.receive()
            if request is None:
                return
            self._link.send(self._answer(asker, fields, request))

    def _answer(self, asker: Asker | Functions, fields: Fields, request: dict[str, Any]) -> dict[str, Any]:
        number, question = request["number"], request["question"]
        reply: dict[str, Any] = {"number": number}
        try:
            if isinstance(asker, Functions):
                value = self.resolve(asker.begin(question))
            else:
                value = self.resolve(asker.begin(question, request.get("history") or (), request.get("contexts")))
                heard = {"number": number, "event": "text"}
                value = self.resolve(finish(value, lambda: self._link.send(heard), fields))
            # From here on the system's time is over: serialising ten thousand contexts takes a while.
            self._link.send({"number": number, "event": "returned"})
            if isinstance(asker, Functions):
                reply["payload"] = {"answer": json.dumps(grade(value)), "contexts": [], "usage": None}
            else:
                reply["payload"] = normalise(value, fields)
        except BadReturn as error:
            reply["error"] = {"kind": "bad_return", "message": str(error), "detail": error.detail}
        except BaseException as error:  # SystemExit and KeyboardInterrupt of user code cost one sample, not the worker
            message = summary(error) + _closed_output(error)
            reply["error"] = {"kind": "raised", "message": message, "detail": formatted(error)}
        reply["rss_bytes"] = _own_rss_bytes()
        return reply

    def watch(self) -> None:
        """On SIGUSR1 (sent on a timeout), write the stacks of all threads and tasks to the log."""
        if sys.platform != "win32":  # no such signal on Windows: a timeout is reported without a stack
            import faulthandler
            import signal

            if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
                signal.signal(signal.SIGUSR1, lambda *_: self._show_tasks())
                faulthandler.register(signal.SIGUSR1, file=2, all_threads=True, chain=True)

    def _show_tasks(self) -> None:
        """Show where each task waits. Follows the awaits, since asyncio shows only a task's outermost frame."""
        if self._loop is None:
            return
        import asyncio

        for task in asyncio.all_tasks(self._loop):
            os.write(2, b"Task (most recent call last):\n")
            waiting: Any = task.get_coro()
            while waiting is not None:
                frame = getattr(waiting, "cr_frame", None)
                if frame is not None:
                    line = '  File "{}", line {} in {}\n'
                    where = line.format(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
                    os.write(2, where.encode("utf-8", "replace"))
                waiting = getattr(waiting, "cr_await", None)


def _closed_output(error: BaseException) -> str:
    """A note for an error that may come from an output closed by the system, at this question or an earlier one."""
    if isinstance(error, (ValueError, OSError)):
        for number, name, stream in ((1, "standard output", sys.stdout), (2, "standard error", sys.stderr)):
            try:
                os.fstat(number)
                closed = stream is None or stream.closed
            except OSError:
                closed = True
            if closed:
                return f" (Your system has closed its {name}, perhaps at an earlier question: leave it open.)"
    return ""


async def _await(value: Any) -> Any:
    return await value


def rss_bytes(process: int | str) -> int | None:
    """Resident memory of a `process` (its id, or "self"), on Linux; None elsewhere, and if it has ended."""
    size: int | None = None
    if sys.platform == "linux":
        import resource

        try:
            with open(f"/proc/{process}/statm", "rb") as file:  # noqa: PTH123
                size = int(file.read().split()[1]) * resource.getpagesize()
        except (OSError, ValueError, IndexError):
            pass
    return size


def _own_rss_bytes() -> int | None:
    """Resident memory now (Linux), at its peak (other POSIX systems), or None."""
    size = rss_bytes("self")
    if size is None and sys.platform != "win32":
        import resource

        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return size


def _volunteer_for_oom() -> None:
    """When memory runs out, let the kernel kill the worker, not Ragstone."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write("500")
    except OSError:
        pass


def main() -> NoReturn:
    """Serve questions until stdin ends."""
    link = _Link()
    hello = link.receive()
    link.greet(hello["token"])
    _volunteer_for_oom()
    session = _Session(link)
    session.watch()
    sys.path[:] = [_here()] + [entry for entry in sys.path if entry not in ("", _here())]
    try:
        specs = hello.get("functions")
        asker: Asker | Functions
        if specs:
            asker = Functions({metric: load(spec) for metric, spec in specs.items()})
        else:
            part = Part(hello.get("part"), hello.get("takes_contexts"))
            asker = adapt(load(hello["entrypoint"]), session.resolve, part)
        if hello.get("not_from"):
            _refuse_modules_from(hello["not_from"])
    except EntrypointError as error:
        link.send({"failed": {"message": str(error), "detail": None}})
        sys.exit(1)
    except BaseException as error:
        link.send({"failed": {"message": summary(error), "detail": formatted(error)}})
        os._exit(1)
    version = ".".join(str(part) for part in sys.version_info[:3])
    accepts = [] if isinstance(asker, Functions) else asker.accepts
    link.send({"ready": {"python": version, "rss_bytes": _own_rss_bytes(), "accepts": accepts}})
    session.serve(asker, Fields(**hello["fields"]))
    sys.exit(0)
