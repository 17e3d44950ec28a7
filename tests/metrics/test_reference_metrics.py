"""Answer correctness, SQuAD's measures, entities, limits and context relevance, edge by edge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextGrades,
    EntityList,
    JudgementFailure,
    JudgementKind,
    Judgements,
    ReferenceMatch,
    SentenceRelevance,
    StatementList,
)
from ragstone.judge.offline.lexicon import read_data
from ragstone.judge.offline.support import digest
from ragstone.metrics.limits import word_count
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.metrics.squad import exact_match, token_f1
from ragstone.system.response import Context, Response
from tests.metrics.judged import matched

SAMPLE = Sample("a", "Who built the lighthouse?", reference="Ada Brown built it in 1871 at Grey Point.")


def score(
    name: str,
    *,
    sample: Sample = SAMPLE,
    answer: str = "Ada Brown.",
    contexts: tuple[str, ...] = (),
    judgements: Judgements | None = None,
    latency_s: float | None = None,
) -> Score:
    (metric,) = select_metrics([name])
    response = Response("a", answer, tuple(Context(text) for text in contexts), latency_s)
    return metric.score(sample, response, judgements or Judgements())


ABSTAINS = Judgements(statements=StatementList((), abstains=True))
UNANSWERABLE = Sample("a", "Who?", answerable=False)


def graded(answer_share: float, reference_share: float) -> Judgements:
    found = matched([True, False], [True])
    assert isinstance(found.reference_match, ReferenceMatch)
    shares = replace(found.reference_match, answer_share=answer_share, reference_share=reference_share)
    return replace(found, reference_match=shares)


@pytest.mark.parametrize(
    ("sample", "judgements", "expected"),
    [
        (SAMPLE, matched([True, False], [True]), 2 / 3),  # the harmonic mean of both directions
        (SAMPLE, matched([True], [True]), 1.0),
        (SAMPLE, matched([False], [False]), 0.0),
        (SAMPLE, graded(0.5, 0.25), 1 / 3),  # the finer shares of a judge that has them
        (SAMPLE, ABSTAINS, 0.0),
        (UNANSWERABLE, ABSTAINS, 1.0),
        (UNANSWERABLE, matched([True], []), 0.0),
    ],
)
def test_answer_correctness(sample: Sample, judgements: Judgements, expected: float) -> None:
    found = score("answer_correctness", sample=sample, judgements=judgements)
    assert isinstance(found, Scored)
    assert found.value == pytest.approx(expected)


def test_answer_correctness_needs_a_reference_and_complete_verdicts() -> None:
    (metric,) = select_metrics(["answer_correctness"])
    assert metric.needs(Sample("a", "Who?")) == frozenset()
    assert metric.needs(SAMPLE) == {JudgementKind.STATEMENTS, JudgementKind.REFERENCE_MATCH}
    assert isinstance(score("answer_correctness", sample=Sample("a", "Who?")), NotApplicable)
    whole = matched([True, True], [True])
    assert isinstance(whole.reference_match, ReferenceMatch)
    short = replace(whole.reference_match, answer_supports=whole.reference_match.answer_supports[:1])
    assert isinstance(score("answer_correctness", judgements=replace(whole, reference_match=short)), Failed)


@pytest.mark.parametrize(
    ("answer", "reference", "em", "f1"),
    [
        ("The  Cat!", "cat", 1.0, 1.0),
        ("a black cat", "the cat", 0.0, 2 / 3),
        ("dog", "cat", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("", "cat", 0.0, 0.0),
        ("the the", "an", 1.0, 1.0),
        ("cat cat", "cat", 0.0, 2 / 3),
        ("A.B, an  The-Answer", "ab theanswer", 1.0, 1.0),  # articles go after punctuation
    ],
)
def test_exact_match_and_token_f1_are_those_of_squad(answer: str, reference: str, em: float, f1: float) -> None:
    assert exact_match(answer, reference) == em
    assert token_f1(answer, reference) == pytest.approx(f1)


def test_entities_of_the_reference_are_looked_for_in_the_contexts() -> None:
    contexts = ("In 1871 a tower rose here.", "Brown, Ada, was its first keeper.")
    assert score("context_entity_recall", contexts=contexts) == Scored(2 / 3)
    assert score("context_entity_recall") == Scored(0.0, note="no contexts were returned")
    nothing_named = Sample("a", "How?", reference="By hand, slowly and with care.")
    assert isinstance(score("context_entity_recall", sample=nothing_named, contexts=contexts), NotApplicable)


def recalled(reference: str, *contexts: str, entities: EntityList | JudgementFailure | None = None) -> Score:
    sample = Sample("a", "Who?", reference=reference)
    return score("context_entity_recall", sample=sample, contexts=contexts, judgements=Judgements(entities=entities))


TAJ = (
    "The Taj Mahal is a white mausoleum on the river Yamuna in Agra. It was commissioned in 1631 by Shah Jahan for "
    "Mumtaz Mahal."
)


FLIGHT = "You take the Flynas Flight to Riyadh."


@pytest.mark.parametrize(
    ("reference", "contexts", "share"),
    [
        ("Einstein was born in Ulm, and moved to Bern and Princeton.", ["Einstein played the violin."], 1 / 4),
        ("Paris hosts it, after London, Rome and Tokyo.", ["The games of Paris are over."], 1 / 4),
        ("Paris, London, Rome and Tokyo took part.", ["Paris was there."], 1 / 4),
        (TAJ, ["The Taj Mahal is a monument in India, and a site of UNESCO."], 1 / 6),
        (TAJ, ["Shah Jahan had the Taj Mahal in Agra built for Mumtaz Mahal."], 4 / 6),
        ("Delivery takes 3 days.", ["Free delivery within 5 days."], 0.0),
        ("Boats leave at 9:30.", ["Boats leave at 9:30."], 1.0),
        ("It leaves at 10:00.", ["Departures: 10:00 and 12:30."], 1.0),
        ("It leaves at 10:00.", ["Gate 10 opens.", "In 00 minutes."], 0.0),
        # A common noun with a capital is no part of a name.
        (FLIGHT, ["Flynas goes to Riyadh."], 0.5),
        (FLIGHT, ["Flynas goes to Riyadh.", "Every flight is full."], 1.0),
        ("Flynas launched Flight 123 to Riyadh at 10:00 AM.", ["Flynas is an airline."], 0.25),
        ("Flynas operates Flight 123 to Riyadh at 10:00 AM.", ["Flight 321 leaves for Riyadh."], 0.25),
    ],
)
def test_which_entities_of_the_reference_are_in_the_contexts(reference: str, contexts: list[str], share: float) -> None:
    assert recalled(reference, *contexts) == Scored(share)


def test_in_german_nouns_are_no_names() -> None:
    german = "Der Vertrag mit der Deutschen Bahn und der DB endet im Mai, und die Kündigung geht an Anna Müller."
    assert recalled(german, "Deutsche Bahn: Anna Müller ist bei der DB zuständig.") == Scored(1.0)
    assert isinstance(recalled("Die Kündigung braucht eine Frist.", "Nichts."), NotApplicable)


def test_the_best_of_several_references_counts_by_writing() -> None:
    sample = Sample(
        "a", "Who?", reference="Ask Ada Brown.", other_references=("Ask the clerk of Grey Point.", "By hand.")
    )
    assert score("context_entity_recall", sample=sample, contexts=("It is at Grey Point.",)) == Scored(1.0)


def test_entities_that_the_judge_listed_are_looked_for_and_the_missing_ones_named() -> None:
    listed = EntityList(("Flynas", "10:00", "駅前", "SAR 450"))
    found = recalled("…", "Flynas at 10:00.", "From 駅前 station.", entities=listed)
    assert found == Scored(0.75, note="3 of 4 entities; not: SAR 450")
    assert recalled("…", entities=listed) == Scored(0.0, note="no contexts were returned")
    assert isinstance(recalled("Ada Brown.", "Ada Brown.", entities=EntityList(())), NotApplicable)
    assert recalled("Ada Brown.", "Ada Brown.", entities=JudgementFailure("cut off")) == Failed("judge", "cut off")


def test_limits_score_one_within_and_zero_beyond() -> None:
    assert score("latency_within@2", latency_s=2.0) == Scored(1.0, note="2")
    assert score("latency_within@2", latency_s=2.5) == Scored(0.0, note="2.5")
    assert isinstance(score("latency_within@2"), NotApplicable)
    assert score("words_within@3", answer="one two three") == Scored(1.0, note="3")
    assert score("words_within@2", answer="one two three") == Scored(0.0, note="3")
    assert score("contexts_within@3", contexts=("one two", "three four")) == Scored(0.0, note="4")
    assert (word_count("今日は天気"), word_count("plain words")) == (3, 2)


def relevance(*counts: SentenceRelevance) -> Score:
    grades = Judgements(context_relevance=ContextGrades(counts))
    return score("context_relevance", contexts=("x", "y"), judgements=grades)


def test_context_relevance_is_relevant_sentences_over_all_sentences() -> None:
    assert relevance(SentenceRelevance("c1", 1, 3), SentenceRelevance("c2", 1, 1)) == Scored(0.5)
    expected = relevance(SentenceRelevance("c1", 1, 4, 0.8, 0.5), SentenceRelevance("c2", 0, 6, 0.5, 0.2))
    assert isinstance(expected, Scored)
    assert expected.value == pytest.approx((0.8 * 0.5 * 4 + 0.5 * 0.2 * 6) / 10)
    assert isinstance(relevance(SentenceRelevance("c1", 1, 3)), Failed)
    assert isinstance(relevance(SentenceRelevance("c1", 4, 3), SentenceRelevance("c2", 1, 1)), Failed)
    failed = Judgements(context_relevance=JudgementFailure("cut off"))
    assert score("context_relevance", contexts=("x",), judgements=failed) == Failed("judge", "cut off")
    none = score("context_relevance")
    assert isinstance(none, Scored)
    assert none.value == 0.0
    assert isinstance(score("context_relevance", sample=UNANSWERABLE), NotApplicable)


def test_the_version_of_what_uses_the_offline_judges_internals_follows_them() -> None:
    (metric,) = select_metrics(["context_entity_recall"])
    assert metric.info.version.endswith(digest())


@pytest.mark.parametrize("file", ["weights.json", "lexicon.json", "wordforms.json"])
def test_the_digest_changes_with_each_file_of_the_offline_judge(file: str) -> None:
    assert digest(lambda name: read_data(name) + (" " if name == file else "")) != digest()
