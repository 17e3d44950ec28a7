"""Reads the steps of an answer (retrievals, tool calls and model calls) from the shapes
that systems and frameworks return.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ragstone.golden.aliases import SYSTEM_NAMES
from ragstone.system.worker.contexts import (
    MAX_CONTEXTS,
    read_contexts,
    refuse_long,
    with_ids,
)
from ragstone.system.worker.fields import (
    BadReturn,
    Fields,
    Json,
    field_of_part,
    field_value,
    first_field,
    is_list,
    message_text,
    parsed_json,
    seconds,
    token_usage,
)
from ragstone.system.worker.spans import spans_in, steps_of_spans
from ragstone.system.worker.wording import clean, shown, summary

Step = Json

MAX_STEPS = 1_000
MAX_NAME_CHARACTERS = 200
MAX_INPUT_CHARACTERS = 100_000
"""Of a query, or of the arguments of a tool call."""
MAX_RESULT_CHARACTERS = 1_000_000
MAX_ARGUMENT_DEPTH = 32
MAX_ERROR_CHARACTERS = 2_000

EXPECTED_STEPS = (
    'Expected a list of mappings or objects with the type "retrieval", "tool" or "model". If these are no steps, set '
    'steps_field under [system] to the path of the steps, or to "" if there are none.'
)


def read_steps(value: Any, fields: Fields) -> list[Step]:
    """Read the steps in `value` into plain JSON types, in order, each with its `type`:
    retrieval, tool or model.

    Spans of OpenTelemetry, in a list or in a document of OTLP, are sorted by their
    start times. Raises BadReturn with the number of the first step that can't be read,
    after which an iterator is not read further.
    """
    value = parsed_json(value)
    spans = spans_in(value)
    if spans is not None:
        value = steps_of_spans(spans)
    if not is_list(value):
        raise BadReturn(
            f"The steps are {shown(value)}, which is not a list. {EXPECTED_STEPS}"
        )
    steps = []
    characters = 0
    context_count = 0
    for number, item in enumerate(value, start=1):
        if number > MAX_STEPS:
            raise BadReturn(
                f"More than {MAX_STEPS:,} steps were returned for one question."
            )
        try:
            step = _step(item, fields)
        except BadReturn as error:
            raise BadReturn(f"Step {number}: {error}") from None
        steps.append(step)
        context_count += len(step.get("contexts", ()))
        if context_count > MAX_CONTEXTS:
            raise BadReturn(f"The steps have more than {MAX_CONTEXTS:,} contexts.")
        characters += len(json.dumps(step, ensure_ascii=False))
        refuse_long(characters)
    return steps


def _step(item: Any, fields: Fields) -> Step:
    """Read one step. Raises BadReturn."""
    kind = _step_type(item)
    if kind == "retrieval":
        query = _text(field_of_part(item, "step_query"), "query", MAX_INPUT_CHARACTERS)
        contexts = read_contexts(field_of_part(item, "step_contexts"), fields)
        return {
            "type": kind,
            "query": query or "",
            "contexts": with_ids(contexts, field_of_part(item, "context_ids")),
            "source": _name(field_of_part(item, "step_source")),
        }
    if kind == "tool":
        name = _name(field_of_part(item, "tool_name"))
        if not name:
            raise BadReturn(
                f"{shown(item)} is a tool call without the name of the tool."
            )
        result = field_of_part(item, "tool_result")
        return {
            "type": kind,
            "name": name,
            "arguments": _arguments(field_of_part(item, "arguments")),
            "result": _text(result, "result", MAX_RESULT_CHARACTERS),
            "error": _error(first_field(item, ("error", "is_error"))),
        }
    if kind != "model":
        raise BadReturn(
            f"{shown(item)} is no retrieval, tool call or model call. {EXPECTED_STEPS}"
        )
    return {
        "type": kind,
        "model": _name(field_of_part(item, "model_name")) or "",
        "usage": token_usage(field_of_part(item, "usage")) or token_usage(item),
        "latency_s": seconds(field_value(item, "latency_s")),
    }


def _step_type(item: object) -> str | None:
    """The type of a step: retrieval, tool or model; None if `item` is no step. A step
    that doesn't name its type is known by its contexts, or the name of its tool."""
    type_name = field_value(item, "type")
    if type_name is None:
        for kind, part in (("retrieval", "contexts"), ("tool", "tool_name")):
            if field_of_part(item, part) is not None:
                return kind
    for kind in ("retrieval", "tool", "model"):
        if type_name in SYSTEM_NAMES[f"{kind}_types"]:
            return kind
    return None


