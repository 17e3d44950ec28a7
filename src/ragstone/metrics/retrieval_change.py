"""What became of the evidence of a sample between two runs: re-chunked, gone, or ranked lower."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import ContextUse, Judgements, Verdict, context_id
from ragstone.metrics.evidence import Found, Words, distinct, locate, runs_of, words
from ragstone.system.response import Context


class EvidenceChange(StrEnum):
    """What became of evidence that the baseline's contexts held."""

    KEPT = "kept"
    """It is where it was, or ranks higher."""
    RECHUNKED = "rechunked"
    """It is still returned, no lower than before, in a context with another text or another id."""
    LOWER = "lower"
    """It is still returned, but ranks lower."""
    GONE = "gone"
    """The contexts no longer hold it, or not all of it."""


@dataclass(frozen=True, slots=True)
class RetrievalChange:
    """What became of a sample's evidence: the worst of its texts."""

    change: EvidenceChange
    share_returned: float = 1.0
    """The share of its words that is still returned, in [0, 1]."""


_MIN_RUNS = 5
_HARDLY = 0.1
_WORST = (EvidenceChange.GONE, EvidenceChange.LOWER, EvidenceChange.RECHUNKED, EvidenceChange.KEPT)


def evidence_of(sample: Sample, contexts: Sequence[Context], judgements: Judgements | None = None) -> tuple[str, ...]:
    """The texts that the right answer rests on: the reference contexts of the sample; without them, the texts of the
    `contexts` of the baseline's answer that its relevant ids name; without those, the contexts that support the
    reference according to `judgements`. Empty if nothing is known.
    """
    if texts := distinct(sample.reference_contexts):
        return texts
    if relevant := {name for name, grade in sample.relevant_ids.items() if grade > 0}:
        return distinct(tuple(context.text for context in contexts if context.id in relevant))
    use = judgements.context_use if judgements is not None else None
    if not isinstance(use, ContextUse) or not use.against_reference:
        return ()
    named = {name for one in use.attributions if one.verdict is Verdict.SUPPORTED for name in one.supported_by}
    return distinct(tuple(context.text for rank, context in enumerate(contexts) if context_id(rank) in named))


def retrieval_change(
    evidence: tuple[str, ...], before: Sequence[Context], now: Sequence[Context]
) -> RetrievalChange | None:
    """What became of `evidence` between the contexts `before` and those `now`; None if `before` held none of it.

    It ranks lower if more comes before it (by rank, or by text), and some of that is a context that was not above it,
    nor with it in one context. A lower rank alone says little: shorter chunks have lower ranks.
    """
    old = locate(evidence, tuple(context.text for context in before))
    new = locate(evidence, tuple(context.text for context in now))
    changes = [_change(then, today, before, now) for then, today in zip(old, new, strict=True) if then.held]
    if not changes:
        return None
    left = min(today.share for then, today in zip(old, new, strict=True) if then.held)
    return RetrievalChange(min(changes, key=_WORST.index), left)


def _change(then: Found, today: Found, before: Sequence[Context], now: Sequence[Context]) -> EvidenceChange:
    if then.first is None or today.first is None:
        return EvidenceChange.GONE
    above = _runs(before[: then.first])
    ahead = now[: today.first - 1]
    more = today.first > then.first or len(_runs(ahead)) > len(above)
    if more and any(_is_new(context, above) for context in ahead):
        return EvidenceChange.LOWER
    old = before[then.first - 1]
    new = now[today.first - 1]
    same = old.id == new.id and words(old.text) == words(new.text)
    if same:
        return EvidenceChange.KEPT
    return EvidenceChange.RECHUNKED


def _is_new(context: Context, known: Set[Words]) -> bool:
    """Whether the context has hardly any run of `known`; a very short one may be a known text that was cut."""
    runs = _runs((context,))
    return len(runs) >= _MIN_RUNS and len(runs & known) <= _HARDLY * len(runs)


def _runs(contexts: Sequence[Context]) -> set[Words]:
    return {run for context in contexts for run in runs_of(words(context.text))}
