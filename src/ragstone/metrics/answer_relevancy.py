"""Answer relevancy: does the answer address the question?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements
from ragstone.metrics.metric import (
    AbstentionMetric,
    MetricInfo,
    fail,
    require,
    require_answering,
)
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response


class AnswerRelevancy(AbstentionMetric):
    """Mean cosine similarity of the question and the reverse questions, clamped to [0,
    1] (RAGAS, section 3).

    Abstaining scores 0 on an answerable sample and 1 on an unanswerable one; answering
    an unanswerable one scores 0.
    """

    info = MetricInfo(
        name="answer_relevancy",
        version="1",
        blames="generation",
        source="Es et al. 2023, RAGAS, section 3, AR = mean of sim(q, q_i); abstention rules are Ragstone's",
        is_in_oracle_round=True,
    )

    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.REVERSE_QUESTIONS})

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        statements = judgements.statements
        is_too_short = (
            isinstance(statements, JudgementFailure) and statements.not_applicable
        )
        # An answer with too few words for a statement may answer the question: "No."
        if not sample.answerable or not is_too_short:
            require_answering(sample, judgements)
        reverse = require(judgements.reverse_questions, "reverse questions")
        similarities = reverse.similarities
        if not similarities:
            fail("the judge returned no reverse questions")
        mean = sum(similarities) / len(similarities)
        return Scored(min(1.0, max(0.0, mean)))
