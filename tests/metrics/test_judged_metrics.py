"""The metrics that are read from a judge's verdicts, case by case."""

from __future__ import annotations

import statistics as oracle
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.golden.sample import Sample
from ragstone.judge.abilities import NO_EMBEDDINGS
from ragstone.judge.judgements import (
    AnswerSimilarity,
    ContextGrades,
    ContextUse,
    ContextUsefulness,
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    ReverseQuestions,
    SentenceRelevance,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.metrics.context_precision import average_precision
from ragstone.metrics.registry import METRICS, select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Context, Response
from tests.metrics.judged import matched, outcome, score, statements, supports, table

SAMPLE = Sample("a", "What is the limit?", reference="The limit is 5. It is per day.")
NO_REFERENCE = Sample("b", "What is the limit?")
UNANSWERABLE = Sample("c", "Who is the king of Mars?", answerable=False)
RESPONSE = Response("a", "The limit is 5.", (Context("The limit is 5."), Context("Cats sleep.")))
WITHOUT_CONTEXTS = Response("a", "The limit is 5.")
SUPPORTED, UNSUPPORTED, CONTRADICTED = Verdict.SUPPORTED, Verdict.UNSUPPORTED, Verdict.CONTRADICTED
NAN = float("nan")
Expected = float | type[Score]


def statement_list(count: int) -> StatementList:
    return StatementList(statements("s", count), abstains=False)


ABSTAINS = Judgements(StatementList((), abstains=True))
REFUSED = Judgements(JudgementFailure("refused"))
NO_JUDGEMENT = Judgements()


def judged(*verdicts: Verdict) -> Judgements:
    table = SupportTable(tuple(Support(f"s{number}", verdict) for number, verdict in enumerate(verdicts, 1)))
    return Judgements(statement_list(len(verdicts)), table)


def with_probabilities(*probabilities: float, all_supported: float | None = None) -> Judgements:
    """Verdicts with these probabilities; the statements are supported from 0.5 on."""
    supports = (
        Support(f"s{number}", SUPPORTED if probability >= 0.5 else UNSUPPORTED, (), probability)
        for number, probability in enumerate(probabilities, 1)
    )
    return Judgements(statement_list(len(probabilities)), SupportTable(tuple(supports), all_supported))


def with_ids(*ids: str) -> Judgements:
    """Verdicts on other statements than the two of the answer."""
    return Judgements(statement_list(2), SupportTable(tuple(Support(name, SUPPORTED) for name in ids)))


def with_similarities(*similarities: float) -> Judgements:
    return Judgements(statement_list(1), reverse_questions=ReverseQuestions(("q",) * len(similarities), similarities))


def with_context_use(
    useful: list[bool | float], supported: list[bool], *, against_reference: bool = True
) -> Judgements:
    """Whether each context is useful (or its probability), and each statement of the reference supported."""
    contexts = tuple(
        ContextUsefulness(f"c{number}", value >= 0.5, None if isinstance(value, bool) else value)
        for number, value in enumerate(useful, 1)
    )
    return Judgements(
        context_use=ContextUse(contexts, against_reference, statements("r", len(supported)), supports("r", supported))
    )


def grades(*counts: tuple[str, int, int]) -> Judgements:
    return Judgements(context_relevance=ContextGrades(tuple(SentenceRelevance(*count) for count in counts)))


def with_match(judgements: Judgements, **changes: object) -> Judgements:
    match = judgements.reference_match
    assert isinstance(match, ReferenceMatch)
    return replace(judgements, reference_match=replace(match, **changes))  # type: ignore[arg-type]


def with_cosines(*cosines: float) -> Judgements:
    return Judgements(answer_similarity=AnswerSimilarity(cosines))


def weighted(answer: list[bool], reference: list[bool], cosine: float = 0.6) -> Judgements:
    return replace(matched(answer, reference), answer_similarity=AnswerSimilarity((cosine,)))


WITHOUT_EMBEDDINGS = JudgementFailure(NO_EMBEDDINGS, not_applicable=True)
TWO_OF_TWO = matched([True, True], [True, True])
FAILED_ATTRIBUTION = replace(
    with_context_use([True, True], [True, False]).context_use, attributions=supports("r", [True])
)  # type: ignore[type-var]
GRADES = ContextGrades((SentenceRelevance("c1", 1, 4, 0.8, 0.5), SentenceRelevance("c2", 0, 6, 0.5, 0.2)))
ROWS: dict[str, list[tuple[Sample, Judgements, Expected]]] = {
    "faithfulness": [
        (SAMPLE, judged(SUPPORTED, UNSUPPORTED, SUPPORTED), 2 / 3),
        (SAMPLE, judged(CONTRADICTED, SUPPORTED), 0.5),
        (SAMPLE, with_probabilities(0.9, 0.1, 0.8), 0.6),
        *((SAMPLE, with_probabilities(invalid), Failed) for invalid in (-0.1, 1.1, NAN)),
        (SAMPLE, ABSTAINS, NotApplicable),
        (SAMPLE, Judgements(statement_list(0)), Failed),  # it does not abstain, and says nothing
        *((SAMPLE, with_ids(*ids), Failed) for ids in (("s1",), ("s1", "s1"), ("s1", "s9"), ("s1", "s2", "s3"))),
        (SAMPLE, Judgements(statement_list(1)), Failed),
    ],
    "hallucination": [
        (SAMPLE, judged(SUPPORTED, SUPPORTED), 0.0),
        (SAMPLE, judged(SUPPORTED, CONTRADICTED), 1.0),
        (SAMPLE, with_probabilities(0.9, 0.2, all_supported=0.25), 0.75),
        *((SAMPLE, with_probabilities(0.9, all_supported=invalid), Failed) for invalid in (-0.1, 1.1, NAN)),
        (SAMPLE, ABSTAINS, NotApplicable),
    ],
    "answer_relevancy": [
        (SAMPLE, with_similarities(0.5, 0.7), 0.6),
        (SAMPLE, with_similarities(-0.4, -0.2), 0.0),
        (SAMPLE, with_similarities(1.0000001, 1.0), 1.0),
        (SAMPLE, ABSTAINS, 0.0),
        (UNANSWERABLE, ABSTAINS, 1.0),
        (UNANSWERABLE, Judgements(statement_list(1)), 0.0),
        (SAMPLE, Judgements(statement_list(1)), Failed),
        (SAMPLE, with_similarities(), Failed),
        # Too few words for a statement may answer, but not a question that can't be answered.
        (SAMPLE, replace(with_similarities(0.5), statements=WITHOUT_EMBEDDINGS), 0.5),
        (SAMPLE, replace(with_similarities(0.5), statements=JudgementFailure("refused")), Failed),
        (UNANSWERABLE, replace(with_similarities(0.5), statements=WITHOUT_EMBEDDINGS), NotApplicable),
    ],
    "context_recall": [
        (SAMPLE, with_context_use([True, False], [True, False]), 0.5),
        (NO_REFERENCE, NO_JUDGEMENT, NotApplicable),
        (UNANSWERABLE, NO_JUDGEMENT, NotApplicable),
        (SAMPLE, with_context_use([True, True], []), Failed),
        (SAMPLE, with_context_use([True, True], [True], against_reference=False), Failed),
        (SAMPLE, Judgements(context_use=FAILED_ATTRIBUTION), Failed),
    ],
    "context_precision": [
        (SAMPLE, with_context_use([False, True], [True]), 0.5),
        (SAMPLE, with_context_use([0.4, 0.8], [True]), (0.4 * 0.4 + 0.8 * 1.2 / 2) / 1.2),
        (SAMPLE, with_context_use([0.4, True], [True]), 0.5),  # not all are graded
        (SAMPLE, with_context_use([True], [True]), Failed),  # of two contexts
        # Judgements against the answer are never mixed with those against the reference.
        (NO_REFERENCE, with_context_use([True, True], [], against_reference=False), NotApplicable),
        (SAMPLE, with_context_use([True, True], [], against_reference=False), Failed),
        (UNANSWERABLE, NO_JUDGEMENT, NotApplicable),
    ],
    "context_precision_no_reference": [
        (NO_REFERENCE, with_context_use([True, True], [], against_reference=False), 1.0),
        (SAMPLE, with_context_use([True, True], [], against_reference=False), NotApplicable),
        (UNANSWERABLE, NO_JUDGEMENT, NotApplicable),
    ],
    "context_relevance": [
        (SAMPLE, grades(("c1", 1, 3), ("c2", 1, 1)), 0.5),
        (SAMPLE, grades(("c1", 0, 0), ("c2", 0, 0)), 0.0),
        (SAMPLE, Judgements(context_relevance=GRADES), (0.8 * 0.5 * 4 + 0.5 * 0.2 * 6) / 10),
        (SAMPLE, grades(("c1", 1, 3)), Failed),
        (SAMPLE, grades(("c1", 4, 3), ("c2", 1, 1)), Failed),
        (SAMPLE, grades(("c1", -1, 3), ("c2", 0, 1)), Failed),
        (UNANSWERABLE, NO_JUDGEMENT, NotApplicable),
    ],
    "answer_correctness": [
        (SAMPLE, matched([True, False], [True]), 2 / 3),  # the harmonic mean of both directions
        (SAMPLE, matched([True], [True]), 1.0),
        (SAMPLE, with_match(TWO_OF_TWO, answer_share=0.5, reference_share=0.25), 1 / 3),  # a judge's finer shares
        (SAMPLE, with_match(TWO_OF_TWO, answer_share=1.01, reference_share=0.25), Failed),
        (SAMPLE, ABSTAINS, 0.0),
        (UNANSWERABLE, ABSTAINS, 1.0),
        (UNANSWERABLE, matched([True], []), 0.0),
        (NO_REFERENCE, NO_JUDGEMENT, NotApplicable),
        (SAMPLE, matched([], [True]), Failed),
        (SAMPLE, matched([True], []), Failed),
        (SAMPLE, with_match(TWO_OF_TWO, answer_supports=supports("s", [True])), Failed),
        (SAMPLE, with_match(TWO_OF_TWO, reference_supports=supports("r", [True])), Failed),
    ],
    "completeness": [
        (SAMPLE, matched([True], [True, True, False, False]), 0.5),
        (SAMPLE, matched([True, False, False, False], [True]), 1.0),  # what it says besides does not lower it
        (SAMPLE, with_match(TWO_OF_TWO, reference_share=0.7), 0.7),
        (SAMPLE, ABSTAINS, 0.0),
        (NO_REFERENCE, NO_JUDGEMENT, NotApplicable),
        (UNANSWERABLE, NO_JUDGEMENT, NotApplicable),
        (SAMPLE, matched([True], []), Failed),
        (SAMPLE, with_match(TWO_OF_TWO, reference_supports=supports("r", [True])), Failed),
    ],
    "answer_similarity": [
        (SAMPLE, with_cosines(0.3, 0.8), 0.8),  # the nearest reference counts
        (SAMPLE, with_cosines(-0.2, -1.0), 0.0),
        *((SAMPLE, with_cosines(*invalid), Failed) for invalid in ((), (NAN,), (1.01,), (0.5, -1.01))),
        (SAMPLE, Judgements(answer_similarity=WITHOUT_EMBEDDINGS), NotApplicable),
        (SAMPLE, Judgements(answer_similarity=JudgementFailure("refused")), Failed),
        (NO_REFERENCE, NO_JUDGEMENT, NotApplicable),
        (UNANSWERABLE, NO_JUDGEMENT, NotApplicable),
    ],
    "answer_correctness_weighted": [
        (SAMPLE, replace(weighted([True], [True]), answer_similarity=WITHOUT_EMBEDDINGS), NotApplicable),
        (SAMPLE, replace(weighted([True], [True]), reference_match=None), Failed),
        (SAMPLE, weighted([], [True]), Failed),
        (SAMPLE, weighted([True], []), Failed),
        (SAMPLE, ABSTAINS, 0.0),
        (UNANSWERABLE, ABSTAINS, 1.0),
    ],
    "noise_sensitivity_any": [
        (SAMPLE, matched([True], [True]), 0.0),
        (SAMPLE, matched([True, False, False, False], [True]), 0.75),
        (SAMPLE, ABSTAINS, NotApplicable),
        (SAMPLE, replace(TWO_OF_TWO, reference_match=None), Failed),
    ],
}


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, rows in ROWS.items() for row in rows])
def test_a_metric_scores_what_the_judge_says(name: str, row: tuple[Sample, Judgements, Expected]) -> None:
    sample, judgements, expected = row
    found = outcome(score(name, sample, RESPONSE, judgements))
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)
    if not sample.answerable and expected is NotApplicable and name != "answer_relevancy":
        assert not METRICS[name].needs(sample)


