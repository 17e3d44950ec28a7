"""What an entrypoint may return, whatever its kind: an answer and contexts in plain
JSON types, or a refusal in words.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.worker.contexts import (
    characters_in,
    context_text,
    read_contexts,
    refuse_long,
    with_ids,
)
from ragstone.system.worker.fields import (
    ABSENT,
    EXPECTED,
    EXPECTED_CONTEXTS,
    BadReturn,
    Fields,
    at_path,
    first,
    message_text,
    named_texts,
    parsed_json,
    token_usage,
)
from ragstone.system.worker.spans import spans_in
from ragstone.system.worker.steps import message_steps, read_steps
from ragstone.system.worker.wording import clean, formatted, shown, summary

TRACE_NAMES = ("trace_id", "index_digest")
_PARTS = ("answer", "contexts", "context_ids", "steps", "usage", *TRACE_NAMES)
"""What an answer may have."""

MAX_ANSWER_CHARACTERS = 1_000_000
MAX_TRACE_CHARACTERS = 256


class Parts(dict):  # type: ignore[type-arg]
    """The parts of an answer by the names in _PARTS; those that it hasn't are left
    out."""


def normalise(value: object, fields: Fields | None = None) -> dict[str, Any]:
    """An answer in plain JSON types: ``{"answer": str, "contexts": [{"text", "id",
    "score"}], "usage": ... | None}``.

    ``"steps"`` are what the system did, if the answer says so. If it names its trace or
    its index, ``"trace"`` has what it says; ``"contexts_returned"`` is False if it came
    without contexts. Accepts every shape listed in docs/entrypoints.md. Lone surrogates
    become U+FFFD. Raises BadReturn with what was returned and what is expected, and
    nothing else, whatever the code in a returned object raises.
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
        parts = Parts(parts_of(value, Fields(steps=fields.steps)))
        has_steps = _has_steps(parts, fields)
        parts["contexts"] = _retrieved(value, fields, has_steps=has_steps)
        payload["answer"] = ""
    else:
        parts = parts_of(value, fields)
        _refuse_empty_paths(value, parts, fields)
        payload["answer"] = _answer_text(value, parts)
    contexts = read_contexts(parts.get("contexts"), fields)
    payload["contexts"] = with_ids(contexts, parts.get("context_ids"))
    steps = read_steps(parts["steps"], fields) if _has_steps(parts, fields) else []
    if steps:
        payload["steps"] = steps
    step_characters = len(json.dumps(steps, ensure_ascii=False))
    # What was retrieved in steps is among the contexts of the response too.
    refuse_long(
        len(payload["answer"])
        + sum(map(characters_in, payload["contexts"]))
        + 2 * step_characters
    )
    payload["usage"] = token_usage(parts.get("usage"))
    trace = _trace(parts)
    if trace:
        payload["trace"] = trace
    found_in_steps = any(step["type"] != "model" for step in steps)
    if (
        parts.get("contexts") is None
        and not fields.contexts_only
        and not found_in_steps
    ):
        payload["contexts_returned"] = False
    return payload


def _has_steps(parts: Parts, fields: Fields) -> bool:
    """Whether there is more than a number or texts under a name of steps; at a path,
    anything is meant as these."""
    steps = parts.get("steps")
    if fields.steps is not None:
        return steps is not None
    steps = parsed_json(steps)
    if isinstance(steps, (list, tuple)):
        return not all(isinstance(item, str) for item in steps)
    return hasattr(type(steps), "__next__") or spans_in(steps) is not None


