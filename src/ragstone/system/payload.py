"""Converts a payload to a Response, by the same rules for every kind of entrypoint."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ragstone.golden.names import are_names
from ragstone.system import worker
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind, TokenUsage

TraceName = Annotated[str, StringConstraints(pattern=f"^(?:{'|'.join(worker.TRACE_NAMES)})$")]
TraceText = Annotated[str, StringConstraints(max_length=worker.MAX_TRACE_CHARACTERS)]


class _Wire(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore", strict=True)


class WireContext(_Wire):
    text: str
    id: str | None = None
    score: float | None = Field(default=None, allow_inf_nan=False)


class WireUsage(_Wire):
    input_tokens: int = Field(ge=0, le=worker.MAX_TOKENS)
    output_tokens: int = Field(ge=0, le=worker.MAX_TOKENS)


class Payload(_Wire):
    """An answer as returned by `worker.normalise`."""

    answer: str
    contexts: list[WireContext] = []
    contexts_returned: bool = True
    usage: WireUsage | None = None
    trace: dict[TraceName, TraceText] = {}


class WireError(_Wire):
    kind: Literal["raised", "bad_return"]
    message: str
    detail: str | None = None


class WorkerReply(_Wire):
    number: int
    payload: Payload | None = None
    error: WireError | None = None
    rss_bytes: int | None = None


class FailedReply(_Wire):
    message: str
    detail: str | None = None


class Ready(_Wire):
    python: str
    rss_bytes: int | None = None
    accepts: list[str] = []


class Greeting(_Wire):
    """A worker's first message: ready, or the reason why not."""

    ready: Ready | None = None
    failed: FailedReply | None = None


def answered(sample_id: str, payload: Payload, latency_s: float | None, first_text_s: float | None = None) -> Response:
    """The Response for a valid payload. Contexts that are plainly names of documents are their ids, without a text."""
    contexts = tuple(Context(text=c.text, id=c.id, score=c.score) for c in payload.contexts)
    if are_names(one.text for one in contexts) and all(one.id in (None, one.text) for one in contexts):
        contexts = tuple(Context("", one.text.strip(), one.score) for one in contexts)
    return Response(
        sample_id=sample_id,
        answer=payload.answer,
        contexts=contexts,
        contexts_returned=payload.contexts_returned,
        latency_s=latency_s,
        first_text_s=first_text_s,
        extra=payload.trace,
        usage=None if payload.usage is None else TokenUsage(**payload.usage.model_dump()),
    )


def failed(
    sample_id: str,
    kind: SystemFailureKind,
    message: str,
    detail: str | None = None,
    latency_s: float | None = None,
) -> Response:
    """The Response for a failure; `message` is cut to one line of 1,000 characters, with lone surrogates replaced."""
    line = _encodable(" ".join(message.split()))
    return Response(
        sample_id=sample_id,
        latency_s=latency_s,
        failure=SystemFailure(
            kind, line if len(line) <= 1_000 else line[:997] + "...", None if detail is None else _encodable(detail)
        ),
    )


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def read(
    sample_id: str,
    value: object,
    latency_s: float | None,
    first_text_s: float | None = None,
    fields: worker.Fields | None = None,
) -> Response:
    """The Response for any returned value; an invalid one becomes a failure, not an exception."""
    try:
        payload = Payload.model_validate(worker.normalise(value, fields))
    except worker.BadReturn as error:
        return failed(sample_id, SystemFailureKind.BAD_RETURN, str(error), error.detail, latency_s)
    return answered(sample_id, payload, latency_s, first_text_s)
