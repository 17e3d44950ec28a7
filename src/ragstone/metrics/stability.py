"""Answer stability: do the answers of the system to one question say the same?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, StatementList, Verdict
from ragstone.metrics.answer_correctness import f1
from ragstone.metrics.metric import MetricInfo, graded, missing
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.metrics.squad import squad_normalise, token_f1
from ragstone.system.response import Response

_ASKED_ONCE = NotApplicable("the system was asked once; --answers 3 asks it again")


class AnswerStability:
    """Mean agreement of each answer with the one before it, by the judge's reference match.

    The earlier answer stands for the reference: the agreement is the harmonic mean of the shares of statements of each
    answer that the other one gives. Equal texts agree; of two answers of which one abstains, agreement is 0, and 1 if
    both do. k answers take k - 1 comparisons: every answer counts, and the expectation is that of all pairs.
    """

    info = MetricInfo(
        name="answer_stability",
        version="1",
        title="Answer stability",
        blames="both",
        source="Ragstone: statement-level F1 (Ru et al. 2024, RAGChecker, section 3.3) between answers to one question",
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:  # noqa: ARG002 - the protocol's signature
        return frozenset({JudgementKind.STATEMENTS, JudgementKind.PREVIOUS_MATCH})

    def excuse(self, sample: Sample) -> NotApplicable | None:  # noqa: ARG002 - the protocol's signature
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        return _ASKED_ONCE

    def compare(self, sample: Sample, responses: Sequence[Response], judgements: Sequence[Judgements]) -> Score:  # noqa: ARG002
        """The score of all answers to one sample, in the order in which the system was asked."""
        answers = list(zip(responses, judgements, strict=True))
        each = [_agreement(*before, *after) for before, after in pairwise(answers)]
        return _mean(each, "compared by the judge")


class TokenStability:
    """Mean token F1 of all pairs of answers, after SQuAD's normalisation. No judge; sensitive to wording."""

    info = MetricInfo(
        name="answer_stability_tokens",
        version="1",
        title="Answer stability (token overlap)",
        blames="both",
        source="Ragstone: token F1 (Rajpurkar et al. 2016, SQuAD, section 6.1) between answers to one question",
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:  # noqa: ARG002 - the protocol's signature
        return frozenset()

    def excuse(self, sample: Sample) -> NotApplicable | None:  # noqa: ARG002 - the protocol's signature
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        return _ASKED_ONCE

    def compare(self, sample: Sample, responses: Sequence[Response], judgements: Sequence[Judgements]) -> Score:  # noqa: ARG002
        """The score of all answers to one sample."""
        pairs = combinations((response.answer for response in responses), 2)
        return _mean([Scored(token_f1(one, other)) for one, other in pairs], "compared by token overlap")


def _agreement(before: Response, judged_before: Judgements, after: Response, judged: Judgements) -> Score:
    if squad_normalise(before.answer) == squad_normalise(after.answer):
        return Scored(1.0)
    earlier, later = judged_before.statements, judged.statements
    if not isinstance(earlier, StatementList):
        return missing(earlier, "statements")
    if not isinstance(later, StatementList):
        return missing(later, "statements")
    if earlier.abstains or later.abstains:
        return Scored(float(earlier.abstains and later.abstains))
    match = judged.previous_match
    if match is None or isinstance(match, JudgementFailure):
        return missing(match, "comparison with the previous answer")
    if not later.statements or not match.reference_statements:
        return Failed("judge", "no statements were found in one of two answers")
    if [one.statement_id for one in match.answer_supports] != [one.id for one in later.statements] or [
        one.statement_id for one in match.reference_supports
    ] != [one.id for one in match.reference_statements]:
        return Failed("judge", "the verdicts do not match the statements one to one")
    shares = [
        graded(share, sum(one.verdict is Verdict.SUPPORTED for one in supports), len(supports), "statements")
        for share, supports in (
            (match.answer_share, match.answer_supports),
            (match.reference_share, match.reference_supports),
        )
    ]
    for share in shares:
        if isinstance(share, Failed):
            return share
    first, second = (share for share in shares if isinstance(share, Scored))
    return Scored(f1(first.value, second.value))


def _mean(each: Sequence[Score], how: str) -> Score:
    """The mean of all comparisons; without one of them there is no score."""
    for score in each:
        if not isinstance(score, Scored):
            return score
    if not each:
        return _ASKED_ONCE
    values = [score.value for score in each if isinstance(score, Scored)]
    mean = sum(values) / len(values)
    return Scored(min(1.0, max(0.0, mean)), note=f"{counted(len(each), 'pair')} of answers {how}")
