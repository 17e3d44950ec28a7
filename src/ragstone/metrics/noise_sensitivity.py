"""Noise sensitivity: how much of the answer is wrong although a context supports it."""

from __future__ import annotations

from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.metrics.metric import MetricInfo, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


class NoiseSensitivity:
    """Statements of the answer that the reference doesn't support but a context does ÷ all statements; less is better.

    A context is relevant if it supports a statement of the reference. In the ``relevant`` form a relevant context
    supports the wrong statement (it holds the answer, and misled all the same); in the ``irrelevant`` form only others
    do (noise misled). A statement counts in one of the two forms. Without contexts, nothing misled: 0. Not applicable
    if the answer abstains, or without a reference.
    """

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

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if self.excuse(sample) is not None:
            return frozenset()
        return frozenset(
            {
                JudgementKind.STATEMENTS,
                JudgementKind.SUPPORT,
                JudgementKind.CONTEXT_USE,
                JudgementKind.REFERENCE_MATCH,
            }
        )

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if not sample.answerable:
            return NotApplicable("the sample is unanswerable")
        if not sample.reference:
            return NotApplicable("the sample has no reference")
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if (excuse := self.excuse(sample)) is not None:
            return excuse
        found = judgements.statements
        if not isinstance(found, StatementList):
            return missing(found, "statements")
        if found.abstains:
            return NotApplicable("the answer abstains, so it claims nothing")
        if not found.statements:
            return Failed("judge", "no statements were found in an answer that does not abstain")
        if not response.contexts:
            return Scored(0.0, note="no contexts were returned")
        support, use, match = judgements.support, judgements.context_use, judgements.reference_match
        if not isinstance(support, SupportTable):
            return missing(support, "support verdicts")
        if not isinstance(use, ContextUse):
            return missing(use, "context judgements")
        if not isinstance(match, ReferenceMatch):
            return missing(match, "reference verdicts")
        if not (
            _matches(support.supports, found.statements)
            and _matches(match.answer_supports, found.statements)
            and use.against_reference
            and _matches(use.attributions, use.reference_statements)
        ):
            return Failed("judge", "the verdicts do not match the statements one to one")
        known = {context_id(rank) for rank in range(len(response.contexts))}
        relevant = {name for one in use.attributions if one.verdict is Verdict.SUPPORTED for name in one.supported_by}
        misled = 0
        for held, right in zip(support.supports, match.answer_supports, strict=True):
            if right.verdict is Verdict.SUPPORTED or held.verdict is not Verdict.SUPPORTED:
                continue
            sources = known & set(held.supported_by)
            misled += bool(sources & relevant) if self._relevant else bool(sources) and not sources & relevant
        total = len(found.statements)
        return Scored(
            misled / total, note=f"wrong and supported by such a context: {misled} of {counted(total, 'statement')}"
        )


def _matches(supports: tuple[Support, ...], statements: tuple[Statement, ...]) -> bool:
    return [one.statement_id for one in supports] == [statement.id for statement in statements]
