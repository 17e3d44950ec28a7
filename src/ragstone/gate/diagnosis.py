"""Why samples got worse: finds the causes of each sample, and counts them.

The cause of a sample is the first that shows on the way from the question to the
answer, since what was not retrieved can't be used: the system failed; it returns no
contexts; the evidence is not among them, or ranks low; the answer is empty, evasive,
cut off, or in another language; it contradicts or ignores the contexts, or adds to
them; it answers something else, or leaves something out.
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
    """Why a sample got worse. The titles, and what to do, are in causes.toml."""

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
    """Whether the system was asked. A recorded answer that is missing says nothing of
    the system."""
    failures = (response.failure for response in record.responses)
    return all(
        failure is None or failure.kind is not SystemFailureKind.MISSING
        for failure in failures
    )


def causes_of(change: SampleChange) -> tuple[Cause, ...]:
    """All causes of a bad or worse answer that show, the first one first; empty if none
    shows. What was as bad in the baseline is no cause. Pure."""
    if change.has_failed:
        return (Cause.CRASHED,)
    if change.is_answerable:
        return tuple(_causes(change))
    # The question has no answer, so whatever says something is invented.
    answer = change.answer
    baseline = change.baseline_answer
    is_new = baseline.is_silent or answer.unsupported_count > baseline.unsupported_count
    is_worse = is_new or not change.is_compared
    return (Cause.INVENTED,) if is_worse and not answer.is_silent else ()


def _causes(change: SampleChange) -> Iterator[Cause]:
    """The causes that show for an answerable question, the first one first."""
    answer = change.answer
    ranks_low = change.evidence_ranks_lower and not change.has_lost_evidence
    if change.has_lost_evidence:
        yield Cause.NOT_RETRIEVED
    elif change.lacks_contexts:
        yield Cause.NO_CONTEXTS
    if ranks_low and change.is_low_evidence_unused:
        yield Cause.RANKED_LOW
    # The same answer is no worse, unless its evidence is gone.
    if change.has_lost_evidence or not change.is_answer_unchanged:
        if not answer.is_silent:
            yield from _causes_in_answer(change)
        elif not change.baseline_answer.is_silent:
            yield Cause.EMPTY if answer.is_empty else Cause.EVASIVE
    if ranks_low and not change.is_low_evidence_unused:
        yield Cause.RANKED_LOW


def _causes_in_answer(change: SampleChange) -> Iterator[Cause]:
    """The causes that show in an answer that says something."""
    answer = change.answer
    baseline = change.baseline_answer
    if change.is_answer_truncated:
        yield Cause.CUT
    if answer.is_in_foreign_language and not baseline.is_in_foreign_language:
        yield Cause.LANGUAGE
    if answer.contradicted_count > baseline.contradicted_count:
        yield Cause.CONTRADICTED
    ignores_more = answer.ignored_count > baseline.ignored_count
    if answer.is_baseless and not baseline.is_baseless and ignores_more:
        yield Cause.IGNORED
    if answer.unsupported_count > baseline.unsupported_count:
        yield Cause.INVENTED
    is_unlike = answer.is_unlike_reference and not baseline.is_unlike_reference
    if is_unlike and answer.is_on_another_question:
        yield Cause.WRONG_QUESTION
    elif is_unlike and answer.ignores_useful_contexts and answer.ignored_count > 0:
        yield Cause.IGNORED
    elif answer.stated_share < baseline.stated_share:
        yield Cause.INCOMPLETE


def diagnosis_of(
    causes: Mapping[str, Sequence[Cause]], *, min_samples: int = MIN_SAMPLES
) -> Diagnosis:
    """Count the `causes` of each sample, the first of which is its cause.

    At least `min_samples` samples must have a cause for it to be a reason.
    """
    counts = []
    for cause in Cause:
        samples = [
            sample_id for sample_id, shown in causes.items() if cause in shown[:1]
        ]
        if samples:
            texts = catalogue()[cause]
            count = CauseCount(
                cause=cause.value,
                title=texts["title"],
                side=Side(texts["side"]),
                action=texts["action"],
                source=texts["source"],
                samples=tuple(samples),
                seen=sum(cause in shown for shown in causes.values()),
            )
            counts.append(count)
    counts.sort(key=lambda count: -count.count)
    return Diagnosis(tuple(counts), len(causes), min_samples)


@functools.cache
def catalogue() -> Mapping[Cause, Mapping[str, str]]:
    """The texts of each cause, from causes.toml."""
    document: Mapping[str, Mapping[str, str]] = read_table("causes.toml", __package__)
    return {Cause(name): texts for name, texts in document.items()}
