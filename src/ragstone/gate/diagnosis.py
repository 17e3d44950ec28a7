"""Why a sample got worse: one cause for each, from its judgements, with what to do about it.

A cause is the first that applies from the question to the answer, since what was not retrieved can't be used: the
system failed; the evidence is not among the contexts, or ranks low; the answer contradicts or ignores the contexts, or
adds to them; it evades, answers something else, or leaves something out.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.resources import files

from ragstone.gate.verdict import CauseCount, Diagnosis, Interval, Side
from ragstone.judge.judgements import (
    ContextUse,
    Judgements,
    ReferenceMatch,
    ReverseQuestions,
    StatementList,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.metrics.retrieval_change import EvidenceChange, evidence_of, retrieval_change
from ragstone.run.record import SampleRecord
from ragstone.stats.proportion import proportion_interval
from ragstone.system.response import SystemFailureKind

SUPPORTED_FROM = 0.5
"""A share or probability from here on counts as supported, useful or said."""

_LOW_RANK = 2
"""Without a baseline, evidence ranks low if more contexts than this come before all of it."""


class Cause(StrEnum):
    """In the order in which they are looked for; causes.toml has their titles and actions."""

    CRASHED = "crashed"
    NOT_RETRIEVED = "not_retrieved"
    RANKED_LOW = "ranked_low"
    CONTRADICTED = "contradicted"
    IGNORED = "ignored"
    INVENTED = "invented"
    EVASIVE = "evasive"
    WRONG_QUESTION = "wrong_question"
    INCOMPLETE = "incomplete"


def was_asked(record: SampleRecord) -> bool:
    """Whether the system was asked: a shard or a recorded answer that is missing says nothing of the system. Pure."""
    failures = (response.failure for response in record.responses)
    return all(failure is None or failure.kind is not SystemFailureKind.MISSING for failure in failures)


def cause_of(now: SampleRecord, before: SampleRecord | None = None) -> Cause | None:
    """Why the first answer of `now` is bad, or worse than that of `before`; None if its judgements don't say. Pure."""
    if any(response.failure is not None for response in now.responses):
        return Cause.CRASHED
    judged = _judged(now)
    statements = judged.statements if isinstance(judged.statements, StatementList) else None
    if not now.sample.answerable:
        return None if statements is None or statements.abstains else Cause.INVENTED
    if _lost(now, before):
        return Cause.NOT_RETRIEVED
    low = _low(now, before)
    if low is not None and not _draws_on(low, judged):
        return Cause.RANKED_LOW
    return _of_generation(now, judged, statements) or (Cause.RANKED_LOW if low is not None else None)


def _judged(record: SampleRecord) -> Judgements:
    return record.judgements[0] if record.judgements else Judgements()


def _lost(now: SampleRecord, before: SampleRecord | None) -> bool:
    """Whether the contexts lack the evidence; what they lacked in the baseline too is no cause of a change."""
    holds = _holds(_judged(now))
    if before is None:
        return holds is False or not now.response.contexts
    evidence = evidence_of(before.sample, before.response.contexts, _judged(before))
    changed = retrieval_change(evidence, before.response.contexts, now.response.contexts)
    if changed is not None and changed.change is EvidenceChange.GONE:
        return holds is not True  # other contexts may say the same
    # In a corpus of similar texts, others can have all the words of the evidence: then the judge decides.
    same = {context.text for context in before.response.contexts if context.text in evidence}
    there = any(context.text in same for context in now.response.contexts)
    return holds is False and _holds(_judged(before)) is not False and not there


def _low(now: SampleRecord, before: SampleRecord | None) -> int | None:
    """The rank, from 0, of the first context with the evidence, if it is lower than in the baseline, or low at all."""
    if before is None:
        first = _first_useful(_judged(now))
        return first if first is not None and first >= _LOW_RANK else None
    evidence = evidence_of(before.sample, before.response.contexts, _judged(before))
    changed = retrieval_change(evidence, before.response.contexts, now.response.contexts)
    then = [rank for rank, context in enumerate(before.response.contexts) if context.text in evidence]
    texts = {before.response.contexts[rank].text for rank in then}
    today = [rank for rank, context in enumerate(now.response.contexts) if context.text in texts]
    if then and today:  # the same passage: the judge of texts may take others like it for it
        return today[0] if today[0] > then[0] else None
    return _first_useful(_judged(now)) if changed is not None and changed.change is EvidenceChange.LOWER else None


