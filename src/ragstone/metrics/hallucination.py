"""Hallucination: whether the answer says something that the contexts don't."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.faithfulness import Faithfulness
from ragstone.metrics.metric import (
    MetricInfo,
    check_probability,
    claims,
    require,
    supported,
)
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response

FLAGGED_FROM = 0.5
"""An answer that scores this or more says something that the contexts don't."""


class Hallucination(Faithfulness):
    """1 if a statement of the answer is not supported by the contexts, else 0; less is
    better.

    Of the judgements of faithfulness. With a judge that gives a probability, such as
    the offline judge, that probability. Not applicable if the answer abstains.
    """

    info = MetricInfo(
        name="hallucination",
        version="1",
        blames="generation",
        source="Jacovi et al. 2025, FACTS Grounding, section 3; Vectara's hallucination rate",
        lower_is_better=True,
    )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = claims(judgements).statements
        if not response.evidence:
            return Scored(
                1.0, note="the answer makes statements, but no contexts were returned"
            )
        support = require(judgements.support, "support verdicts")
        count = supported(
            support.supports,
            statements,
            "the support verdicts do not match the statements",
        )
        if support.all_supported is None:
            return Scored(float(count < len(statements)))
        check_probability(support.all_supported)
        return Scored(
            1.0 - support.all_supported,
            note=f"{count} of {len(statements)} statements supported",
        )
