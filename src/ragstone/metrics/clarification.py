"""Clarification: where the question leaves something open, does the answer ask back?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.clarification import asks_back
from ragstone.judge.judgements import Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response


class Clarification(BaseMetric):
    """1 if the answer asks the user back, else 0. Only for samples that expect this, to
    which no other metric of answers applies.

    No judge is asked: see judge/clarification.py.
    """

    info = MetricInfo(
        name="clarification",
        version="1",
        blames="generation",
        source="Ragstone: share of the answers that ask back where the golden set expects it",
    )

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        if sample.expects_clarification:
            return None
        return NotApplicable("the sample expects an answer")

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if asks_back(response.answer):
            return Scored(1.0)
        return Scored(0.0, note="does not ask back")
