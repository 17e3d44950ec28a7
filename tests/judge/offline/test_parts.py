"""The parts of the offline judge, one by one."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.judge.judgements import Statement, Verdict
from ragstone.judge.normal import normalise
from ragstone.judge.offline import OfflineJudge, relevance, statement_evidence, text_agreement
from ragstone.judge.offline.conflicts import KINDS
from ragstone.judge.offline.lexicon import guess_language, language, load_data
from ragstone.judge.offline.model import load_model
from ragstone.judge.offline.numerals import plain_number
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.statements import split_statements
from ragstone.judge.offline.support import ALL_SUPPORTED_FEATURES
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.judge.reliability import grade
from ragstone.system.response import Context
from tests.judge.offline.cases import CASES

EN = language("en")
PAGE = (
    "The lighthouse on Grey Point was built in 1871 by the engineer Ada Brown. It is 34 metres tall. "
    "No keeper has lived there since March 1984. Sales of tickets rose by 12% to 3.4 million dollars in 2022."
)


def verdict(statement: str, page: str = PAGE) -> Verdict:
    table = asyncio.run(OfflineJudge().support([Context(page)], [Statement("s1", statement)], call=Call("a")))
    return table.supports[0].verdict


@pytest.mark.parametrize(("statement", "expected"), CASES["verdicts"])
def test_verdicts_on_a_page(statement: str, expected: str) -> None:
    assert verdict(statement) == expected


@pytest.mark.parametrize(("page", "right", "wrong"), CASES["pages"])
def test_other_languages_and_scripts_are_told_apart(page: str, right: str, wrong: str) -> None:
    assert verdict(right, page) is Verdict.SUPPORTED
    assert verdict(wrong, page) is not Verdict.SUPPORTED


@pytest.mark.parametrize(("page", "statement", "expected"), CASES["conflicts"])
def test_what_contradicts_a_page(page: str, statement: str, expected: str) -> None:
    assert verdict(statement, page) == expected


@pytest.mark.parametrize(
    ("text", "value"), [("1.200,50", "1200.5"), ("1,200.50", "1200.5"), ("007", "7"), ("3.11.7", "3.11.7")]
)
def test_numbers_are_compared_by_value(text: str, value: str) -> None:
    assert plain_number(text) == value


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("light\u200bhouse", "lighthouse"),
        ("lighth\u043euse", "lighthouse"),  # a Cyrillic o
        ("\u202emixed\u202c", "mixed"),
        ("ﬁne “quotes” – ok", 'fine "quotes" - ok'),
        ("١٨٧١", "1871"),
        ("\ud800", "?"),
    ],
)
def test_invisible_and_lookalike_characters_do_not_hide_a_word(text: str, plain: str) -> None:
    assert normalise(text) == plain


@pytest.mark.parametrize(
    ("code", "first", "second"),
    [
        ("en", "twelve boats", "12 boats"),
        ("en", "$3.4 million", "3,400,000 $"),
        ("en", "the 19th boat", "19 boats"),
        ("en", "wrote", "written"),
        ("en", "constructed", "built"),
        ("fr", "l'eau", "eau"),
    ],
)
def test_the_same_words_and_numbers_share_a_key(code: str, first: str, second: str) -> None:
    assert Sentence(first, language(code)).key_set == Sentence(second, language(code)).key_set != frozenset()


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        (
            "The lighthouse was built by Ada Brown, and the harbour was finished by her brother Tom Brown.",
            ["The lighthouse was built by Ada Brown", "and the harbour was finished by her brother Tom Brown."],
        ),
        ("Bread, butter, and jam are served in the old kitchen.", None),
        ("It was built in 1871. Would you like to know more?", ["It was built in 1871."]),
        ("Which lighthouse do you mean?", None),
        ("The institute was led by Dr. Ada Brown.", None),
    ],
)
def test_the_statements_of_a_text(text: str, statements: list[str] | None) -> None:
    assert [one.text for one in split_statements(text, EN)] == (statements or [text])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Where is the lighthouse and who built it?", "en"),
        ("灯台はどこにありますか", "ja"),
        ("灯塔在哪里", "zh"),
        ("", "en"),
    ],
)
def test_the_language_is_told_by_script_and_function_words(text: str, code: str) -> None:
    assert guess_language(text).code == code


@pytest.mark.parametrize("answer", ["Yes.", "It is.", "?!", "🙂", "The. A. And?"])
def test_too_little_text_is_not_applicable_rather_than_guessed(answer: str) -> None:
    with pytest.raises(JudgementFailed) as caught:
        asyncio.run(OfflineJudge().statements("Is it?", answer, call=Call("a")))
    assert caught.value.not_applicable


def test_the_weights_are_small_monotone_and_fit_the_code() -> None:
    models = {
        "support": statement_evidence.FEATURES,
        "relevance": relevance.FEATURES,
        "answering": relevance.ANSWER_FEATURES,
        "use": text_agreement.USE_FEATURES,
        "whole": ALL_SUPPORTED_FEATURES,
    }
    for name, features in models.items():
        model = load_model(name, features)
        for feature, weight in zip(features, model.weights, strict=True):
            assert math.isfinite(weight)
            assert weight <= 0 if feature in KINDS else weight >= 0
        assert 0 < model.threshold < 1
    assert len(json.dumps(load_data("weights.json"))) < 3_000
    with pytest.raises(ValueError, match="of other features"):
        load_model("support", ("another",))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_features_of_any_text_are_shares(text: str) -> None:
    from ragstone.judge.offline.passage import read_passage
    from ragstone.judge.offline.statement_evidence import match

    for code in ("en", "ja"):
        statement = Sentence(normalise(text), language(code))
        found = match(statement, [read_passage(PAGE + text, language(code))])
        assert len(found.features) == len(statement_evidence.FEATURES)
        assert all(0 <= value <= 1 + 1e-9 for value in found.features)


LETTERS = st.lists(st.text("abcd", min_size=1, max_size=5).map(" ".join), min_size=1, max_size=8)
WORD_BY_LETTER = {"a": "apple", "b": "bridge", "c": "cloud", "d": "desk", "e": "engine", "f": "forest"}


def to_words(text: str) -> str:
    """A word for each letter of `text`; the letters are "a" to "f"."""
    return "".join(WORD_BY_LETTER.get(letter, " ") for letter in text)


@settings(max_examples=200, deadline=None)
@given(st.lists(LETTERS, min_size=1, max_size=4), st.text("abcdef", min_size=1, max_size=6))
def test_shares_are_those_of_trying_all_sentences(contexts: list[list[str]], statement: str) -> None:
    statement_words = {WORD_BY_LETTER[letter] for letter in statement}
    texts = [[to_words(text) for text in context] for context in contexts]
    found = statement_evidence.match(
        Sentence(" ".join(WORD_BY_LETTER[letter] for letter in statement), EN),
        [Passage([Sentence(text, EN) for text in context], EN) for context in texts],
    )
    counts_by_window = [
        [
            len(statement_words.intersection(" ".join(context[start : start + 3]).split()))
            for start in range(len(context))
        ]
        for context in texts
    ]
    assert found.window_shares == [max(counts) / len(statement_words) for counts in counts_by_window]
    assert [len(keys) for keys in found.keys_by_text] == [
        len(statement_words.intersection(" ".join(context).split())) for context in texts
    ]


@pytest.mark.parametrize("metric", ["faithfulness", "answer_relevancy", "context_recall", "context_precision"])
def test_every_headline_metric_has_a_grade_from_evidence(metric: str) -> None:
    found = grade(metric)
    assert found is not None
    assert found.letter in "ABCD"
    assert all(row.low <= row.value <= row.high for row in found.evidence)
    assert found.letter == max(row.letter for row in found.evidence), "the worst data set decides"
    assert grade("ndcg@10") is None
