"""Context recall: how much of the reference the retrieved contexts support."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    expected_share,
    fail,
    require,
)
from ragstone.metrics.score import NOTHING_RETURNED, Score
from ragstone.system.response import Response


class ContextRecall(BaseMetric):
    """Statements of the reference that a context supports ÷ all statements of the
    reference.

    With a judge that gives probabilities, such as the offline judge, the expected
    share: their sum ÷ all statements.
    """

    info = MetricInfo(
        name="context_recall",
        version="2",
        blames="retrieval",
        source="RAGAS documentation, context recall; statement-level attribution to the reference",
        needs_no_answer=True,
    )

    reads = frozenset({JudgementKind.CONTEXT_USE})
    is_for_answerable_only = True
    needs_reference = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if not response.contexts:
            return NOTHING_RETURNED
        use = require(judgements.context_use, "context judgements")
        # The user's own judge may have taken the answer in place of the reference.
        if not use.against_reference or not use.reference_statements:
            fail("no statements were found in the reference")
        mismatch = "the attributions do not match the reference's statements"
        return expected_share(
            use.attributions,
            use.reference_statements,
            mismatch,
            "statements of the reference supported",
        )
