"""Noise sensitivity: how much of the answer is wrong although a context supports it:
wrong statements that the contexts misled the system into."""

from __future__ import annotations

from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    JudgementKind,
    Judgements,
    Verdict,
    context_id,
    supporting_contexts,
)
from ragstone.metrics.metric import (
    BaseMetric,
    MetricInfo,
    count_supported,
    fail,
    require,
    require_claims,
    require_each_statement,
)
from ragstone.metrics.score import NOTHING_RETURNED, Score, Scored
from ragstone.system.response import Response


class WrongStatements(BaseMetric):
    """Statements of the answer that the reference doesn't support ÷ all statements;
    less is better.

    It counts the wrong statements of both forms of `NoiseSensitivity`, and those that
    no context supports. Not applicable if the answer abstains, or without a reference.
    """

    info = MetricInfo(
        name="noise_sensitivity_any",
        version="1",
        title="Noise sensitivity (any source)",
        blames="generation",
        source="RAGAS documentation, noise sensitivity: incorrect claims ÷ all claims of the response",
        lower_is_better=True,
    )
    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH})
    is_for_answerable_only = True
    needs_reference = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require_claims(judgements)
        match = require(judgements.reference_match, "reference verdicts")
        mismatch = "the verdicts do not match the statements"
        require_each_statement(match.answer_supports, statements, mismatch)
        total = len(statements)
        wrong = total - count_supported(match.answer_supports)
        return Scored(
            wrong / total,
            note=f"not in the reference: {wrong} of {counted(total, 'statement')}",
        )


class NoiseSensitivity(BaseMetric):
    """Statements of the answer that the reference doesn't support but a context does ÷
    all statements; less is better.

    A context is relevant if it supports a statement of the reference. The ``relevant``
    form counts wrong statements that a relevant context supports, the ``irrelevant``
    form those that only other contexts support (noise), so that each statement counts
    in at most one of them. Without contexts, the score is 0. Not applicable if the
    answer abstains, or without a reference.
    """

    reads = frozenset(
        {
            JudgementKind.STATEMENTS,
            JudgementKind.SUPPORT,
            JudgementKind.CONTEXT_USE,
            JudgementKind.REFERENCE_MATCH,
        }
    )
    is_for_answerable_only = True
    needs_reference = True

    def __init__(self, *, relevant: bool) -> None:
        self._counts_relevant = relevant
        word = "relevant" if relevant else "irrelevant"
        self.info = MetricInfo(
            name=f"noise_sensitivity_{word}",
            version="1",
            title=f"Noise sensitivity ({word} contexts)",
            blames="generation",
            source="Ru et al. 2024, RAGChecker, section 3.3 (generator metrics, noise sensitivity)",
            family="noise_sensitivity",
            lower_is_better=True,
        )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = require_claims(judgements)
        if not response.contexts:
            return NOTHING_RETURNED
        supports = require(judgements.support, "support verdicts").supports
        use = require(judgements.context_use, "context judgements")
        match = require(judgements.reference_match, "reference verdicts")
        mismatch = "the verdicts do not match the statements"
        require_each_statement(supports, statements, mismatch)
        require_each_statement(match.answer_supports, statements, mismatch)
        require_each_statement(use.attributions, use.reference_statements, mismatch)
        if not use.against_reference:
            fail("the contexts were not judged against the reference")
        relevant = supporting_contexts(use.attributions)
        returned = set(map(context_id, range(len(response.contexts))))
        misled = 0
        for support, by_reference in zip(supports, match.answer_supports, strict=True):
            is_wrong = by_reference.verdict is not Verdict.SUPPORTED
            sources = returned.intersection(support.supported_by)
            if is_wrong and support.verdict is Verdict.SUPPORTED and sources:
                has_relevant_source = not sources.isdisjoint(relevant)
                misled += has_relevant_source == self._counts_relevant
        total = len(statements)
        note = f"wrong, but supported by a context of this kind: {misled} of {counted(total, 'statement')}"
        return Scored(misled / total, note=note)
