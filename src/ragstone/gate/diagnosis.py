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
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.resources import files

from ragstone.evaluation.record import SampleRecord
from ragstone.gate.sample_change import JudgedAnswer, SampleChange
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
    if not change.answerable:
        return _of_unanswerable(change)
    contexts: list[Cause] = []
    if change.evidence_lost:
        contexts = [Cause.NOT_RETRIEVED]
    elif change.without_contexts and not change.compared:
        contexts = [Cause.NO_CONTEXTS]
    rank: list[Cause] = []
    if change.evidence_ranks_lower and not change.evidence_lost:
        rank = [Cause.RANKED_LOW]
    answer: list[Cause] = []
    if change.evidence_lost or not change.answer_unchanged:
        answer = _of_answer(change)
    if change.low_evidence_unused:
        return (*contexts, *rank, *answer)
    return (*contexts, *answer, *rank)


def _of_unanswerable(change: SampleChange) -> tuple[Cause, ...]:
    """An answer to a question that has none is invented."""
    answer = change.answer
    baseline = change.baseline_answer
    is_new = (
        not change.compared
        or baseline.silent
        or answer.unsupported > baseline.unsupported
    )
    if is_new and not answer.silent:
        return (Cause.INVENTED,)
    return ()


def _of_answer(change: SampleChange) -> list[Cause]:
    answer = change.answer
    baseline = change.baseline_answer
    if answer.silent:
        if change.compared and baseline.silent:
            return []
        return [Cause.EMPTY if answer.empty else Cause.EVASIVE]
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
    return causes + _of_reference(answer, baseline)


def _of_reference(answer: JudgedAnswer, baseline: JudgedAnswer) -> list[Cause]:
    """What the comparison with the reference shows."""
    passes_over_evidence = answer.ignores_useful_contexts and answer.ignored > 0
    if answer.unlike_reference and (answer.on_another_question or passes_over_evidence):
        if baseline.unlike_reference:
            return []
        return [Cause.WRONG_QUESTION if answer.on_another_question else Cause.IGNORED]
    if answer.stated < answer.reference_statements and _states_less(answer, baseline):
        return [Cause.INCOMPLETE]
    return []


def _states_less(answer: JudgedAnswer, baseline: JudgedAnswer) -> bool:
    """Whether it states a smaller share of the reference than the baseline's answer, if
    that was judged."""
    if baseline.reference_statements == 0:
        return True
    share = answer.stated / max(1, answer.reference_statements)
    return share < baseline.stated / baseline.reference_statements


def diagnosis_of(
    causes: Mapping[str, Sequence[Cause]], *, enough: int = MIN_SAMPLES
) -> Diagnosis | None:
    """The causes of samples, counted, the most frequent first; None without samples.

    Each is a sample's cause, then what else shows. `enough` of them are an argument.
    """
    if not causes:
        return None
    samples: dict[Cause, list[str]] = {}
    times_shown: Counter[Cause] = Counter()
    for sample_id, causes_shown in causes.items():
        times_shown.update(set(causes_shown))
        if causes_shown:
            samples.setdefault(causes_shown[0], []).append(sample_id)
    counts = [
        _count(cause, samples[cause], times_shown[cause])
        for cause in Cause
        if cause in samples
    ]
    counts.sort(key=lambda cause: -cause.count)
    return Diagnosis(tuple(counts), len(causes), enough)


def _count(cause: Cause, samples: Sequence[str], times_shown: int) -> CauseCount:
    entry = catalogue()[cause]
    return CauseCount(
        cause=cause.value,
        title=entry["title"],
        side=Side(entry["side"]),
        action=entry["action"],
        source=entry["source"],
        samples=tuple(samples),
        seen=times_shown,
    )


@functools.cache
def catalogue() -> Mapping[Cause, Mapping[str, str]]:
    """The content of causes.toml."""
    text = files("ragstone.gate").joinpath("causes.toml").read_text("utf-8")
    document: Mapping[str, Mapping[str, str]] = tomllib.loads(text)
    return {Cause(name): texts for name, texts in document.items()}
