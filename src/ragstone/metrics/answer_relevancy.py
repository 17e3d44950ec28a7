"""Answer relevancy: does the answer address the question?"""

from __future__ import annotations

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, StatementList
from ragstone.metrics.metric import MetricInfo, answering, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


class AnswerRelevancy:
    """Mean cosine similarity of the question and the reverse questions, clamped to [0, 1] (RAGAS, section 3).

    Abstaining scores 0 on an answerable sample and 1 on an unanswerable one; answering an unanswerable one
    scores 0.
    """

    info = MetricInfo(
        name="answer_relevancy",
        version="1",
        title="Answer relevancy",
        blames="generation",
        source="Es et al. 2023, RAGAS, section 3, AR = mean of sim(q, q_i); abstention rules are Ragstone's",
        divides=True,
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if not sample.answerable:
            return frozenset({JudgementKind.STATEMENTS})
        return frozenset({JudgementKind.STATEMENTS, JudgementKind.REVERSE_QUESTIONS})

    def excuse(self, sample: Sample) -> NotApplicable | None:  # noqa: ARG002 - the protocol's signature
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        found = answering(sample, judgements)
        if not isinstance(found, StatementList):
            return found
        reverse = judgements.reverse_questions
        if reverse is None or isinstance(reverse, JudgementFailure):
            return missing(reverse, "reverse questions")
        if not reverse.similarities:
            return Failed("judge", "no reverse questions were given")
        mean = sum(reverse.similarities) / len(reverse.similarities)
        return Scored(min(1.0, max(0.0, mean)))
