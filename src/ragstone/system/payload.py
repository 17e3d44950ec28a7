"""Converts a payload to a Response, by the same rules for every kind of entrypoint."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from ragstone.golden.names import are_names
from ragstone.system.response import (
    Context,
    ModelCall,
    Response,
    Retrieval,
    Step,
    SystemFailure,
    SystemFailureKind,
    TokenUsage,
    ToolCall,
    usage_of_steps,
    with_step_contexts,
)
from ragstone.system.worker.fields import MAX_TOKENS, BadReturn, Fields
from ragstone.system.worker.returns import MAX_TRACE_CHARACTERS, TRACE_NAMES, normalise
from ragstone.system.worker.steps import MAX_STEPS

MAX_MESSAGE_CHARACTERS = 1_000
TraceName = Annotated[str, StringConstraints(pattern=f"^(?:{'|'.join(TRACE_NAMES)})$")]
TraceText = Annotated[str, StringConstraints(max_length=MAX_TRACE_CHARACTERS)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class _Wire(BaseModel):
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="ignore", strict=True
    )


class WireContext(_Wire):
    text: str
    id: str | None = None
    score: float | None = Field(default=None, allow_inf_nan=False)


class WireUsage(_Wire):
    input_tokens: Tokens
    output_tokens: Tokens


class WireStep(_Wire):
    """A step as returned by `read_steps`: the fields are those of its type."""

    type: Literal["retrieval", "tool", "model"]
    query: str = ""
    contexts: list[WireContext] = []
    source: str | None = None
    name: str = ""
    arguments: dict[str, JsonValue] = {}
    result: str | None = None
    error: str | None = None
    model: str = ""
    usage: WireUsage | None = None
    latency_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Payload(_Wire):
    """An answer as returned by `normalise`."""

    answer: str
    contexts: list[WireContext] = []
    contexts_returned: bool = True
    usage: WireUsage | None = None
    steps: Annotated[list[WireStep], Field(max_length=MAX_STEPS)] = []
    trace: dict[TraceName, TraceText] = {}


class WireFailure(_Wire):
    """Why there is no answer, or why the worker can't start."""

    kind: Literal["raised", "bad_return"] = "raised"
    message: str
    detail: str | None = None


class WorkerMessage(_Wire):
    """What a worker says of the question `number`: an event, or the reply, which has a
    payload or an error."""

    number: int
    event: Literal["built", "text", "returned"] | None = None
    payload: Payload | None = None
    error: WireFailure | None = None
    rss_bytes: int | None = None


class Ready(_Wire):
    rss_bytes: int | None = None
    accepts: list[str] = []


class Greeting(_Wire):
    """A worker's first message: ready, or the reason why not."""

    ready: Ready | None = None
    failed: WireFailure | None = None


def answered(
    sample_id: str,
    payload: Payload,
    latency_s: float | None,
    first_text_s: float | None = None,
) -> Response:
    """The Response for a valid payload, with the contexts and tokens of its steps."""
    steps = tuple(map(_step, payload.steps))
    return Response(
        sample_id=sample_id,
        answer=payload.answer,
        contexts=with_step_contexts(_contexts(payload.contexts), steps),
        contexts_returned=payload.contexts_returned,
        latency_s=latency_s,
        first_text_s=first_text_s,
        extra=payload.trace,
        usage=_usage(payload.usage) or usage_of_steps(steps),
        steps=steps,
    )


def _step(wire: WireStep) -> Step:
    if wire.type == "retrieval":
        return Retrieval(wire.query, _contexts(wire.contexts), wire.source)
    if wire.type == "tool":
        return ToolCall(wire.name, wire.arguments, wire.result, wire.error)
    return ModelCall(wire.model, _usage(wire.usage), wire.latency_s)


def _contexts(wire: list[WireContext]) -> tuple[Context, ...]:
    """Contexts that are plainly names of documents are their ids, without a text."""
    contexts = tuple(
        Context(context.text, context.id, context.score) for context in wire
    )
    without_other_ids = all(context.id in (None, context.text) for context in contexts)
    if without_other_ids and are_names(context.text for context in contexts):
        return tuple(
            Context("", context.text.strip(), context.score) for context in contexts
        )
    return contexts


def _usage(wire: WireUsage | None) -> TokenUsage | None:
    return None if wire is None else TokenUsage(wire.input_tokens, wire.output_tokens)


def failed(
    sample_id: str,
    kind: SystemFailureKind,
    message: str,
    detail: str | None = None,
    latency_s: float | None = None,
) -> Response:
    """The Response for a failure; `message` is cut to one line of 1,000 characters,
    with lone surrogates replaced."""
    line = _encodable(" ".join(message.split()))
    if len(line) > MAX_MESSAGE_CHARACTERS:
        line = line[: MAX_MESSAGE_CHARACTERS - 3] + "..."
    failure = SystemFailure(kind, line, None if detail is None else _encodable(detail))
    return Response(sample_id=sample_id, latency_s=latency_s, failure=failure)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def read(
    sample_id: str,
    value: object,
    latency_s: float | None,
    first_text_s: float | None = None,
    fields: Fields | None = None,
) -> Response:
    """The Response for any returned value; an invalid one becomes a failure, not an
    exception."""
    try:
        payload = Payload.model_validate(normalise(value, fields))
    except BadReturn as error:
        return failed(
            sample_id, SystemFailureKind.BAD_RETURN, str(error), error.detail, latency_s
        )
    return answered(sample_id, payload, latency_s, first_text_s)
