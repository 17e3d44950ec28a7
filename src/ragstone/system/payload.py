"""Converts a payload to a Response, by the same rules for every kind of entrypoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from ragstone.golden.names import are_names
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


class _Wire(BaseModel):
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="ignore", allow_inf_nan=False
    )


class Payload(_Wire):
    """An answer as returned by `normalise`. The kind of a step shows by its fields."""

    answer: str
    contexts: Contexts | None = None
    usage: TokenUsage | None = None
    steps: tuple[Step, ...] = ()
    trace_id: str | None = None
    index_digest: str | None = None


class Greeting(_Wire):
    """A worker's first message: what the entrypoint takes besides the question, or the
    reason why it can't be asked."""

    ready: list[str] = []
    error: str | None = None
    detail: str | None = None


def answered(sample_id: str, payload: Payload, latency_s: float | None) -> Response:
    """The Response for a valid payload, with the contexts and tokens of its steps.

    What retrievals found besides follows the contexts, then what tools returned; each
    text once.
    """
    contexts = list(_named(payload.contexts or ()))
    steps = []
    retrieved: list[Context] = []
    usage = payload.usage
    for step in payload.steps:
        match step:
            case Retrieval():
                step = replace(step, contexts=_named(step.contexts))
                retrieved += step.contexts
            case ModelCall(usage=TokenUsage(used_in, used_out)) if not payload.usage:
                before = usage or TokenUsage(0, 0)
                usage = TokenUsage(
                    before.input_tokens + used_in, before.output_tokens + used_out
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
    """What tells contexts apart: the text, or the id of one that is only named."""
    return context.text or context.id


def _named(contexts: Sequence[Context]) -> Contexts:
    """`contexts`; those that are plainly names of documents are their ids, without a
    text."""
    has_other_ids = any(context.id not in (None, context.text) for context in contexts)
    if has_other_ids or not are_names(context.text for context in contexts):
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
    and `detail` to its end, with lone surrogates replaced."""
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
    """The Response for any returned value; an invalid one becomes a failure, not an
    exception."""
    try:
        payload = Payload.model_validate(normalise(value, fields))
    except BadReturn as error:
        return failed(
            sample_id, SystemFailureKind.BAD_RETURN, str(error), error.detail, latency_s
        )
    return answered(sample_id, payload, latency_s)