def parts_of(value: object, fields: Fields) -> Parts:
    """The parts of an answer in `value`, by the paths of `fields` and the names of
    SYSTEM_NAMES."""
    if isinstance(value, Parts):
        return value
    if is_pair(value):
        value = {"answer": value[0], "contexts": value[1]}  # type: ignore[index]
    elif (
        fields.answer is None
        and isinstance(value, Mapping)
        and first(value, SYSTEM_NAMES["answer"]) is None
    ):
        value = _graph_state(value) or value
    paths = {
        "answer": fields.answer,
        "contexts": fields.contexts,
        "steps": fields.steps,
    }
    parts = Parts()
    for name in _PARTS:
        path = paths.get(name)
        part = ABSENT
        if path is not None:
            part = at_path(value, path, ABSENT)
        elif first(value, SYSTEM_NAMES[name]) is not None:
            part = first(value, SYSTEM_NAMES[name])
        if part is not ABSENT:
            parts[name] = part
    if "steps" not in parts and fields.steps is None:
        spans = first(value, SYSTEM_NAMES["spans"])
        if spans_in(parsed_json(spans)) is not None:
            parts["steps"] = spans
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
    """The answer in the state of a graph with `messages`: the last, and what was done
    since the question."""
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages:
        return None
    return {
        "contexts": [],
        "steps": message_steps(messages),
        **value,
        "answer": messages[-1],
    }


def _refuse_empty_paths(value: object, parts: Parts, fields: Fields) -> None:
    """Raise BadReturn if there is nothing at a path of `fields`."""
    if isinstance(value, Parts):
        return
    for name, path in (("answer", fields.answer), ("contexts", fields.contexts)):
        if path is not None and name not in parts:
            hint = named_texts(value) if name == "answer" else ""
            raise BadReturn(
                f"Nothing at {name}_field '{path}' in {shown(value)}. {hint}".strip()
            )


def _answer_text(value: object, parts: Parts) -> str:
    text = message_text(parts.get("answer"))
    if text is None:
        raise BadReturn(_bad_answer(value, parts))
    text = clean(text)
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise BadReturn(
            f"The answer has {len(text):,} characters; at most {MAX_ANSWER_CHARACTERS:,} are read."
        )
    return text


def _bad_answer(value: object, parts: Parts) -> str:
    answer = parts.get("answer")
    if answer is not None:
        return f"The answer in {shown(value)} is {shown(answer, 80)}, which is not text. {named_texts(value)}{EXPECTED}"
    message = f"Returned {shown(value)}. {named_texts(value)}{EXPECTED}"
    if "contexts" in parts or (isinstance(value, (list, tuple)) and value):
        message += ' If it only retrieves, set part = "retrieval" under [system].'
    return message


def is_stream(value: object) -> bool:
    """Whether `value` is an iterator of pieces, sync or async; an open file is none."""
    if hasattr(type(value), "__anext__"):
        return True
    return hasattr(type(value), "__next__") and not hasattr(value, "fileno")


def _trace(parts: Parts) -> dict[str, str]:
    """What an answer says of its trace and its index, by the names in TRACE_NAMES."""
    trace = {}
    for name in TRACE_NAMES:
        text = parts.get(name)
        if isinstance(text, str) and 0 < len(text) <= MAX_TRACE_CHARACTERS:
            trace[name] = clean(text)
    return trace


def _retrieved(value: object, fields: Fields, *, has_steps: bool) -> object:
    """The contexts in what a system returned that only retrieves; None for ids or steps
    alone. Raises BadReturn."""
    if isinstance(value, Parts):
        return value.get("contexts")
    if is_pair(value) and not isinstance(value[1], str):  # type: ignore[index]
        return value[1]  # type: ignore[index]
    if fields.contexts is not None:
        contexts = at_path(value, fields.contexts, ABSENT)
        if contexts is ABSENT:
            raise BadReturn(
                f"Nothing at contexts_field '{fields.contexts}' in {shown(value)}."
            )
        return contexts
    if isinstance(value, (list, tuple)):
        return value
    contexts = first(value, SYSTEM_NAMES["contexts"])
    ids = first(value, SYSTEM_NAMES["context_ids"])
    if contexts is not None or ids is not None or has_steps:
        return contexts
    if not isinstance(value, str) and context_text(value) is not None:
        return value
    if hasattr(type(value), "__next__"):
        return value
    raise BadReturn(f"Returned {shown(value)}. {EXPECTED_CONTEXTS}")