NO_CONTEXTS = "no contexts were returned"
UNFOUNDED = "the answer makes statements, but no contexts were returned"
NOT_ALL = Scored(0.5, "not in the reference: 1 of 2 statements")
MEAN_PROBABILITY = "2 of 3 statements supported; the score is their mean probability"


@pytest.mark.parametrize(
    ("name", "response", "judgements", "expected"),
    [
        ("faithfulness", RESPONSE, with_probabilities(0.9, 0.1, 0.94), Scored(1.94 / 3, "2 of 3 statements supported")),
        ("faithfulness", RESPONSE, with_probabilities(0.9, 0.0, 0.8), Scored(1.7 / 3, MEAN_PROBABILITY)),
        ("faithfulness", WITHOUT_CONTEXTS, judged(SUPPORTED), Scored(0.0, UNFOUNDED)),
        ("faithfulness", RESPONSE, REFUSED, Failed("judge", "refused")),
        ("hallucination", WITHOUT_CONTEXTS, judged(SUPPORTED), Scored(1.0, UNFOUNDED)),
        ("context_recall", WITHOUT_CONTEXTS, NO_JUDGEMENT, Scored(0.0, NO_CONTEXTS)),
        ("context_precision", WITHOUT_CONTEXTS, NO_JUDGEMENT, Scored(0.0, NO_CONTEXTS)),
        ("context_relevance", WITHOUT_CONTEXTS, NO_JUDGEMENT, Scored(0.0, NO_CONTEXTS)),
        ("noise_sensitivity_any", WITHOUT_CONTEXTS, matched([True, False], [True]), NOT_ALL),
        ("noise_sensitivity_relevant", WITHOUT_CONTEXTS, TWO_OF_TWO, Scored(0.0, NO_CONTEXTS)),
        ("answer_correctness", WITHOUT_CONTEXTS, ABSTAINS, Scored(0.0, "abstains on a question that can be answered")),
        ("completeness", Response("a", " "), NO_JUDGEMENT, Scored(0.0, "the answer is empty")),
        ("answer_similarity", Response("a", " "), NO_JUDGEMENT, Scored(0.0, "the answer is empty")),
    ],
)
def test_what_a_metric_says_of_its_score(
    name: str, response: Response, judgements: Judgements, expected: Score
) -> None:
    found = score(name, SAMPLE, response, judgements)
    assert outcome(found) == pytest.approx(outcome(expected)) if isinstance(expected, Scored) else found == expected
    assert getattr(found, "note", None) == getattr(expected, "note", None)


