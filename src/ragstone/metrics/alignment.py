"""Alignment of retriever and generator: do answers draw on the contexts that the
retriever ranks first?

Everything here is computed from the support verdicts that faithfulness needs as well. A
context is used if it supports a statement of the answer. Contexts with the same text,
apart from white space, count once, at their best rank: a judge may name any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    JudgementKind,
    Judgements,
    context_id,
    supporting_contexts,
)
from ragstone.metrics.context_precision import average_precision
from ragstone.metrics.metric import BaseMetric, MetricInfo, claims, require, supported
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

_SHOWN = 10
"""Ranks that a note names."""

_RAG_E = "Randl et al. 2026, RAG-E (arXiv:2601.21803), retriever-generator alignment"


class UsedContexts(Struct, frozen=True):
    """The contexts of one answer with different texts, and those that support the
    answer: ranks from 0, ascending."""

    ranks: tuple[int, ...]
    used: tuple[int, ...]

    @property
    def top(self) -> bool:
        """Whether the first context is used."""
        return 0 in self.used


def used_contexts(texts: Sequence[str], supporting: Iterable[str]) -> UsedContexts:
    """Which of the contexts with `texts`, in rank order, are named in `supporting`
    (``c1``…); other names are ignored.

    A context without text can't be used.
    """
    first_ranks: dict[str, int] = {}
    rank_of: dict[str, int] = {}
    for rank, text in enumerate(texts):
        flat = " ".join(text.split())
        first_rank = first_ranks.setdefault(flat, rank)
        if flat:
            rank_of[context_id(rank)] = first_rank
    used = {rank_of[name] for name in supporting if name in rank_of}
    return UsedContexts(tuple(first_ranks.values()), tuple(sorted(used)))


class _Alignment(BaseMetric):
    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})
    answerable_only = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = claims(judgements, "it draws on no context").statements
        if not response.contexts:
            return NotApplicable("no contexts were returned")
        supports = require(judgements.support, "support verdicts").supports
        supported(
            supports, statements, "the support verdicts do not match the statements"
        )
        texts = [context.text for context in response.contexts]
        used = used_contexts(texts, supporting_contexts(supports))
        return Scored(self._value(used), note=_note(used))

    def _value(self, used: UsedContexts) -> float:
        raise NotImplementedError


class TopContextUsed(_Alignment):
    """1 if the first context supports a statement of the answer, else 0 (also if no
    context does)."""

    info = MetricInfo(
        name="top_context_used",
        version="1",
        title="Top context used",
        blames="both",
        source=_RAG_E,
    )

    def _value(self, used: UsedContexts) -> float:
        return float(used.top)


class ContextUtilization(_Alignment):
    """Contexts that support a statement of the answer ÷ all contexts, those with the
    same text counted once."""

    info = MetricInfo(
        name="context_utilization",
        version="1",
        blames="both",
        source="Ragstone: share of the contexts that support a statement of the answer",
    )

    def _value(self, used: UsedContexts) -> float:
        return len(used.used) / len(used.ranks)


class ContextUtilizationRanked(_Alignment):
    """Average precision over ranks, where a context is relevant if it supports a
    statement of the answer."""

    info = MetricInfo(
        name="context_utilization_ranked",
        version="1",
        title="Context utilization (ranked)",
        blames="both",
        source="RAGAS documentation, context precision without reference (context utilization), from support verdicts",
    )

    def _value(self, used: UsedContexts) -> float:
        return average_precision([rank in used.used for rank in used.ranks])


def _note(used: UsedContexts) -> str:
    total = len(used.ranks)
    if not used.used:
        return f"none of {counted(total, 'context')} supports the answer"
    ranks = ", ".join(str(rank + 1) for rank in used.used[:_SHOWN])
    hidden = len(used.used) - _SHOWN
    more = f" and {hidden} more" if hidden > 0 else ""
    return f"draws on rank {ranks}{more} of {total}"
