"""Converts what a system returned to a Response, by the same rules for every kind of
entrypoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from ragstone.golden.document_names import are_document_names
from ragstone.system.response import (
    Context,
    Contexts,
    ModelCall,
    Response,
    Retrieval,
    Step,
    SystemFailure,
    SystemFailureKind,
    TokenUsage,
    tool_results,
)
from ragstone.system.worker.fields import NO_PATHS, BadReturn, Fields
from ragstone.system.worker.returns import TRACE_NAMES, normalise
from ragstone.system.worker.wording import shortened

MAX_MESSAGE_CHARACTERS = 1_000
MAX_DETAIL_CHARACTERS = 20_000


class _Message(BaseModel):
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="ignore", allow_inf_nan=False
    )


class Payload(_Message):
    """An answer as returned by `normalise`."""

    answer: str
    contexts: Contexts | None = None
    usage: TokenUsage | None = None
    steps: tuple[Step, ...] = ()
    """Pydantic tells the kinds of steps apart by the fields that they require."""
    trace_id: str | None = None
    index_digest: str | None = None


class Greeting(_Message):
    """A worker's first message."""

    ready: list[str] = []
    """The extras that the entrypoint takes besides the question."""
    error: str | None = None
    """Why the entrypoint can't be asked."""
    detail: str | None = None
    """The traceback of the error, if any."""


def answer_response(
    sample_id: str, payload: Payload, latency_s: float | None
) -> Response:
    """Make a Response of a valid payload.

    Its contexts are those of the payload, then those of retrievals, then the results of
    tools, each text once. If the payload has no token usage, that of its model calls is
    added up.
    """
    contexts = list(_ids_for_names(payload.contexts or ()))
    steps = []
    retrieved: list[Context] = []
    usage = payload.usage
    for step in payload.steps:
        match step:
            case Retrieval():
                step = replace(step, contexts=_ids_for_names(step.contexts))
                retrieved += step.contexts
            case ModelCall(usage=TokenUsage() as step_usage) if not payload.usage:
                earlier_usage = usage or TokenUsage(0, 0)
                usage = TokenUsage(
                    earlier_usage.input_tokens + step_usage.input_tokens,
                    earlier_usage.output_tokens + step_usage.output_tokens,
                )
        steps.append(step)
    keys = {_key(context) for context in contexts}
    for context in (*retrieved, *tool_results(steps)):
        if _key(context) not in keys:
            contexts.append(context)
            keys.add(_key(context))
    return Response(
        sample_id=sample_id,
        answer=payload.answer,
        contexts=tuple(contexts),
        contexts_returned=payload.contexts is not None,
        latency_s=latency_s,
        extra=payload.model_dump(include=set(TRACE_NAMES), exclude_none=True),
        usage=usage,
        steps=tuple(steps),
    )


def _key(context: Context) -> str | None:
    """What contexts are compared by: the text, or the id of one without a text."""
    return context.text or context.id


def _ids_for_names(contexts: Sequence[Context]) -> Contexts:
    """Make the texts of `contexts` their ids if they are names of documents, such as
    "manual.pdf", rather than passages."""
    has_other_ids = any(context.id not in (None, context.text) for context in contexts)
    if has_other_ids or not are_document_names(context.text for context in contexts):
        return tuple(contexts)
    # Positional: text, id and score.
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
    """Make a Response of a failure.

    `message` is joined to one line of at most MAX_MESSAGE_CHARACTERS; of `detail`, only
    the last MAX_DETAIL_CHARACTERS are kept. Lone surrogates are replaced.
    """
    line = shortened(_encodable(" ".join(message.split())), MAX_MESSAGE_CHARACTERS)
    if detail is not None:
        detail = _encodable(detail[-MAX_DETAIL_CHARACTERS:])
    failure = SystemFailure(kind, line, detail)
    return Response(sample_id=sample_id, latency_s=latency_s, failure=failure)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def read(
    sample_id: str,
    value: object,
    latency_s: float | None,
    fields: Fields = NO_PATHS,
) -> Response:
    """Read any returned value. A value that can't be read as an answer gives a Response
    with a failure, not an exception."""
    try:
        payload = Payload.model_validate(normalise(value, fields))
    except BadReturn as error:
        return failed(
            sample_id, SystemFailureKind.BAD_RETURN, str(error), error.detail, latency_s
        )
    return answer_response(sample_id, payload, latency_s)
