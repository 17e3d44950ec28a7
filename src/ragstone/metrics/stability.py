"""Answer stability: do several answers of the system to one question say the same?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import fmean

from msgspec import Struct

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

_ASKED_ONCE = NotApplicable(
    "the system was asked once; RAGSTONE_ANSWERS=3 asks it again"
)


class _Answer(Struct, frozen=True):
    """An answer and the judgements on it."""

    response: Response
    judgements: Judgements

    def statements(self) -> StatementList:
        """Its statements. Raises EarlyScore if there are none."""
        return require(self.judgements.statements, "statements")

    def previous_match(self) -> ReferenceMatch:
        """Its comparison with the answer before. Raises EarlyScore if there is none."""
        match = self.judgements.previous_match
        return require(match, "comparison with the previous answer")


class _Stability(BaseMetric):
    """A metric that compares all answers to a sample, in the order in which they were
    given."""

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
            return self._compare(list(map(_Answer, responses, judgements)))
        except EarlyScore as early:
            return early.score

    def _compare(self, answers: Sequence[_Answer]) -> Score:
        """The score of two or more answers. May raise EarlyScore."""
        raise NotImplementedError


class AnswerStability(_Stability):
    """Mean agreement of each answer with the one before it.

    The judge compares an answer with the one before it like with a reference: the
    agreement is the harmonic mean of the shares of statements of each answer that the
    other one gives. It is 1 for equal texts and if both answers abstain, and 0 if one
    of them abstains. The score of k answers takes k - 1 comparisons, and on average is
    the same as that of all pairs.
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
    compared with the one before it, in both directions, by the judgement that
    `answer_stability` reads. Equal texts support each other, and an answer that
    abstains supports nothing. Not applicable if all answers abstain.
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
        texts = [answer.response.answer for answer in answers]
        agreements = [token_f1(*pair) for pair in combinations(texts, 2)]
        return _mean(agreements, "compared by token overlap")


def _agreement(earlier: _Answer, later: _Answer) -> float:
    """How much two answers say the same, in [0, 1]."""
    if _are_equal(earlier, later):
        return 1.0
    abstain = (earlier.statements().abstains, later.statements().abstains)
    if any(abstain):
        return float(all(abstain))
    match = later.previous_match()
    statements = later.statements().statements
    return agreement(match, statements, where="in one of two answers").value


def _supported_shares(earlier: _Answer, later: _Answer) -> Sequence[float]:
    """For each of two answers that does not abstain, the share of its statements that
    the other one supports."""
    abstain = (earlier.statements().abstains, later.statements().abstains)
    if all(abstain):
        return ()
    if any(abstain):
        return (0.0,)
    if _are_equal(earlier, later):
        return (1.0, 1.0)
    match = later.previous_match()
    # Finer grades of the judge, if it gives them.
    if match.answer_share is not None and match.reference_share is not None:
        return (match.answer_share, match.reference_share)
    return (
        _supported_share(match.answer_supports, later.statements().statements),
        _supported_share(match.reference_supports, match.reference_statements),
    )


def _are_equal(earlier: _Answer, later: _Answer) -> bool:
    earlier_text = squad_normalise(earlier.response.answer)
    return earlier_text == squad_normalise(later.response.answer)


def _supported_share(
    supports: Sequence[Support], statements: Sequence[Statement]
) -> float:
    """The share of `statements` that `supports` support. Raises EarlyScore."""
    if not statements:
        fail("no statements were found in an answer that does not abstain")
    mismatch = "the verdicts do not match the statements"
    return expected_share(supports, statements, mismatch, "supported").value


def _mean(agreements: Sequence[float], how: str) -> Score:
    """The mean of the agreements of pairs of answers; the note says `how` these were
    compared."""
    note = f"{counted(len(agreements), 'pair')} of answers {how}"
    return Scored(min(1.0, max(0.0, fmean(agreements))), note=note)