def test_what_is_asked_of_the_judge() -> None:
    faithfulness, hallucination, relevancy, correctness, completeness = select_metrics(
        ["faithfulness", "hallucination", "answer_relevancy", "answer_correctness", "completeness"]
    )
    assert hallucination.needs(SAMPLE) == faithfulness.needs(SAMPLE)
    assert relevancy.needs(UNANSWERABLE) == {JudgementKind.STATEMENTS}
    halves = {JudgementKind.STATEMENTS, JudgementKind.ANSWER_SIMILARITY}
    assert METRICS["answer_correctness_weighted"].needs(UNANSWERABLE) == halves
    matched_statements = {JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH}
    assert completeness.needs(SAMPLE) == correctness.needs(SAMPLE) == matched_statements


@given(st.lists(st.booleans(), max_size=12) | st.lists(st.floats(0, 1), max_size=12))
def test_average_precision_is_in_range_and_best_when_sorted(useful: list[float]) -> None:
    best = average_precision(sorted(useful, reverse=True))
    assert 0 <= average_precision(useful) <= best + 1e-12
    assert best <= 1


@pytest.mark.parametrize("value", [NAN, float("inf"), -0.01, 1.01])
def test_a_score_outside_its_range_can_not_be_made(value: float) -> None:
    with pytest.raises(ValueError, match="score"):
        Scored(value)


