"""Answer stability: do the answers of the system to one question say the same?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import fmean

from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    JudgementKind,
    Judgements,
    ReferenceMatch,
    Statement,
    StatementList,
    Support,
)
from ragstone.metrics.answer_correctness import agreement
from ragstone.metrics.metric import (
    BaseMetric,
    EarlyScore,
    MetricInfo,
    expected_share,
    fail,
    require,
)
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.metrics.squad import squad_normalise, token_f1
from ragstone.system.response import Response

_Answer = tuple[Response, Judgements]
_ASKED_ONCE = NotApplicable(
    "the system was asked once; RAGSTONE_ANSWERS=3 asks it again"
)


class _Stability(BaseMetric):
    """A metric of all answers to one sample, in the order in which the system was
    asked."""

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        return _ASKED_ONCE

    def compare(
        self,
        sample: Sample,
        responses: Sequence[Response],
        judgements: Sequence[Judgements],
    ) -> Score:
        """The score of all answers to one sample."""
        if len(responses) < 2:
            return _ASKED_ONCE
        try:
            return self._compare(list(zip(responses, judgements, strict=True)))
        except EarlyScore as early:
            return early.score

    def _compare(self, answers: Sequence[_Answer]) -> Score:
        raise NotImplementedError


class AnswerStability(_Stability):
    """Mean agreement of each answer with the one before it, by the judge's reference
    match.

    The earlier answer stands for the reference: the agreement is the harmonic mean of
    the shares of statements of each answer that the other one gives. Equal texts agree;
    of two answers of which one abstains, agreement is 0, and 1 if both do. k answers
    take k - 1 comparisons: every answer counts, and the expectation is that of all
    pairs.
    """

    info = MetricInfo(
        name="answer_stability",
        version="1",
        blames="both",
        source="Ragstone: statement-level F1 (Ru et al. 2024, RAGChecker, section 3.3) between answers to one question",
    )

    reads = frozenset({JudgementKind.STATEMENTS, JudgementKind.PREVIOUS_MATCH})

    def _compare(self, answers: Sequence[_Answer]) -> Score:
        agreements = [
            _agreement(earlier, later) for earlier, later in pairwise(answers)
        ]
        return _mean(agreements, "compared by the judge")


class SelfConsistency(_Stability):
    """Mean share of the statements of an answer that another answer to the question
    supports.

    What a model knows it says each time; what it makes up differs. Each answer is
    judged with the one before it, in both directions, by the judgement that
    `answer_stability` reads: the expectation is that of all pairs. Equal texts support
    each other, and an answer that abstains supports nothing; not applicable if all
    abstain.
    """

    info = MetricInfo(
        name="self_consistency",
        version="1",
        blames="generation",
        source="Manakul et al. 2023, SelfCheckGPT, section 5.5 (prompt), by statements instead of sentences",
    )

    reads = AnswerStability.reads

    def _compare(self, answers: Sequence[_Answer]) -> Score:
        shares: list[float] = []
        for earlier, later in pairwise(answers):
            shares += _supported_shares(earlier, later)
        if not shares:
            return NotApplicable(
                "every answer abstains, so nothing is said that another could support"
            )
        note = f"{counted(len(answers), 'answer')} compared by the judge"
        return Scored(min(1.0, fmean(shares)), note=note)


class TokenStability(_Stability):
    """Mean token F1 of all pairs of answers, after SQuAD's normalisation. No judge;
    sensitive to wording."""

    info = MetricInfo(
        name="answer_stability_tokens",
        version="1",
        title="Answer stability (token overlap)",
        blames="both",
        source="Ragstone: token F1 (Rajpurkar et al. 2016, SQuAD, section 6.1) between answers to one question",
    )

    def _compare(self, answers: Sequence[_Answer]) -> Score:
        texts = [response.answer for response, _ in answers]
        agreements = [token_f1(*pair) for pair in combinations(texts, 2)]
        return _mean(agreements, "compared by token overlap")


def _agreement(earlier: _Answer, later: _Answer) -> float:
    if _are_equal(earlier, later):
        return 1.0
    earlier_statements = _statements_of(earlier)
    later_statements = _statements_of(later)
    abstain = (earlier_statements.abstains, later_statements.abstains)
    if any(abstain):
        return float(all(abstain))
    match = _match(later)
    return agreement(match, later_statements.statements, "in one of two answers").value


def _supported_shares(earlier: _Answer, later: _Answer) -> Sequence[float]:
    """The shares of the statements of two answers that the other one supports; an
    answer that abstains has none."""
    earlier_statements = _statements_of(earlier)
    later_statements = _statements_of(later)
    abstain = (earlier_statements.abstains, later_statements.abstains)
    if all(abstain):
        return ()
    if any(abstain):
        return (0.0,)
    if _are_equal(earlier, later):
        return (1.0, 1.0)
    match = _match(later)
    if match.answer_share is not None and match.reference_share is not None:
        return (match.answer_share, match.reference_share)
    return (
        _supported_share(match.answer_supports, later_statements.statements),
        _supported_share(match.reference_supports, match.reference_statements),
    )


def _are_equal(earlier: _Answer, later: _Answer) -> bool:
    return squad_normalise(earlier[0].answer) == squad_normalise(later[0].answer)


def _statements_of(answer: _Answer) -> StatementList:
    return require(answer[1].statements, "statements")


def _match(later: _Answer) -> ReferenceMatch:
    return require(later[1].previous_match, "comparison with the previous answer")


def _supported_share(
    supports: Sequence[Support], statements: Sequence[Statement]
) -> float:
    if not statements:
        fail("no statements were found in an answer that does not abstain")
    return expected_share(
        supports, statements, "the verdicts do not match the statements", "supported"
    ).value


def _mean(values: Sequence[float], how: str) -> Score:
    """The mean of a value per pair of answers; `how` they were compared is noted."""
    note = f"{counted(len(values), 'pair')} of answers {how}"
    return Scored(min(1.0, max(0.0, fmean(values))), note=note)
