"""Pairwise preference: is the new answer better than the baseline's?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Better, JudgementKind, Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo, require
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

# Reasons for no score.
NEITHER_IS_BETTER = "neither answer is better than the other"
DEPENDS_ON_ORDER = "which answer is better depends on their order"
NO_BASELINE = "there is no answer of a baseline to compare with"


class PairwisePreference(BaseMetric):
    """1 if the judge prefers the new answer to the baseline's, 0 if it prefers the
    baseline's.

    The judge is asked twice, with the answers in both orders. If it changes its mind
    with the order, or prefers neither, the sample is a tie and has no score, like an
    answer that did not change. So the mean is the share of wins among wins and losses,
    as in a sign test.
    """

    info = MetricInfo(
        name="pairwise_preference",
        version="1",
        blames="both",
        source="Zheng et al. 2023, Judging LLM-as-a-judge, section 3.4: both orders, a tie if they disagree",
        is_relative=True,
    )

    reads = frozenset({JudgementKind.PREFERENCE})

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if judgements.preference is None:
            return NotApplicable(NO_BASELINE)
        preference = require(judgements.preference, "preference")
        if preference.new_first is not preference.earlier_first:
            return NotApplicable(DEPENDS_ON_ORDER)
        match preference.new_first:
            case Better.NEW:
                return Scored(1.0, note="better than the baseline's answer")
            case Better.EARLIER:
                return Scored(0.0, note="worse than the baseline's answer")
            case Better.NEITHER:
                return NotApplicable(NEITHER_IS_BETTER)
