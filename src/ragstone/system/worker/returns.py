"""Reads what an entrypoint of any kind returned: an answer, its contexts and its steps,
in plain JSON types.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from ragstone.system.worker.contexts import (
    character_count,
    context_text,
    read_contexts,
    refuse_long,
    with_ids,
)
from ragstone.system.worker.fields import (
    ABSENT,
    EXPECTED,
    EXPECTED_CONTEXTS,
    NO_PATHS,
    BadReturn,
    Fields,
    Json,
    at_path,
    field_of_part,
    message_text,
    parsed_json,
    token_usage,
)
from ragstone.system.worker.spans import spans_in
from ragstone.system.worker.steps import message_steps, read_steps
from ragstone.system.worker.wording import clean, formatted, shown, summary

TRACE_NAMES = ("trace_id", "index_digest")
"""Parts that identify the trace of an answer, and the index that it was made from."""
# All parts that an answer can have.
_PART_NAMES = ("answer", "contexts", "context_ids", "steps", "usage", *TRACE_NAMES)

MAX_ANSWER_CHARACTERS = 1_000_000
MAX_TRACE_CHARACTERS = 256


class Parts(dict):  # type: ignore[type-arg]
    """The parts of an answer by the names in _PART_NAMES. Parts that the answer doesn't
    have are left out."""


def normalise(value: object, fields: Fields = NO_PATHS) -> Json:
    """Read a returned value, of any shape that is listed in docs/entrypoints.md.

    Returns an answer in plain JSON types, without lone surrogates: ``{"answer": str,
    "contexts": [{"text", "id", "score"}], "usage": ... | None, "steps": [...]}``, and
    TRACE_NAMES if the value has them. ``"contexts"`` is left out if the value came
    without contexts.

    Raises BadReturn with what was returned and what is expected; also if code of the
    user's in the value, such as a property, raises another error.
    """
    try:
        return _payload(value, fields)
    except BadReturn:
        raise
    except (Exception, SystemExit) as error:
        bad_return = BadReturn(f"What was returned can't be read: {summary(error)}")
        bad_return.detail = formatted(error)
        raise bad_return from None


def _payload(value: object, fields: Fields) -> Json:
    if fields.contexts_only:
        parts = _retrieved_parts(value, fields)
        answer = ""
    else:
        parts = parts_of(value, fields)
        answer = _answer_text(value, parts, fields)
    contexts = read_contexts(parts.get("contexts"), fields)
    contexts = with_ids(contexts, parts.get("context_ids"))
    steps: list[Json] = []
    if _has_steps(parts, fields):
        steps = read_steps(parts["steps"], fields)
    characters = len(answer) + sum(map(character_count, contexts))
    # Twice, because the contexts in steps become contexts of the response too.
    characters += 2 * len(json.dumps(steps, ensure_ascii=False))
    refuse_long(characters)
    usage = token_usage(parts.get("usage"))
    payload: Json = {"answer": answer, "usage": usage, "steps": steps}
    # An empty list means that nothing was retrieved. It is left out if the answer says
    # nothing about its retrieval.
    has_retrieval = any(step["type"] != "model" for step in steps)
    has_list = parts.get("contexts") is not None
    if contexts or has_list or has_retrieval or fields.contexts_only:
        payload["contexts"] = contexts
    for name in TRACE_NAMES:
        text = parts.get(name)
        if isinstance(text, str) and 0 < len(text) <= MAX_TRACE_CHARACTERS:
            payload[name] = clean(text)
    return payload


def _has_steps(parts: Parts, fields: Fields) -> bool:
    """Whether the part ``steps`` has steps. Without a path, it was found by its name,
    so it may be something else, such as a number or a list of texts."""
    steps = parts.get("steps")
    if fields.steps is not None:
        return steps is not None
    steps = parsed_json(steps)
    if isinstance(steps, (list, tuple)):
        return not all(isinstance(item, str) for item in steps)
    return hasattr(type(steps), "__next__") or spans_in(steps) is not None


def parts_of(value: object, fields: Fields) -> Parts:
    """Find the parts of an answer in `value`, by the paths in `fields` and the names in
    SYSTEM_NAMES."""
    if isinstance(value, Parts):
        return value
    if is_pair(value):
        value = {"answer": value[0], "contexts": value[1]}  # type: ignore[index]
    elif fields.answer is None and isinstance(value, Mapping):
        value = _with_last_message(value, fields)
    parts = Parts()
    for name in _PART_NAMES:
        path = getattr(fields, name, None)
        part = field_of_part(value, name, ABSENT)
        if path is not None:
            part = at_path(value, path, ABSENT)
        if part is not ABSENT:
            parts[name] = part
    if fields.steps is None and "steps" not in parts:
        spans = field_of_part(value, "spans")
        if spans_in(parsed_json(spans)) is not None:
            parts["steps"] = spans
    if "answer" not in parts and fields.answer is None:
        parts["answer"] = message_text(value)
    return parts


def _with_last_message(value: Mapping[str, Any], fields: Fields) -> Mapping[str, Any]:
    """Make the last message of a graph's state its answer, and the messages since the
    question its steps. Any other value is returned as it is."""
    messages = value.get("messages")
    has_answer = field_of_part(value, "answer") is not None
    if has_answer or not isinstance(messages, list) or not messages:
        return value
    state = {"steps": message_steps(messages), **value, "answer": messages[-1]}
    if not fields.contexts_only:
        state.setdefault("contexts", [])
    return state


def is_pair(value: object) -> bool:
    """Whether `value` is a tuple of an answer and its contexts."""
    if type(value) is not tuple or len(value) != 2:
        return False
    answer, contexts = value
    are_contexts = isinstance(contexts, (list, tuple, type(None)))
    return are_contexts and message_text(answer) is not None


def _answer_text(value: object, parts: Parts, fields: Fields) -> str:
    """The text of the answer. Raises BadReturn."""
    _refuse_absent("answer", fields.answer, value, parts)
    _refuse_absent("contexts", fields.contexts, value, parts)
    answer = parts.get("answer")
    text = message_text(answer)
    if text is not None:
        text = clean(text)
        if len(text) > MAX_ANSWER_CHARACTERS:
            raise BadReturn(
                f"The answer has {len(text):,} characters; at most {MAX_ANSWER_CHARACTERS:,} are read."
            )
        return text
    possible_stream = value if answer is None else answer
    if isinstance(possible_stream, (AsyncIterator, Iterator)):
        raise BadReturn(
            f"Returned {shown(possible_stream)}, a stream. Join its pieces, and return the text. {EXPECTED}"
        )
    if answer is not None:
        raise BadReturn(
            f"The answer in {shown(value)} is {shown(answer, 80)}, which is not text. {EXPECTED}"
        )
    message = f"Returned {shown(value)}. {EXPECTED}"
    if "contexts" in parts or isinstance(value, (list, tuple)):
        message += ' If it only retrieves, set part = "retrieval" under [system].'
    raise BadReturn(message)


def _refuse_absent(name: str, path: str | None, value: object, parts: Parts) -> None:
    """Raise BadReturn if the part `name` has a `path`, and `value` nothing at it."""
    # A value that was split into parts before has no paths anymore.
    if path is not None and name not in parts and not isinstance(value, Parts):
        raise BadReturn(f"Nothing at {name}_field '{path}' in {shown(value)}.")


def _retrieved_parts(value: object, fields: Fields) -> Parts:
    """Find the parts of a value that a system returned which only retrieves. Raises
    BadReturn if it has no contexts, ids of contexts or steps."""
    parts = parts_of(value, fields._replace(answer=None))
    if fields.contexts is not None:
        _refuse_absent("contexts", fields.contexts, value, parts)
    elif isinstance(value, (list, tuple)) and not is_pair(value):
        parts["contexts"] = value
    elif not (parts.keys() & {"contexts", "context_ids"} or _has_steps(parts, fields)):
        if isinstance(value, (str, Parts)) or context_text(value) is None:
            raise BadReturn(f"Returned {shown(value)}. {EXPECTED_CONTEXTS}")
        parts["contexts"] = value
    return parts
