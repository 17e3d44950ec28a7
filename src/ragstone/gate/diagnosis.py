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
import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.resources import files

from ragstone.evaluation.record import SampleRecord
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
    answer = change.answer
    baseline = change.baseline_answer
    if change.failed:
        return (Cause.CRASHED,)
    if not change.answerable:
        # An answer to a question that has none is invented.
        is_new = baseline.silent or answer.unsupported > baseline.unsupported
        is_worse = is_new or not change.compared
        return (Cause.INVENTED,) if is_worse and not answer.silent else ()
    ranks_low = change.evidence_ranks_lower and not change.evidence_lost
    is_judged = change.evidence_lost or not change.answer_unchanged
    shows = {
        Cause.NOT_RETRIEVED: change.evidence_lost,
        Cause.NO_CONTEXTS: change.without_contexts
        and not change.evidence_lost
        and not change.compared,
        Cause.RANKED_LOW: ranks_low and change.low_evidence_unused,
    }
    causes = [cause for cause, is_shown in shows.items() if is_shown]
    if is_judged and answer.silent:
        if not change.compared or not baseline.silent:
            causes.append(Cause.EMPTY if answer.empty else Cause.EVASIVE)
    elif is_judged:
        causes += _of_answer(change)
    if ranks_low and not change.low_evidence_unused:
        causes.append(Cause.RANKED_LOW)
    return tuple(causes)


def _of_answer(change: SampleChange) -> list[Cause]:
    """What shows in an answer that says something."""
    answer = change.answer
    baseline = change.baseline_answer
    is_other = answer.unlike_reference and answer.on_another_question
    passes_over_evidence = (
        answer.unlike_reference
        and answer.ignores_useful_contexts
        and answer.ignored > 0
    )
    share = answer.stated / max(1, answer.reference_statements)
    baseline_share = 1.0
    if baseline.reference_statements:
        baseline_share = baseline.stated / baseline.reference_statements
    shows = {
        Cause.CUT: change.answer_truncated,
        Cause.LANGUAGE: answer.in_foreign_language and not baseline.in_foreign_language,
        Cause.CONTRADICTED: answer.contradicted > baseline.contradicted,
        Cause.IGNORED: answer.baseless
        and not baseline.baseless
        and answer.ignored > baseline.ignored,
        Cause.INVENTED: answer.unsupported > baseline.unsupported,
    }
    causes = [cause for cause, is_shown in shows.items() if is_shown]
    if is_other or passes_over_evidence:
        if not baseline.unlike_reference:
            causes.append(Cause.WRONG_QUESTION if is_other else Cause.IGNORED)
    elif answer.stated < answer.reference_statements and share < baseline_share:
        causes.append(Cause.INCOMPLETE)
    return causes


def diagnosis_of(
    causes: Mapping[str, Sequence[Cause]], *, enough: int = MIN_SAMPLES
) -> Diagnosis | None:
    """The causes of samples, counted, the most frequent first; None without samples.

    Each is a sample's cause, then what else shows. `enough` of them are an argument.
    """
    if not causes:
        return None
    counts = []
    for cause in Cause:
        samples = [name for name, shown in causes.items() if cause in shown[:1]]
        if samples:
            entry = catalogue()[cause]
            count = CauseCount(
                cause=cause.value,
                title=entry["title"],
                side=Side(entry["side"]),
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
    text = files("ragstone.gate").joinpath("causes.toml").read_text("utf-8")
    document: Mapping[str, Mapping[str, str]] = tomllib.loads(text)
    return {Cause(name): texts for name, texts in document.items()}
