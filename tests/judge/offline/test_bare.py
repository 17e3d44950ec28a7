"""A bare answer is judged with its question; correctness sees what contradicts a reference; numbers have a value."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.numerals import plain_numbers
from ragstone.judge.protocol import Call
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import Scored
from ragstone.system.response import Context, Response


def score(metric: str, question: str, answer: str, reference: str, context: str) -> float:
    sample = Sample("a", question, reference=reference)
    response = Response("a", answer, (Context(context),))
    needs = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT, JudgementKind.REFERENCE_MATCH})
    judgements = asyncio.run(collect_judgements(OfflineJudge(), sample, response, needs, Call("a")))
    found = METRICS[metric].score(sample, response, judgements)
    assert isinstance(found, Scored), found
    return found.value


QUESTIONS = [
    ("Are dogs allowed in the museum?", "No.", "Yes.", "Dogs are not allowed in the museum."),
    ("Is the pool open in winter?", "Yes.", "No.", "The pool is open in winter."),
    ("True or false: the bridge opened in 1932.", "True.", "False.", "The bridge was opened in 1932."),
    ("Where is the office? A) Paris B) Rome", "A", "B", "The office is in Paris."),
    ("Sind Hunde im Museum erlaubt?", "Nein.", "Ja.", "Hunde sind im Museum nicht erlaubt."),
    ("Les chiens sont-ils autorisés au musée ?", "Non.", "Oui.", "Les chiens ne sont pas autorisés au musée."),
]


@pytest.mark.parametrize(("question", "right", "wrong", "context"), QUESTIONS)
def test_a_flipped_bare_answer_is_neither_faithful_nor_correct(
    question: str, right: str, wrong: str, context: str
) -> None:
    assert score("faithfulness", question, right, right, context) > 0.5
    assert score("faithfulness", question, wrong, right, context) < 0.2
    assert score("answer_correctness", question, right, right, context) == 1.0
    assert score("answer_correctness", question, wrong, right, context) == 0.0


def test_a_bare_answer_is_compared_with_a_reference_that_is_a_sentence() -> None:
    question, reference = "Are dogs allowed in the museum?", "Dogs are not allowed."
    assert score("answer_correctness", question, "No.", reference, reference) > 0.7
    assert score("answer_correctness", question, "Yes.", reference, reference) == 0.0
    assert score("answer_correctness", question, reference, "No.", reference) > 0.7


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Guests may bring dogs.", "Guests may not bring dogs."),
        ("It must be below 5 degrees.", "It must be above 5 degrees."),
        ("Alice reports to Bob.", "Bob reports to Alice."),
        ("The minimum is \u22125 degrees.", "The minimum is 5 degrees."),
        ("The bag may weigh 12 kg.", "The bag may weigh 12 lb."),
        ("It is 5 degrees.", "It is 6 degrees."),
    ],
)
def test_what_contradicts_the_reference_is_not_correct(right: str, wrong: str) -> None:
    assert score("answer_correctness", "What is the rule?", right, right, right) == 1.0
    assert score("answer_correctness", "What is the rule?", wrong, right, right) < 0.2
    assert score("faithfulness", "What is the rule?", right, right, right) > 0.9
    assert score("faithfulness", "What is the rule?", wrong, right, right) < 0.8


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("There are twenty-four rooms.", "There are 24 rooms."),
        ("The warranty lasts two years.", "The warranty lasts 24 months."),
        ("The gate closes at 3 pm.", "The gate closes at 15:00."),
        ("The limit is 1e3 requests.", "The limit is 1,000 requests."),
    ],
)
def test_the_same_number_written_otherwise_is_the_same(first: str, second: str) -> None:
    for statement, context in ((first, second), (second, first)):
        assert score("faithfulness", "What is it?", statement, context, context) > 0.9
        assert score("answer_correctness", "What is it?", statement, context, context) == 1.0


def relevancy(question: str, answer: str, reference: str, context: str) -> float:
    work = OfflineJudge().relevancy(question, answer, [Context(context)], [reference], call=Call("a"))
    return asyncio.run(work).similarities[0]


def test_the_letter_of_an_option_is_compared_where_the_question_does_not_say_what_it_stands_for() -> None:
    question, context = "Which option applies, A, B, C or D?", "Option C applies to guests."
    assert score("answer_correctness", question, "C", "C", context) == 1.0
    assert score("answer_correctness", question, "B", "C", context) == 0.0
    assert relevancy(question, "C", "C", context) == 1.0


@pytest.mark.parametrize(
    ("answer", "reference", "context"),
    [
        ("\u00bd", "0.5", "The share is 0.5."),
        ("0.2", "20 %", "The share is 20 %."),
        ("It lasts two years.", "24 months", "It lasts 24 months."),
    ],
)
def test_an_answer_in_other_words_for_the_same_amount_is_faithful_and_relevant(
    answer: str, reference: str, context: str
) -> None:
    question = "What must it be, and how long does it last?"
    assert score("faithfulness", question, answer, reference, context) > 0.8
    assert relevancy(question, answer, reference, context) > 0.5


def test_an_answer_of_nothing_but_nothing_is_judged() -> None:
    reference = "You need to bring nothing."
    texts = ("What must I bring?", "Please have ready nothing.", reference, reference)
    assert score("faithfulness", *texts) > 0.8
    assert score("answer_correctness", *texts) > 0.8
    assert relevancy(*texts) > 0.5


def test_short_texts_are_read_in_the_language_of_both() -> None:
    texts = ("\u00bfSe admiten perros?", "No se admiten perros.", "Se admiten perros.", "Se admiten perros.")
    assert score("faithfulness", *texts) < 0.5
    assert score("answer_correctness", *texts) == 0.0


@pytest.mark.parametrize(
    ("code", "text", "plain"),
    [
        ("en", "minus 5, twenty-four, half an hour", "-5, 24, 0.5 hour"),
        ("de", "um 15 Uhr, 2 Millionen", "um 15:00, 2000000"),
        ("fr", "vingt-deux ans, moins 5", "22 ans, -5"),
        ("es", "treinta y dos, 3 de la tarde", "32, 15:00"),
        ("it", "ventidue", "ventidue"),
    ],
)
def test_numbers_become_digits_in_the_languages_with_word_lists(code: str, text: str, plain: str) -> None:
    assert plain_numbers(text, language(code)) == plain
