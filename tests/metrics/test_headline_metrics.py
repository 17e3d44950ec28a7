"""The four headline metrics, edge case by edge case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReverseQuestions,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.metrics.answer_relevancy import AnswerRelevancy
from ragstone.metrics.context_precision import ContextPrecision, ContextPrecisionNoReference, average_precision
from ragstone.metrics.context_recall import ContextRecall
from ragstone.metrics.faithfulness import Faithfulness
from ragstone.metrics.hallucination import Hallucination
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.system.response import Context, Response

SAMPLE = Sample("a", "What is the limit?", reference="The limit is 5. It is per day.")
NO_REFERENCE = Sample("b", "What is the limit?")
UNANSWERABLE = Sample("c", "Who is the king of Mars?", answerable=False)
RESPONSE = Response("a", "The limit is 5.", (Context("The limit is 5."), Context("Cats sleep.")))
BARE = Response("a", "The limit is 5.")


def said(*texts: str, abstains: bool = False) -> StatementList:
    return StatementList(tuple(Statement(f"s{i}", text) for i, text in enumerate(texts, 1)), abstains)


def support(*verdicts: Verdict) -> SupportTable:
    return SupportTable(tuple(Support(f"s{i}", verdict) for i, verdict in enumerate(verdicts, 1)))


def likely(*chances: float, all_supported: float | None = None) -> SupportTable:
    """Verdicts with probabilities, supported from one half on."""
    return SupportTable(
        tuple(
            Support(f"s{i}", Verdict.SUPPORTED if chance >= 0.5 else Verdict.UNSUPPORTED, probability=chance)
            for i, chance in enumerate(chances, 1)
        ),
        all_supported,
    )


def use(useful: list[bool], held: list[bool], *, against_reference: bool = True) -> ContextUse:
    return ContextUse(
        contexts=tuple(ContextUsefulness(f"c{i}", flag) for i, flag in enumerate(useful, 1)),
        against_reference=against_reference,
        reference_statements=tuple(Statement(f"r{i}", "x") for i, _ in enumerate(held, 1)),
        attributions=tuple(
            Support(f"r{i}", Verdict.SUPPORTED if flag else Verdict.UNSUPPORTED) for i, flag in enumerate(held, 1)
        ),
    )


class TestFaithfulness:
    score = staticmethod(Faithfulness().score)

    def test_is_the_share_of_supported_statements(self) -> None:
        found = Judgements(said("x", "y", "z"), support(Verdict.SUPPORTED, Verdict.UNSUPPORTED, Verdict.SUPPORTED))
        assert self.score(SAMPLE, RESPONSE, found) == Scored(2 / 3)

    def test_is_the_expected_share_where_the_judge_gives_probabilities_and_the_verdicts_are_the_note(self) -> None:
        found = Judgements(said("x", "y", "z"), likely(0.9, 0.1, 0.8))
        score = self.score(SAMPLE, RESPONSE, found)
        assert isinstance(score, Scored)
        assert score.value == pytest.approx(0.6)
        assert score.note == "2 of 3 statements supported; the score is their mean probability"

    @pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
    def test_fails_for_what_is_no_probability(self, chance: float) -> None:
        assert isinstance(self.score(SAMPLE, RESPONSE, Judgements(said("x"), likely(chance))), Failed)

    def test_counts_a_contradicted_statement_as_not_supported(self) -> None:
        found = Judgements(said("x", "y"), support(Verdict.CONTRADICTED, Verdict.SUPPORTED))
        assert self.score(SAMPLE, RESPONSE, found) == Scored(0.5)

    def test_does_not_apply_to_an_answer_that_abstains(self) -> None:
        assert isinstance(self.score(SAMPLE, RESPONSE, Judgements(said(abstains=True))), NotApplicable)

    def test_fails_when_an_answer_that_does_not_abstain_has_no_statements(self) -> None:
        result = self.score(SAMPLE, RESPONSE, Judgements(said()))
        assert isinstance(result, Failed)
        assert result.by == "judge"

    def test_is_zero_for_statements_without_contexts_and_says_so(self) -> None:
        result = self.score(SAMPLE, BARE, Judgements(said("x")))
        assert isinstance(result, Scored)
        assert result.value == 0
        assert result.note is not None
        assert "no contexts" in result.note

    @pytest.mark.parametrize(
        "verdicts",
        [
            SupportTable((Support("s1", Verdict.SUPPORTED),)),
            SupportTable((Support("s1", Verdict.SUPPORTED), Support("s1", Verdict.SUPPORTED))),
            SupportTable((Support("s1", Verdict.SUPPORTED), Support("s9", Verdict.SUPPORTED))),
        ],
        ids=["too few", "doubled", "unknown"],
    )
    def test_fails_rather_than_take_a_smaller_denominator(self, verdicts: SupportTable) -> None:
        assert isinstance(self.score(SAMPLE, RESPONSE, Judgements(said("x", "y"), verdicts)), Failed)

    def test_passes_on_why_the_judge_failed(self) -> None:
        assert self.score(SAMPLE, RESPONSE, Judgements(JudgementFailure("refused"))) == Failed("judge", "refused")
        found = Judgements(said("x"), JudgementFailure("truncated"))
        assert self.score(SAMPLE, RESPONSE, found) == Failed("judge", "truncated")

    def test_fails_when_nothing_was_judged(self) -> None:
        assert isinstance(self.score(SAMPLE, RESPONSE, Judgements()), Failed)
        assert isinstance(self.score(SAMPLE, RESPONSE, Judgements(said("x"))), Failed)


class TestAnswerRelevancy:
    metric = AnswerRelevancy()

    @pytest.mark.parametrize(
        ("similarities", "expected"), [((0.5, 0.7), 0.6), ((-0.4, -0.2), 0.0), ((1.0000001, 1.0), 1.0)]
    )
    def test_is_the_mean_cosine_clamped(self, similarities: tuple[float, ...], expected: float) -> None:
        found = Judgements(said("x"), reverse_questions=ReverseQuestions(("q",) * len(similarities), similarities))
        result = self.metric.score(SAMPLE, RESPONSE, found)
        assert isinstance(result, Scored)
        assert result.value == pytest.approx(expected)

    def test_is_zero_for_abstaining_on_an_answerable_sample(self) -> None:
        result = self.metric.score(SAMPLE, RESPONSE, Judgements(said(abstains=True)))
        assert isinstance(result, Scored)
        assert result.value == 0

    def test_is_one_for_abstaining_on_an_unanswerable_sample_and_zero_for_answering_it(self) -> None:
        abstained = self.metric.score(UNANSWERABLE, RESPONSE, Judgements(said(abstains=True)))
        answered = self.metric.score(UNANSWERABLE, RESPONSE, Judgements(said("x")))
        assert isinstance(abstained, Scored)
        assert isinstance(answered, Scored)
        assert (abstained.value, answered.value) == (1.0, 0.0)

    def test_asks_for_no_reverse_questions_where_they_would_not_count(self) -> None:
        assert self.metric.needs(UNANSWERABLE) == {JudgementKind.STATEMENTS}

    def test_fails_without_reverse_questions(self) -> None:
        assert isinstance(self.metric.score(SAMPLE, RESPONSE, Judgements(said("x"))), Failed)
        empty = Judgements(said("x"), reverse_questions=ReverseQuestions((), ()))
        assert isinstance(self.metric.score(SAMPLE, RESPONSE, empty), Failed)


class TestHallucination:
    score = staticmethod(Hallucination().score)

    @pytest.mark.parametrize(
        ("last", "value"), [(Verdict.SUPPORTED, 0.0), (Verdict.UNSUPPORTED, 1.0), (Verdict.CONTRADICTED, 1.0)]
    )
    def test_is_one_if_a_statement_is_not_supported(self, last: Verdict, value: float) -> None:
        found = Judgements(said("x", "y"), support(Verdict.SUPPORTED, last))
        assert self.score(SAMPLE, RESPONSE, found) == Scored(value)

    def test_is_the_probability_of_the_whole_where_the_judge_gives_one(self) -> None:
        found = Judgements(said("x", "y"), likely(0.9, 0.2, all_supported=0.25))
        assert self.score(SAMPLE, RESPONSE, found) == Scored(0.75, note="1 of 2 statements supported")

    @pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
    def test_fails_for_what_is_no_probability(self, chance: float) -> None:
        assert isinstance(
            self.score(SAMPLE, RESPONSE, Judgements(said("x"), likely(0.9, all_supported=chance))), Failed
        )

    def test_does_not_apply_to_an_answer_that_abstains(self) -> None:
        assert isinstance(self.score(SAMPLE, RESPONSE, Judgements(said(abstains=True))), NotApplicable)

    def test_is_one_without_contexts(self) -> None:
        score = self.score(SAMPLE, replace(RESPONSE, contexts=()), Judgements(said("x")))
        assert isinstance(score, Scored)
        assert score.value == 1.0

    def test_needs_no_other_judgement_than_faithfulness(self) -> None:
        assert Hallucination().needs(SAMPLE) == Faithfulness().needs(SAMPLE)


class TestContextRecall:
    metric = ContextRecall()

    def test_is_the_share_of_reference_statements_held(self) -> None:
        found = Judgements(context_use=use([True, False], [True, False]))
        assert self.metric.score(SAMPLE, RESPONSE, found) == Scored(0.5)

    def test_is_the_expected_share_where_the_judge_gives_probabilities(self) -> None:
        likely = (
            Support("r1", Verdict.SUPPORTED, probability=0.75),
            Support("r2", Verdict.UNSUPPORTED, probability=0.25),
        )
        found = Judgements(context_use=replace(use([True, False], [True, False]), attributions=likely))
        assert self.metric.score(SAMPLE, RESPONSE, found) == Scored(0.5, note="1 of 2 statements of the reference held")

    @pytest.mark.parametrize("sample", [NO_REFERENCE, UNANSWERABLE], ids=["no reference", "unanswerable"])
    def test_does_not_apply(self, sample: Sample) -> None:
        assert isinstance(self.metric.score(sample, RESPONSE, Judgements()), NotApplicable)
        assert self.metric.needs(sample) == frozenset()

    def test_is_zero_without_contexts(self) -> None:
        result = self.metric.score(SAMPLE, BARE, Judgements())
        assert isinstance(result, Scored)
        assert result.value == 0

    def test_fails_when_the_reference_has_no_statements_or_an_attribution_is_missing(self) -> None:
        assert isinstance(self.metric.score(SAMPLE, RESPONSE, Judgements(context_use=use([True, True], []))), Failed)
        whole = use([True, True], [True, True])
        short = ContextUse(whole.contexts, True, whole.reference_statements, whole.attributions[:1])
        assert isinstance(self.metric.score(SAMPLE, RESPONSE, Judgements(context_use=short)), Failed)


class TestContextPrecision:
    def test_is_average_precision_over_ranks(self) -> None:
        found = Judgements(context_use=use([False, True], [True]))
        assert ContextPrecision().score(SAMPLE, RESPONSE, found) == Scored(0.5)

    def test_is_graded_by_a_judge_that_gives_probabilities(self) -> None:
        graded = ContextUse((ContextUsefulness("c1", False, 0.4), ContextUsefulness("c2", True, 0.8)), True)
        expected = (0.4 * 0.4 + 0.8 * (0.4 + 0.8) / 2) / (0.4 + 0.8)
        found = ContextPrecision().score(SAMPLE, RESPONSE, Judgements(context_use=graded))
        assert isinstance(found, Scored)
        assert found.value == pytest.approx(expected)

    def test_is_never_mixed_with_the_judgement_against_the_answer(self) -> None:
        against_answer = Judgements(context_use=use([True, True], [], against_reference=False))
        assert isinstance(ContextPrecision().score(NO_REFERENCE, RESPONSE, against_answer), NotApplicable)
        assert ContextPrecisionNoReference().score(NO_REFERENCE, RESPONSE, against_answer) == Scored(1.0)
        assert isinstance(ContextPrecisionNoReference().score(SAMPLE, RESPONSE, against_answer), NotApplicable)
        assert isinstance(ContextPrecision().score(SAMPLE, RESPONSE, against_answer), Failed)

    def test_does_not_apply_to_an_unanswerable_sample(self) -> None:
        assert isinstance(ContextPrecision().score(UNANSWERABLE, RESPONSE, Judgements()), NotApplicable)
        assert isinstance(ContextPrecisionNoReference().score(UNANSWERABLE, RESPONSE, Judgements()), NotApplicable)

    def test_fails_when_a_context_has_no_verdict(self) -> None:
        found = Judgements(context_use=use([True], [True]))
        assert isinstance(ContextPrecision().score(SAMPLE, RESPONSE, found), Failed)

    @pytest.mark.parametrize(
        ("useful", "expected"),
        [([], 0), ([False], 0), ([True], 1), ([True, False, True], (1 + 2 / 3) / 2), ([False, False, True], 1 / 3)],
    )
    def test_average_precision_by_hand(self, useful: list[bool], expected: float) -> None:
        assert average_precision(useful) == pytest.approx(expected)

    @given(st.lists(st.booleans(), max_size=12) | st.lists(st.floats(0, 1), max_size=12))
    def test_average_precision_is_in_range_and_best_when_sorted(self, useful: list[float]) -> None:
        best = average_precision(sorted(useful, reverse=True))
        assert 0 <= average_precision(useful) <= 1
        assert best <= 1
        assert average_precision(useful) <= best + 1e-12


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.01, 1.01])
def test_a_score_outside_its_range_can_not_be_made(value: float) -> None:
    with pytest.raises(ValueError, match="score"):
        Scored(value)
