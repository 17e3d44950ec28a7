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
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.metrics.context_precision import average_precision
from ragstone.metrics.registry import METRICS, select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.metrics.judged import statements, supports

SAMPLE = Sample("a", "What is the limit?", reference="The limit is 5. It is per day.")
NO_REFERENCE = Sample("b", "What is the limit?")
UNANSWERABLE = Sample("c", "Who is the king of Mars?", answerable=False)
RESPONSE = Response("a", "The limit is 5.", (Context("The limit is 5."), Context("Cats sleep.")))
BARE = Response("a", "The limit is 5.")


def said(*texts: str, abstains: bool = False) -> StatementList:
    return StatementList(statements("s", len(texts)), abstains)


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
        reference_statements=statements("r", len(held)),
        attributions=supports("r", held),
    )


S, U, C = Verdict.SUPPORTED, Verdict.UNSUPPORTED, Verdict.CONTRADICTED
TWO = use([True, True], [True, True])
ABSTAINS = Judgements(said(abstains=True))
FROM_ANSWER = Judgements(context_use=use([True, True], [], against_reference=False))
FAILED = Judgements(said("x"), JudgementFailure("truncated"))
GRADED = ContextUse((ContextUsefulness("c1", False, 0.4), ContextUsefulness("c2", True, 0.8)), True)
ATTRIBUTED = (Support("r1", S, probability=0.75), Support("r2", U, probability=0.25))
UNKNOWN = SupportTable((Support("s1", S), Support("s9", S)))
DOUBLED = SupportTable((Support("s1", S), Support("s1", S)))


def asked(*similarities: float) -> Judgements:
    return Judgements(said("x"), reverse_questions=ReverseQuestions(("q",) * len(similarities), similarities))


def score(name: str, judgements: Judgements, sample: Sample = SAMPLE, response: Response = RESPONSE) -> Score:
    return METRICS[name].score(sample, response, judgements)


def outcome(found: Score) -> float | type[Score]:
    return found.value if isinstance(found, Scored) else type(found)


@pytest.mark.parametrize(
    ("judgements", "expected"),
    [
        (Judgements(said("x", "y", "z"), support(S, U, S)), 2 / 3),
        (Judgements(said("x", "y"), support(C, S)), 0.5),
        (Judgements(said("x", "y", "z"), likely(0.9, 0.1, 0.8)), 0.6),
        (Judgements(said("x"), likely(-0.1)), Failed),
        (Judgements(said("x"), likely(1.1)), Failed),
        (Judgements(said("x"), likely(float("nan"))), Failed),
        (ABSTAINS, NotApplicable),
        (Judgements(said()), Failed),  # it does not abstain, and says nothing
        (Judgements(said("x", "y"), support(S)), Failed),  # rather than a smaller denominator
        (Judgements(said("x", "y"), DOUBLED), Failed),
        (Judgements(said("x", "y"), UNKNOWN), Failed),
        (Judgements(JudgementFailure("refused")), Failed),
        (FAILED, Failed),
        (Judgements(), Failed),
        (Judgements(said("x")), Failed),
    ],
)
def test_faithfulness(judgements: Judgements, expected: float | type[Score]) -> None:
    found = outcome(score("faithfulness", judgements))
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_what_faithfulness_says_of_its_score() -> None:
    expected = score("faithfulness", Judgements(said("x", "y", "z"), likely(0.9, 0.1, 0.8)))
    assert isinstance(expected, Scored)
    assert "2 of 3 statements" in (expected.note or "")
    bare = score("faithfulness", Judgements(said("x")), response=BARE)
    assert isinstance(bare, Scored)
    assert bare.value == 0
    assert "no contexts" in (bare.note or "")
    assert score("faithfulness", FAILED) == Failed("judge", "truncated")
    assert score("faithfulness", Judgements(JudgementFailure("refused"))) == Failed("judge", "refused")


