"""Why samples got worse: the causes of each from its facts, with what to do about them, and the sum of all.

The cause of a sample is the first that shows from the question to the answer, since what was not retrieved can't be
used: the system failed; it returns no contexts; the evidence is not among them, or ranks low; the answer is empty, cut
off, or in another language; it contradicts or ignores the contexts, or adds to them; it evades, answers something else,
or leaves something out.
"""

from __future__ import annotations

import functools
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.resources import files

from ragstone.evaluation.record import SampleRecord
from ragstone.gate.facts import Facts, Said
from ragstone.gate.verdict import MIN_SAMPLES, CauseCount, Diagnosis, Interval, Side
from ragstone.stats.intervals import proportion_interval
from ragstone.system.response import SystemFailureKind


class Cause(StrEnum):
    """In the order in which they are looked for; causes.toml has their titles and actions."""

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
    """Whether the system was asked: a recorded answer that is missing says nothing of the system. Pure."""
    failures = (response.failure for response in record.responses)
    return all(failure is None or failure.kind is not SystemFailureKind.MISSING for failure in failures)


def causes_of(found: Facts) -> tuple[Cause, ...]:
    """Why an answer is bad, or worse than before: all that shows, the cause first. Empty if the facts don't say. Pure.

    What was no better in the baseline is no cause of a change.
    """
    if found.failed:
        return (Cause.CRASHED,)
    if not found.answerable:
        is_new = not found.compared or found.before.silent or found.said.unsupported > found.before.unsupported
        if is_new and not found.said.silent:
            return (Cause.INVENTED,)
        return ()
    causes = [Cause.NOT_RETRIEVED] if found.lost else [Cause.NO_CONTEXTS] if found.bare and not found.compared else []
    low = [Cause.RANKED_LOW] if found.lower and not found.lost else []
    of_answer = [] if found.same and not found.lost else list(_of_answer(found))
    return tuple(causes + low + of_answer if found.unused else causes + of_answer + low)


def _of_answer(found: Facts) -> list[Cause]:
    now = found.said
    then = found.before
    if now.silent:
        is_new = not found.compared or not then.silent
        if not is_new:
            return []
        return [Cause.EMPTY if now.empty else Cause.EVASIVE]
    shown = [
        (Cause.CUT, found.cut),
        (Cause.LANGUAGE, now.language is not None and then.language is None),
        (Cause.CONTRADICTED, now.contradicted > then.contradicted),
        (Cause.IGNORED, now.baseless and not then.baseless and now.ignored > then.ignored),
        (Cause.INVENTED, now.unsupported > then.unsupported),
        *_of_reference(now, then),
    ]
    return [cause for cause, holds in shown if holds]


def _of_reference(now: Said, then: Said) -> list[tuple[Cause, bool]]:
    """What the comparison with the reference shows."""
    if now.elsewhere and (now.beside or (now.passes_over and now.ignored)):
        return [(Cause.WRONG_QUESTION if now.beside else Cause.IGNORED, not then.elsewhere)]
    less = then.wanted == 0 or now.given / max(1, now.wanted) < then.given / then.wanted
    return [(Cause.INCOMPLETE, now.given < now.wanted and less)]


def diagnosis_of(
    causes: Mapping[str, Sequence[Cause]], *, confidence: float, enough: int = MIN_SAMPLES
) -> Diagnosis | None:
    """The causes of samples, counted, the most frequent first; None without samples.

    Each is a sample's cause, then what else shows. The interval of the share of retrieval is exact, and among the
    samples with a cause in one of the two halves. `enough` of them are an argument.
    """
    if not causes:
        return None
    samples: dict[Cause, list[str]] = {}
    for sample_id, found in causes.items():
        if found:
            samples.setdefault(found[0], []).append(sample_id)
    seen = Counter(cause for found in causes.values() for cause in set(found))
    order = sorted(Cause, key=lambda cause: -len(samples.get(cause, ())))
    counts = tuple(_count(cause, samples[cause], seen[cause]) for cause in order if cause in samples)
    retrieval, generation = (
        sum(cause.count for cause in counts if cause.side is side) for side in (Side.RETRIEVAL, Side.GENERATION)
    )
    share = None
    if retrieval or generation:
        share = Interval.of(proportion_interval(retrieval, retrieval + generation, confidence=confidence))
    return Diagnosis(counts, len(causes), retrieval, generation, share, enough)


def _count(cause: Cause, samples: Sequence[str], seen: int) -> CauseCount:
    entry = catalogue()[cause]
    side = Side(entry["side"])
    samples = tuple(samples)
    return CauseCount(cause.value, entry["title"], side, entry["action"], entry["source"], samples, seen)


@functools.cache
def catalogue() -> Mapping[Cause, Mapping[str, str]]:
    """The content of causes.toml."""
    document = tomllib.loads(files("ragstone.gate").joinpath("causes.toml").read_text("utf-8"))
    return {Cause(name): {key: str(value) for key, value in table.items()} for name, table in document.items()}
