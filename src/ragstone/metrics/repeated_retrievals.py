"""Repeated retrievals: how often does an answer search for what it searched for
before?"""

from __future__ import annotations

from ragstone.formatting import clipped
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.evidence import words
from ragstone.metrics.hops import retrievals
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import NO_STEPS, Response, Retrieval

_SHOWN = 60


def repeated_retrievals(response: Response) -> list[Retrieval]:
    """The retrievals that bring nothing new: an earlier one has the same query and
    source, or the same contexts.

    Queries are compared as words, without case and punctuation; contexts as sets, by
    their text, or else by their id.
    """
    earlier: set[object] = set()
    repeated = []
    for retrieval in retrievals(response):
        query = words(retrieval.query)
        result = frozenset(context.text or context.id for context in retrieval.contexts)
        keys: set[object] = set()
        if query:
            keys.add((retrieval.source, query))
        if result:
            keys.add(result)
        if keys & earlier:
            repeated.append(retrieval)
        earlier |= keys
    return repeated


class RepeatedRetrievals(BaseMetric):
    """Retrievals that repeat an earlier one of the same answer ÷ all its retrievals.
    Not applicable without any."""

    info = MetricInfo(
        name="repeated_retrievals",
        version="1",
        blames="retrieval",
        source="Ragstone: share of an answer's retrievals with the query, or the whole result, of an earlier one",
        lower_is_better=True,
        answerless=True,
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
            note = f"repeats '{clipped(repeated[0].query, _SHOWN)}'"
        return Scored(len(repeated) / total, note=note)