@pytest.mark.parametrize(
    ("sample", "judgements", "expected"),
    [
        (SAMPLE, asked(0.5, 0.7), 0.6),
        (SAMPLE, asked(-0.4, -0.2), 0.0),
        (SAMPLE, asked(1.0000001, 1.0), 1.0),
        (SAMPLE, ABSTAINS, 0.0),
        (UNANSWERABLE, ABSTAINS, 1.0),
        (UNANSWERABLE, Judgements(said("x")), 0.0),
        (SAMPLE, Judgements(said("x")), Failed),
        (SAMPLE, asked(), Failed),
    ],
)
def test_answer_relevancy(sample: Sample, judgements: Judgements, expected: float | type[Score]) -> None:
    found = outcome(score("answer_relevancy", judgements, sample))
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    ("judgements", "expected"),
    [
        (Judgements(said("x", "y"), support(S, S)), 0.0),
        (Judgements(said("x", "y"), support(S, U)), 1.0),
        (Judgements(said("x", "y"), support(S, C)), 1.0),
        (Judgements(said("x", "y"), likely(0.9, 0.2, all_supported=0.25)), 0.75),
        (Judgements(said("x"), likely(0.9, all_supported=-0.1)), Failed),
        (Judgements(said("x"), likely(0.9, all_supported=1.1)), Failed),
        (Judgements(said("x"), likely(0.9, all_supported=float("nan"))), Failed),
        (ABSTAINS, NotApplicable),
    ],
)
def test_hallucination(judgements: Judgements, expected: float | type[Score]) -> None:
    assert outcome(score("hallucination", judgements)) == expected


@pytest.mark.parametrize(
    ("sample", "judgements", "expected"),
    [
        (SAMPLE, Judgements(context_use=use([True, False], [True, False])), 0.5),
        (SAMPLE, Judgements(context_use=replace(use([True] * 2, [True, False]), attributions=ATTRIBUTED)), 0.5),
        (NO_REFERENCE, Judgements(), NotApplicable),
        (UNANSWERABLE, Judgements(), NotApplicable),
        (SAMPLE, Judgements(context_use=use([True, True], [])), Failed),
        (SAMPLE, Judgements(context_use=replace(TWO, attributions=TWO.attributions[:1])), Failed),
    ],
)
def test_context_recall(sample: Sample, judgements: Judgements, expected: float | type[Score]) -> None:
    assert outcome(score("context_recall", judgements, sample)) == expected
    (metric,) = select_metrics(["context_recall"])
    assert bool(metric.needs(sample)) is (expected is not NotApplicable)


@pytest.mark.parametrize(
    ("name", "sample", "judgements", "expected"),
    [
        ("context_precision", SAMPLE, Judgements(context_use=use([False, True], [True])), 0.5),
        ("context_precision", SAMPLE, Judgements(context_use=GRADED), (0.4 * 0.4 + 0.8 * 1.2 / 2) / 1.2),
        ("context_precision", SAMPLE, Judgements(context_use=use([True], [True])), Failed),  # of two contexts
        # Judgements against the answer are never mixed with those against the reference.
        ("context_precision", NO_REFERENCE, FROM_ANSWER, NotApplicable),
        ("context_precision", SAMPLE, FROM_ANSWER, Failed),
        ("context_precision_no_reference", NO_REFERENCE, FROM_ANSWER, 1.0),
        ("context_precision_no_reference", SAMPLE, FROM_ANSWER, NotApplicable),
        ("context_precision", UNANSWERABLE, Judgements(), NotApplicable),
        ("context_precision_no_reference", UNANSWERABLE, Judgements(), NotApplicable),
    ],
)
def test_context_precision(name: str, sample: Sample, judgements: Judgements, expected: float | type[Score]) -> None:
    found = outcome(score(name, judgements, sample))
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(("name", "value"), [("hallucination", 1.0), ("context_recall", 0.0)])
def test_without_contexts(name: str, value: float) -> None:
    assert outcome(score(name, Judgements(said("x")), response=BARE)) == value


def test_what_is_asked_of_the_judge() -> None:
    faithfulness, hallucination, relevancy = select_metrics(["faithfulness", "hallucination", "answer_relevancy"])
    assert hallucination.needs(SAMPLE) == faithfulness.needs(SAMPLE)
    assert relevancy.needs(UNANSWERABLE) == {JudgementKind.STATEMENTS}


@pytest.mark.parametrize(
    ("useful", "expected"),
    [([], 0), ([False], 0), ([True], 1), ([True, False, True], (1 + 2 / 3) / 2), ([False, False, True], 1 / 3)],
)
def test_average_precision_by_hand(useful: list[bool], expected: float) -> None:
    assert average_precision(useful) == pytest.approx(expected)


@given(st.lists(st.booleans(), max_size=12) | st.lists(st.floats(0, 1), max_size=12))
def test_average_precision_is_in_range_and_best_when_sorted(useful: list[float]) -> None:
    best = average_precision(sorted(useful, reverse=True))
    assert 0 <= average_precision(useful) <= best + 1e-12
    assert best <= 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.01, 1.01])
def test_a_score_outside_its_range_can_not_be_made(value: float) -> None:
    with pytest.raises(ValueError, match="score"):
        Scored(value)