def _draws_on(rank: int, judged: Judgements) -> bool:
    """Whether a statement of the answer is supported by the context at `rank`."""
    if not isinstance(judged.support, SupportTable):
        return False
    return any(context_id(rank) in one.supported_by for one in judged.support.supports)


def _of_generation(now: SampleRecord, judged: Judgements, statements: StatementList | None) -> Cause | None:
    if statements is not None and statements.abstains:
        return Cause.EVASIVE
    if isinstance(judged.support, SupportTable) and judged.support.supports:
        supports = judged.support.supports
        if any(one.verdict is Verdict.CONTRADICTED for one in supports):
            return Cause.CONTRADICTED
        if all(one.verdict is not Verdict.SUPPORTED for one in supports):
            return Cause.IGNORED
        if any(one.verdict is not Verdict.SUPPORTED for one in supports):
            return Cause.INVENTED
    elif statements is not None and statements.statements and not now.response.contexts:
        return Cause.INVENTED
    match = judged.reference_match
    if isinstance(match, ReferenceMatch) and match.reference_supports:
        said = [one.verdict is Verdict.SUPPORTED for one in match.reference_supports]
        backed = [one.verdict is Verdict.SUPPORTED for one in match.answer_supports]
        if not any(said) and not any(backed):
            return Cause.IGNORED if _relevant(judged) and _passes_over(judged) else Cause.WRONG_QUESTION
        if not all(said):
            return Cause.INCOMPLETE
    return None


def _relevant(judged: Judgements) -> bool:
    """Whether the answer is about the question, as far as that was judged."""
    found = judged.reverse_questions
    if not isinstance(found, ReverseQuestions) or not found.similarities:
        return True
    return sum(found.similarities) >= SUPPORTED_FROM * len(found.similarities)


def _passes_over(judged: Judgements) -> bool:
    """Whether no statement of the answer draws on a useful context, although there is one."""
    use, support = judged.context_use, judged.support
    if not isinstance(use, ContextUse) or not isinstance(support, SupportTable):
        return False
    useful = {one.context_id for one in use.contexts if one.useful}
    return bool(useful) and not any(useful & set(one.supported_by) for one in support.supports)


def _holds(judged: Judgements) -> bool | None:
    """Whether the contexts hold the reference, by the judge; None if that was not judged."""
    use = judged.context_use
    if not isinstance(use, ContextUse) or not use.against_reference or not use.attributions:
        return None
    held = sum(one.verdict is Verdict.SUPPORTED for one in use.attributions)
    return held >= SUPPORTED_FROM * len(use.attributions)


def _first_useful(judged: Judgements) -> int | None:
    """The rank, from 0, of the first useful context."""
    use = judged.context_use
    if not isinstance(use, ContextUse):
        return None
    return next((rank for rank, one in enumerate(use.contexts) if one.useful), None)


def diagnosis_of(causes: Mapping[str, Cause | None], *, confidence: float) -> Diagnosis | None:
    """The causes of samples, counted, the most frequent first; None without samples.

    The interval of the share of retrieval is exact, and among the samples with a cause in one of the two halves.
    """
    if not causes:
        return None
    by_cause: dict[Cause, list[str]] = {}
    for sample_id, cause in causes.items():
        if cause is not None:
            by_cause.setdefault(cause, []).append(sample_id)
    order = list(Cause)
    counts = tuple(
        _count(cause, by_cause[cause])
        for cause in sorted(by_cause, key=lambda one: (-len(by_cause[one]), order.index(one)))
    )
    sides = {side: sum(len(one.samples) for one in counts if one.side is side) for side in _HALVES}
    halves = sum(sides.values())
    share = None
    if halves:
        share = Interval.of(proportion_interval(sides[Side.RETRIEVAL], halves, confidence=confidence))
    return Diagnosis(counts, len(causes), sides[Side.RETRIEVAL], sides[Side.GENERATION], share)


_HALVES = (Side.RETRIEVAL, Side.GENERATION)


def _count(cause: Cause, samples: Sequence[str]) -> CauseCount:
    known = catalogue()[cause]
    return CauseCount(
        cause.value, known["title"], Side(known["side"]), known["action"], known["source"], tuple(samples)
    )


@functools.cache
def catalogue() -> Mapping[Cause, Mapping[str, str]]:
    """The content of causes.toml."""
    document = tomllib.loads(files("ragstone.gate").joinpath("causes.toml").read_text("utf-8"))
    return {Cause(name): {key: str(value) for key, value in table.items()} for name, table in document.items()}
