"""One sample of a run in full, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.formatting import score
from ragstone.golden.sample import Message
from ragstone.metrics.registry import metric_title
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.report.escape import clip, one_line
from ragstone.report.samples import statements_without_support
from ragstone.report.timeline import MAX_STEP_CHARACTERS, step_text
from ragstone.report.traces import last_frames
from ragstone.system.response import Response

MAX_CONTEXT = 500
"""Number of characters of a context that are shown."""


def sample_lines(
    record: SampleRecord, before: SampleRecord | None = None
) -> Iterator[str]:
    """The question, what is expected, what the system answered with which contexts, and
    the scores. Raw text.

    `before` is its record in the baseline, whose messages and answers are shown too.
    """
    sample = record.sample
    place = "" if sample.origin is None else f" ({sample.origin})"
    yield f"{sample.id}{place}"
    yield f"Question: {sample.question}"
    if sample.turn is None:
        yield from _messages(sample.history)
    for reference in sample.references:
        yield f"Reference: {reference}"
    if not sample.answerable:
        yield "The documents have no answer: abstaining is right."
    for answer in record.answers:
        yield from _answer_lines(answer, record)
    for answer in () if before is None else before.answers:
        yield ""
        yield "In the baseline:"
        yield from _exchange(answer.response)
    yield ""
    for name, value in record.scores.items():
        if isinstance(value, Failed) and value.by == "system":
            continue  # as the answer says
        yield f"{metric_title(name)}: {_shown(value)}"


def _messages(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        yield f"  before, {message.role}: {message.text}"


def _exchange(response: Response) -> Iterator[str]:
    """The messages before the question, and the answer."""
    if response.so_far is not None:
        yield from _messages(response.so_far.history)
        yield from filter(None, [response.so_far.remark])
    if response.failure is not None:
        yield f"No answer: {response.failure.kind}: {response.failure.message}"
        yield from (f"  {line}" for line in last_frames(response.failure.detail))
    else:
        yield f"Answer: {response.answer}"


def _answer_lines(answer: Answer, record: SampleRecord) -> Iterator[str]:
    response = answer.response
    yield ""
    yield from _exchange(response)
    if response.failure is not None:
        return
    for statement in statements_without_support(answer, record):
        yield f"  {statement.verdict}: {statement.text}"
    for number, step in enumerate(response.steps, start=1):
        yield f"Step {number}: {step_text(step, lambda text: clip(one_line(text), MAX_STEP_CHARACTERS))}"
    for rank, context in enumerate(response.contexts, start=1):
        named = "" if context.id is None else f" {context.id}"
        cut = "…" if len(context.text) > MAX_CONTEXT else ""
        yield f"Context {rank}{named}: {context.text[:MAX_CONTEXT]}{cut}"
    if not response.contexts:
        yield "No contexts."


def _shown(value: Score) -> str:
    if isinstance(value, Scored):
        return f"{score(value.value)}{'' if value.note is None else f' ({value.note})'}"
    if isinstance(value, NotApplicable):
        return f"does not apply: {value.reason}"
    return f"failed: {value.reason}"
