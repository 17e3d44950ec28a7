"""Faithfulness: how much of the answer the contexts support."""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, Verdict
from ragstone.metrics.metric import MetricInfo, graded, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


class Faithfulness:
    """Supported statements ÷ all statements of the answer (RAGAS, Es et al. 2023, section 3).

    A grading judge, such as the offline judge, gives one grade to the whole answer instead; the share is the note. Not
    applicable if the answer abstains. Statements without any context score 0, with a note.
    """

    info = MetricInfo(
        name="faithfulness",
        version="2",
        title="Faithfulness",
        blames="generation",
        source="Es et al. 2023, RAGAS, section 3, F = |V| / |S|",
        divides=True,
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:  # noqa: ARG002 - the protocol's signature
        return frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})

    def excuse(self, sample: Sample) -> NotApplicable | None:  # noqa: ARG002 - the protocol's signature
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        found = judgements.statements
        if found is None or isinstance(found, JudgementFailure):
            return missing(found, "statements")
        if found.abstains:
            return NotApplicable("the answer abstains, so it claims nothing")
        if not found.statements:
            return Failed("judge", "no statements were found in an answer that does not abstain")
        if not response.contexts:
            return Scored(0.0, note="the answer makes statements and no contexts were returned")
        support = judgements.support
        if support is None or isinstance(support, JudgementFailure):
            return missing(support, "support verdicts")
        wanted = [statement.id for statement in found.statements]
        if [verdict.statement_id for verdict in support.supports] != wanted:
            return Failed("judge", "the support verdicts do not match the statements one to one")
        supported = sum(verdict.verdict is Verdict.SUPPORTED for verdict in support.supports)
        return graded(support.probability, supported, len(wanted), "statements supported")
