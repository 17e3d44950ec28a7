"""Repeated retrievals: how often does the system search again for what it has found?"""

from __future__ import annotations

from ragstone.formatting import clipped
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.evidence_ranks import words
from ragstone.metrics.hops import retrievals
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import NO_STEPS, Response, Retrieval

_MAX_SHOWN_CHARACTERS = 60
"""A longer query is cut in the note."""


def repeated_retrievals(response: Response) -> list[Retrieval]:
    """The retrievals that repeat an earlier one: with the same query and source, or
    with the same contexts.

    Queries are compared as words, without case and punctuation; contexts as sets, by
    their text, or else by their id.
    """
    earlier_keys: set[object] = set()
    repeated = []
    for retrieval in retrievals(response):
        query = words(retrieval.query)
        result = frozenset(context.text or context.id for context in retrieval.contexts)
        keys: set[object] = set()
        # Empty queries and results say nothing.
        if query:
            keys.add((retrieval.source, query))
        if result:
            keys.add(result)
        if keys & earlier_keys:
            repeated.append(retrieval)
        earlier_keys |= keys
    return repeated


class RepeatedRetrievals(BaseMetric):
    """Retrievals that repeat an earlier one of the same answer ÷ all its retrievals.
    Not applicable to an answer without retrievals."""

    info = MetricInfo(
        name="repeated_retrievals",
        version="1",
        blames="retrieval",
        source="Ragstone: share of an answer's retrievals with the query, or the whole result, of an earlier one",
        lower_is_better=True,
        needs_no_answer=True,
    )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if response.lacks_steps:
            return NotApplicable(NO_STEPS)
        total = len(retrievals(response))
        if not total:
            return NotApplicable("the answer has no retrieval")
        repeated = repeated_retrievals(response)
        note = None
        if repeated:
            note = f"repeats '{clipped(repeated[0].query, _MAX_SHOWN_CHARACTERS)}'"
        return Scored(len(repeated) / total, note=note)
