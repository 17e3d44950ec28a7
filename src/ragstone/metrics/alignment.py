"""Alignment of retriever and generator: do answers draw on the contexts that the
retriever ranks first?

These metrics use the support verdicts of faithfulness. A context is used if it supports
a statement of the answer. Contexts with the same text, apart from white space, count
once, at their best rank, since a judge may name any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ragstone.formatting import counted, join_first
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    JudgementKind,
    Judgements,
    context_id,
    supporting_contexts,
)
from ragstone.metrics.context_precision import average_precision
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    require,
    require_claims,
    require_each_statement,
)
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

_MAX_SHOWN_RANKS = 10
"""A note names no more ranks than this."""

_RAG_E = "Randl et al. 2026, RAG-E (arXiv:2601.21803), retriever-generator alignment"


class UsedContexts(Struct, frozen=True):
    """The ranks, from 0 and ascending, of the contexts of an answer."""

    distinct: tuple[int, ...]
    """The ranks of contexts with different texts, each at its best rank."""
    used: tuple[int, ...]
    """The ranks, among `distinct`, of contexts that support the answer."""

    @property
    def is_top_used(self) -> bool:
        """Whether the first context is used."""
        return 0 in self.used


def used_contexts(texts: Sequence[str], supporting: Iterable[str]) -> UsedContexts:
    """Which of the contexts with these `texts`, in rank order, have their ids
    (``c1``…) in `supporting`. Unknown ids, and contexts without text, are ignored.
    """
    rank_by_text: dict[str, int] = {}
    rank_by_id: dict[str, int] = {}
    for rank, text in enumerate(texts):
        flat_text = " ".join(text.split())
        best_rank = rank_by_text.setdefault(flat_text, rank)
        if flat_text:
            rank_by_id[context_id(rank)] = best_rank
    used_ranks = {rank_by_id[name] for name in supporting if name in rank_by_id}
    return UsedContexts(tuple(rank_by_text.values()), tuple(sorted(used_ranks)))


class _Alignment(BaseMetric):
    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})
    is_for_answerable_only = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require_claims(judgements, "it draws on no context")
        if not response.contexts:
            return NotApplicable("no contexts were returned")
        supports = require(judgements.support, "support verdicts").supports
        mismatch = "the support verdicts do not match the statements"
        require_each_statement(supports, statements, mismatch)
        texts = [context.text for context in response.contexts]
        used = used_contexts(texts, supporting_contexts(supports))
        return Scored(self._value(used), note=_note(used))

    def _value(self, used: UsedContexts) -> float:
        """The score, in [0, 1]."""
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
        return float(used.is_top_used)


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
        return len(used.used) / len(used.distinct)


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
        return average_precision([rank in used.used for rank in used.distinct])


def _note(used: UsedContexts) -> str:
    total = len(used.distinct)
    if not used.used:
        return f"none of {counted(total, 'context')} supports the answer"
    ranks = join_first([str(rank + 1) for rank in used.used], _MAX_SHOWN_RANKS)
    return f"draws on rank {ranks} of {total}"
