"""Why samples got worse: the causes of each from what became of it, with what to do
about them, and the sum of all.

The cause of a sample is the first that shows from the question to the answer, since
what was not retrieved can't be used: the system failed; it returns no contexts; the
evidence is not among them, or ranks low; the answer is empty, cut off, or in another
language; it contradicts or ignores the contexts, or adds to them; it evades, answers
something else, or leaves something out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from ragstone.evaluation.record import SampleRecord
from ragstone.files import read_table
from ragstone.gate.sample_change import SampleChange
from ragstone.gate.verdict import MIN_SAMPLES, CauseCount, Diagnosis, Side
from ragstone.system.response import SystemFailureKind


class Cause(StrEnum):
    """In the order in which they are looked for; causes.toml has their titles and
    actions."""

    CRASHED = "crashed"
    NO_CONTEXTS = "no_contexts"
    NOT_RETRIEVED = "not_retrieved"
    RANKED_LOW = "ranked_low"
    EMPTY = "empty"
    EVASIVE = "evasive"
    CUT = "cut"
    LANGUAGE = "language"
    CONTRADICTED = "contradicted"
    IGNORED = "ignored"
    INVENTED = "invented"
    WRONG_QUESTION = "wrong_question"
    INCOMPLETE = "incomplete"


def was_asked(record: SampleRecord) -> bool:
    """Whether the system was asked: a recorded answer that is missing says nothing of
    the system. Pure."""
    failures = (response.failure for response in record.responses)
    return all(
        failure is None or failure.kind is not SystemFailureKind.MISSING
        for failure in failures
    )


def causes_of(change: SampleChange) -> tuple[Cause, ...]:
    """Why an answer is bad, or worse than before: all that shows, the cause first.
    Empty if nothing does. Pure.

    What was no better in the baseline is no cause of a change.
    """
    if change.failed:
        return (Cause.CRASHED,)
    if change.answerable:
        return tuple(_causes(change))
    # An answer to a question that has none is invented.
    answer = change.answer
    baseline = change.baseline_answer
    is_new = baseline.silent or answer.unsupported > baseline.unsupported
    is_worse = is_new or not change.compared
    return (Cause.INVENTED,) if is_worse and not answer.silent else ()


def _causes(change: SampleChange) -> Iterator[Cause]:
    """What shows from the question to the answer."""
    answer = change.answer
    ranks_low = change.evidence_ranks_lower and not change.evidence_lost
    if change.evidence_lost:
        yield Cause.NOT_RETRIEVED
    elif change.without_contexts:
        yield Cause.NO_CONTEXTS
    if ranks_low and change.low_evidence_unused:
        yield Cause.RANKED_LOW
    if change.evidence_lost or not change.answer_unchanged:
        if not answer.silent:
            yield from _of_answer(change)
        elif not change.baseline_answer.silent:
            yield Cause.EMPTY if answer.empty else Cause.EVASIVE
    if ranks_low and not change.low_evidence_unused:
        yield Cause.RANKED_LOW


def _of_answer(change: SampleChange) -> Iterator[Cause]:
    """What shows in an answer that says something."""
    answer = change.answer
    baseline = change.baseline_answer
    if change.answer_truncated:
        yield Cause.CUT
    if answer.in_foreign_language and not baseline.in_foreign_language:
        yield Cause.LANGUAGE
    if answer.contradicted > baseline.contradicted:
        yield Cause.CONTRADICTED
    ignores_more = answer.ignored > baseline.ignored
    if answer.baseless and not baseline.baseless and ignores_more:
        yield Cause.IGNORED
    if answer.unsupported > baseline.unsupported:
        yield Cause.INVENTED
    is_unlike = answer.unlike_reference and not baseline.unlike_reference
    if is_unlike and answer.on_another_question:
        yield Cause.WRONG_QUESTION
    elif is_unlike and answer.ignores_useful_contexts and answer.ignored > 0:
        yield Cause.IGNORED
    elif answer.stated_share < baseline.stated_share:
        yield Cause.INCOMPLETE


def diagnosis_of(
    causes: Mapping[str, Sequence[Cause]], *, enough: int = MIN_SAMPLES
) -> Diagnosis:
    """The causes of samples, counted, the most frequent first.

    Each is a sample's cause, then what else shows. `enough` of them are an argument.
    """
    counts = []
    for cause in Cause:
        samples = [name for name, shown in causes.items() if cause in shown[:1]]
        if samples:
            entry = catalogue()[cause]
            side = Side(entry["side"])
            count = CauseCount(
                cause=cause.value,
                title=entry["title"],
                side=side,
                action=entry["action"],
                source=entry["source"],
                samples=tuple(samples),
                seen=sum(cause in shown for shown in causes.values()),
            )
            counts.append(count)
    counts.sort(key=lambda cause: -cause.count)
    return Diagnosis(tuple(counts), len(causes), enough)


@functools.cache
def catalogue() -> Mapping[Cause, Mapping[str, str]]:
    """The content of causes.toml."""
    document: Mapping[str, Mapping[str, str]] = read_table("causes.toml", __package__)
    return {Cause(name): texts for name, texts in document.items()}