def message_steps(messages: Iterable[object]) -> list[Step]:
    """The steps in the messages of a chat since its last question, in a shape that
    `read_steps` reads."""
    steps: list[Step] = []
    # Tool calls by their id, by which the messages with their results name them.
    calls: dict[object, Step] = {}
    for message in messages:
        role = field_value(message, "type") or field_value(message, "role")
        if role in ("human", "user"):
            steps, calls = [], {}
        elif role == "tool":
            call = calls.get(field_value(message, "tool_call_id"), {})
            artifact = field_value(message, "artifact")
            if artifact and call:
                # LangChain's retriever tools return their documents as the artifact.
                query = field_of_part(_arguments(call["arguments"]), "step_query")
                call.update(type="retrieval", source=call["name"])
                call.update(query=query, contexts=artifact)
            else:
                is_error = field_value(message, "status") == "error"
                part = "error" if is_error else "result"
                call[part] = message
        else:
            usage = field_value(message, "usage_metadata")
            if usage is not None:
                model = field_of_part(
                    field_value(message, "response_metadata"), "model_name"
                )
                steps.append({"type": "model", "model": model, "usage": usage})
            for item in field_value(message, "tool_calls") or ():
                function = field_value(item, "function") or item
                arguments = field_of_part(function, "arguments")
                name = field_value(function, "name")
                call = {"type": "tool", "name": name, "arguments": arguments}
                calls[field_value(item, "id")] = call
                steps.append(call)
    return steps


# --- values of any shape
# -----------------------------------------------------------------------------------------


def _name(value: object) -> str | None:
    """`value` as the text of a name, cut to MAX_NAME_CHARACTERS; None if it is
    None."""
    text = _text(value, "name", MAX_INPUT_CHARACTERS)
    return None if text is None else text[:MAX_NAME_CHARACTERS]


def _text(value: object, name: str, max_characters: int) -> str | None:
    """`value` as text: a string, the text of a message, or else its JSON; None if it is
    None. Raises BadReturn if the text has more than `max_characters`; `name` says in
    the message what it is."""
    if value is None:
        return None
    text = message_text(value)
    if text is None:
        plain = _plain(value, name, max_characters)
        text = json.dumps(plain, ensure_ascii=False)
    text = clean(text)
    if len(text) > max_characters:
        raise _too_long(name, max_characters)
    return text


def _error(value: object) -> str | None:
    """The text of a tool's error, "failed" if it has none; None if there was no
    error."""
    if not value:
        return None
    if isinstance(value, BaseException):
        value = str(value)
    text = None
    if value is not True:  # of a field `is_error`
        text = _text(value, "error", MAX_RESULT_CHARACTERS)
    text = text or "failed"
    return text[:MAX_ERROR_CHARACTERS]


def _arguments(value: object) -> Json:
    """The arguments of a tool call as an object of JSON. A value that is no object
    becomes the argument ``input``."""
    value = parsed_json(value)
    if value is None or value == "":
        return {}
    plain = _plain(value, "arguments", MAX_INPUT_CHARACTERS)
    return plain if isinstance(plain, dict) else {"input": plain}


def _plain(value: object, name: str, max_characters: int) -> Any:
    """`value` in plain JSON types. Raises BadReturn if its JSON has more than
    `max_characters`, or is nested too deeply."""
    encoder = json.JSONEncoder(ensure_ascii=False, default=_plain_object)
    text = ""
    try:
        # Piece by piece, because the JSON of objects that share others may be of any
        # length.
        for piece in encoder.iterencode(value):
            text += piece
            if len(text) > max_characters:
                raise _too_long(name, max_characters)
        plain = json.loads(clean(text), parse_constant=str)
        is_deep = _is_deep(plain, MAX_ARGUMENT_DEPTH)
    except RecursionError:
        is_deep = True
    except (TypeError, ValueError) as error:
        raise BadReturn(
            f"its {name} can't be written as JSON ({summary(error)})."
        ) from None
    if is_deep:
        raise BadReturn(
            f"more than {MAX_ARGUMENT_DEPTH} levels of nesting in its {name}."
        )
    return plain


def _plain_object(value: object) -> object:
    """A mapping or the text for an object that JSON doesn't know."""
    if isinstance(value, Mapping):
        return dict(value)
    for name in ("__dataclass_fields__", "model_fields"):
        if hasattr(type(value), name):
            return vars(value)
    return str(value)


def _is_deep(value: object, max_depth: int) -> bool:
    """Whether lists and objects are nested more than `max_depth` levels."""
    items: Iterable[object] = ()
    if isinstance(value, dict):
        items = value.values()
    elif isinstance(value, list):
        items = value
    return max_depth < 0 or any(_is_deep(item, max_depth - 1) for item in items)


def _too_long(name: str, max_characters: int) -> BadReturn:
    return BadReturn(f"more than {max_characters:,} characters in its {name}.")
