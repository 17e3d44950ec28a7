"""Noise sensitivity: how much of the answer is wrong although a context supports it."""

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
    claims,
    fail,
    require,
    supported,
)
from ragstone.metrics.score import NOTHING_RETURNED, Score, Scored
from ragstone.system.response import Response


class WrongStatements(BaseMetric):
    """Statements of the answer that the reference doesn't support ÷ all statements;
    less is better.

    What the two forms of `NoiseSensitivity` count, and wrong statements that no context
    supports. Not applicable if the answer abstains, or without a reference.
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
    answerable_only = reference_needed = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = claims(judgements).statements
        match = require(judgements.reference_match, "reference verdicts")
        total = len(statements)
        wrong = total - supported(
            match.answer_supports,
            statements,
            "the verdicts do not match the statements",
        )
        return Scored(
            wrong / total,
            note=f"not in the reference: {wrong} of {counted(total, 'statement')}",
        )


class NoiseSensitivity(BaseMetric):
    """Statements of the answer that the reference doesn't support but a context does ÷
    all statements; less is better.

    A context is relevant if it supports a statement of the reference. In the
    ``relevant`` form a relevant context supports the wrong statement (it holds the
    answer, and misled all the same); in the ``irrelevant`` form only others do (noise
    misled). A statement counts in one of the two forms. Without contexts, nothing
    misled: 0. Not applicable if the answer abstains, or without a reference.
    """

    reads = frozenset(
        {
            JudgementKind.STATEMENTS,
            JudgementKind.SUPPORT,
            JudgementKind.CONTEXT_USE,
            JudgementKind.REFERENCE_MATCH,
        }
    )
    answerable_only = reference_needed = True

    def __init__(self, *, relevant: bool) -> None:
        self._relevant = relevant
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
        statements = claims(judgements).statements
        if not response.contexts:
            return NOTHING_RETURNED
        supports = require(judgements.support, "support verdicts").supports
        use = require(judgements.context_use, "context judgements")
        match = require(judgements.reference_match, "reference verdicts")
        mismatch = "the verdicts do not match the statements"
        supported(supports, statements, mismatch)
        supported(match.answer_supports, statements, mismatch)
        supported(use.attributions, use.reference_statements, mismatch)
        if not use.against_reference:
            fail(f"{mismatch} one to one")
        relevant = supporting_contexts(use.attributions)
        returned = set(map(context_id, range(len(response.contexts))))
        misled = 0
        for support, by_reference in zip(supports, match.answer_supports, strict=True):
            is_wrong = by_reference.verdict is not Verdict.SUPPORTED
            sources = returned.intersection(support.supported_by)
            if is_wrong and support.verdict is Verdict.SUPPORTED and sources:
                has_relevant_source = not sources.isdisjoint(relevant)
                misled += has_relevant_source is self._relevant
        total = len(statements)
        note = f"wrong and supported by such a context: {misled} of {counted(total, 'statement')}"
        return Scored(misled / total, note=note)
