"""Converts a payload to a Response, by the same rules for every kind of entrypoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ragstone.golden.names import are_names
from ragstone.system.response import (
    Context,
    Response,
    Retrieval,
    Step,
    SystemFailure,
    SystemFailureKind,
    TokenUsage,
    usage_of_steps,
    with_step_contexts,
)
from ragstone.system.worker.fields import BadReturn, Fields
from ragstone.system.worker.returns import MAX_TRACE_CHARACTERS, TRACE_NAMES, normalise
from ragstone.system.worker.steps import MAX_STEPS

MAX_MESSAGE_CHARACTERS = 1_000
TraceName = Annotated[str, StringConstraints(pattern=f"^(?:{'|'.join(TRACE_NAMES)})$")]
TraceText = Annotated[str, StringConstraints(max_length=MAX_TRACE_CHARACTERS)]


class _Wire(BaseModel):
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="ignore", allow_inf_nan=False
    )


class Payload(_Wire):
    """An answer as returned by `normalise`. The kind of a step shows by its fields."""

    answer: str
    contexts: tuple[Context, ...] = ()
    contexts_returned: bool = True
    usage: TokenUsage | None = None
    steps: Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS)] = ()
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


class Ready(_Wire):
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
    steps = tuple(map(_with_names, payload.steps))
    return Response(
        sample_id=sample_id,
        answer=payload.answer,
        contexts=with_step_contexts(_named(payload.contexts), steps),
        contexts_returned=payload.contexts_returned,
        latency_s=latency_s,
        first_text_s=first_text_s,
        extra=payload.trace,
        usage=payload.usage or usage_of_steps(steps),
        steps=steps,
    )


def _with_names(step: Step) -> Step:
    if isinstance(step, Retrieval):
        return replace(step, contexts=_named(step.contexts))
    return step


def _named(contexts: Sequence[Context]) -> tuple[Context, ...]:
    """`contexts`; those that are plainly names of documents are their ids, without a
    text."""
    without_other_ids = all(context.id in (None, context.text) for context in contexts)
    if not without_other_ids or not are_names(context.text for context in contexts):
        return tuple(contexts)
    return tuple(
        Context("", context.text.strip(), context.score) for context in contexts
    )


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