@pytest.mark.parametrize(("right", "wrong", "missing"), list(product(range(4), range(1, 3), range(3))))
def test_weighted_correctness_is_that_of_ragas(right: int, wrong: int, missing: int) -> None:
    """ragas writes the harmonic mean of precision and recall as TP / (TP + 0.5 (FP + FN))."""
    judgements = weighted([True] * right + [False] * wrong, [False] * missing + [True])
    f1 = oracle.harmonic_mean([right / (right + wrong), right / (right + missing)]) if right else 0.0
    found = outcome(score("answer_correctness_weighted", SAMPLE, RESPONSE, judgements))
    assert found == pytest.approx(0.75 * f1 + 0.25 * 0.6)


def noisy(right: list[bool], answer_in: list[list[int]], reference_in: list[list[int]], contexts: int) -> Judgements:
    """`right` says which statements of the answer the reference supports; the rest, which contexts support what."""
    useful = tuple(ContextUsefulness(f"c{rank}", useful=True) for rank in range(1, contexts + 1))
    reference = statements("r", len(reference_in))
    return replace(
        matched(right, [False] * len(reference_in)),
        support=SupportTable(table("s", answer_in)),
        context_use=ContextUse(useful, True, reference, table("r", reference_in)),
    )


def noise(judgements: Judgements, contexts: int = 2) -> list[float | type[Score]]:
    """In the relevant and in the irrelevant form."""
    response = Response("a", "an answer", tuple(Context(f"text {rank}") for rank in range(contexts)))
    return [outcome(metric.score(SAMPLE, response, judgements)) for metric in select_metrics(["noise_sensitivity"])]


