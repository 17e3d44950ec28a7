"""Pairwise preference: is the new answer better than the baseline's?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Better, JudgementKind, Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo, require
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

EQUAL = "neither answer is better than the other"
ORDER = "which answer is better depends on their order"
NO_BASELINE = "there is no baseline whose answers it could be compared with"


class PairwisePreference(BaseMetric):
    """The judge's choice between the new answer and the baseline's, asked in both
    orders.

    1 if the new one is better, 0 if the baseline's is. A choice that depends on the
    order is none: such a sample is a tie, and like an answer that did not change it has
    no score. So the mean is the share of wins among wins and losses, as in a sign test.
    """

    info = MetricInfo(
        name="pairwise_preference",
        version="1",
        blames="both",
        source="Zheng et al. 2023, Judging LLM-as-a-judge, section 3.4: both orders, a tie if they disagree",
        relative=True,
    )

    reads = frozenset({JudgementKind.PREFERENCE})

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if judgements.preference is None:
            return NotApplicable(NO_BASELINE)
        preference = require(judgements.preference, "preference")
        if preference.new_first is not preference.earlier_first:
            return NotApplicable(ORDER)
        match preference.new_first:
            case Better.NEW:
                return Scored(1.0, note="better than the baseline's answer")
            case Better.EARLIER:
                return Scored(0.0, note="worse than the baseline's answer")
            case Better.NEITHER:
                return NotApplicable(EQUAL)
