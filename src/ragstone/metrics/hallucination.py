"""Hallucination: whether the answer says something that the contexts don't."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.faithfulness import Faithfulness
from ragstone.metrics.metric import (
    MetricInfo,
    count_supported,
    require,
    require_claims,
    require_each_statement,
    require_probability,
)
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response

FLAGGED_FROM = 0.5
"""An answer that scores this or more counts as one that says something that the
contexts don't."""


class Hallucination(Faithfulness):
    """1 if the contexts don't support a statement of the answer, else 0; less is
    better.

    It uses the judgements of faithfulness. With a judge that gives the probability of
    such a statement, as the offline judge does, the score is that probability. Not
    applicable if the answer abstains.
    """

    info = MetricInfo(
        name="hallucination",
        version="1",
        blames="generation",
        source="Jacovi et al. 2025, FACTS Grounding, section 3; Vectara's hallucination rate",
        lower_is_better=True,
    )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require_claims(judgements)
        if not response.evidence:
            return Scored(
                1.0, note="the answer makes statements, but no contexts were returned"
            )
        support = require(judgements.support, "support verdicts")
        mismatch = "the support verdicts do not match the statements"
        require_each_statement(support.supports, statements, mismatch)
        count = count_supported(support.supports)
        total = len(statements)
        if support.all_supported is None:
            return Scored(float(count < total))
        require_probability(support.all_supported)
        return Scored(
            1.0 - support.all_supported,
            note=f"{count} of {total} statements supported",
        )
