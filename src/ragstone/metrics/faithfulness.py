"""Faithfulness: how much of the answer the contexts support."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    expected_share,
    require,
    require_claims,
)
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response


class Faithfulness(BaseMetric):
    """Supported statements ÷ all statements of the answer (RAGAS, Es et al. 2023,
    section 3).

    With a judge that gives probabilities, such as the offline judge, the expected
    share: their sum ÷ all statements. Not applicable if the answer abstains. An answer
    without contexts scores 0, with a note. In a conversation, contexts of earlier turns
    support an answer too.
    """

    info = MetricInfo(
        name="faithfulness",
        version="2",
        blames="generation",
        source="Es et al. 2023, RAGAS, section 3, F = |V| / |S|",
        is_in_oracle_round=True,
    )
    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})

    def why_not_measurable(self, response: Response) -> str | None:
        return None if response.evidence else super().why_not_measurable(response)

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require_claims(judgements)
        if not response.evidence:
            return Scored(
                0.0, note="the answer makes statements, but no contexts were returned"
            )
        support = require(judgements.support, "support verdicts")
        mismatch = "the support verdicts do not match the statements"
        return expected_share(
            support.supports, statements, mismatch, "statements supported"
        )