NOISY = noisy([False, False], [[1], [2]], [[1]], 2)
UNSUPPORTED_STATEMENTS = (Support("s1", UNSUPPORTED, ("c1",)), Support("s2", CONTRADICTED, ("c2",)))


@pytest.mark.parametrize(
    ("judgements", "expected"),
    [
        # c1 holds the reference. s1 is right; s2 is wrong and from c1; s3 wrong and from c2; s4 invented.
        (noisy([True, False, False, False], [[1], [1], [2], []], [[1]], 2), [0.25, 0.25]),
        (noisy([False], [[1, 2]], [[1]], 2), [1.0, 0.0]),  # both kinds of contexts support it: it counts once
        (noisy([False], [[9]], [[1]], 2), [0.0, 0.0]),  # not a context that was returned
        (noisy([False], [[1]], [[1], []], 2), [1.0, 0.0]),  # no context holds the rest of the reference
        (replace(NOISY, support=SupportTable(UNSUPPORTED_STATEMENTS)), [0.0, 0.0]),
        (ABSTAINS, [NotApplicable] * 2),
        *((replace(NOISY, **{part: None}), [Failed] * 2) for part in ("support", "context_use", "reference_match")),  # type: ignore[arg-type]
        (replace(NOISY, support=JudgementFailure("timed out")), [Failed] * 2),
        (replace(NOISY, support=SupportTable(table("s", [[1]]))), [Failed] * 2),
        (with_match(NOISY, answer_supports=supports("s", [True])), [Failed] * 2),
        (replace(NOISY, context_use=replace(NOISY.context_use, attributions=())), [Failed] * 2),  # type: ignore[type-var]
        (replace(NOISY, context_use=replace(NOISY.context_use, against_reference=False)), [Failed] * 2),  # type: ignore[type-var]
    ],
)
def test_a_wrong_statement_counts_where_its_context_is(judgements: Judgements, expected: list[Expected]) -> None:
    assert noise(judgements) == expected
