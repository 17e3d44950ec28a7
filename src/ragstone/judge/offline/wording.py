"""Whether a statement that the offline judge doesn't find in texts may only be worded
otherwise."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Sentence, read_passage
from ragstone.judge.offline.tokens import keys_of

MIN_SHARE = 0.5
"""The share of a statement's content words that the texts must have in any case."""
OTHER_WORDS, OTHER_SHARE = 1, 0.25
"""How many content words of a statement may be other ones, and which share of them
beside.

Chosen on half of RAGTruth's questions, on which no weights are trained: of the answers
with a statement that the judge doesn't find, 44 of 136 that people call faithful may
then be only worded otherwise, and 4 of 75 others. If half of the words were enough,
these would be 99 and 17.
"""


def may_be_reworded(
    statement: str, texts: Sequence[str], question: str, *, contradicted: bool = False
) -> bool:
    """Whether `texts` have all numbers and names of `statement` that `question` lacks,
    and most of its content words.

    Not where the statement is `contradicted` by a sentence with the same words: then it
    is denied there, or says more or less, or the reverse.
    """
    language = _language(question, texts)
    sentence, question_sentence = (
        Sentence(normalise(statement), language),
        Sentence(normalise(question), language),
    )
    sentences = _sentences(texts, language)
    context_keys = _keys(sentences)
    if not _has_numbers_and_names(sentence, context_keys | question_sentence.key_set):
        return False
    if contradicted and any(_is_reversed(sentence, near) for near in sentences):
        return False
    words, unknown_words = len(sentence.key_set), len(sentence.key_set - context_keys)
    return (
        unknown_words <= OTHER_WORDS + OTHER_SHARE * words
        and words - unknown_words >= MIN_SHARE * words
    )


def may_be_restated(statement: str, text: str, question: str) -> bool:
    """Whether `text` has all numbers and names of `statement`, and half of the content
    words that the question lacks.

    False if the question has them all: then a word such as "no" may be what counts.
    """
    language = _language(question, (statement, text))
    sentence, question_sentence = (
        Sentence(normalise(statement), language),
        Sentence(normalise(question), language),
    )
    text_keys = _keys(_sentences((text,), language))
    news = sentence.key_set - question_sentence.key_set
    return (
        bool(news)
        and _has_numbers_and_names(sentence, text_keys)
        and len(news & text_keys) >= MIN_SHARE * len(news)
    )


def stands_in_one_sentence(statement: str, texts: Sequence[str]) -> bool:
    """Whether a sentence of `texts` has all content words of `statement`, of which
    there is one at least."""
    language = _language("", texts)
    words = Sentence(normalise(statement), language).key_set
    return bool(words) and any(
        words <= sentence.key_set for sentence in _sentences(texts, language)
    )


def _language(question: str, texts: Sequence[str]) -> Language:
    return guess_language(normalise(" ".join((question, *texts))))


def _sentences(texts: Sequence[str], language: Language) -> list[Sentence]:
    return [
        sentence
        for text in texts
        for sentence in read_passage(text, language).sentences
    ]


def _keys(sentences: Sequence[Sentence]) -> frozenset[str]:
    return frozenset[str]().union(*(sentence.key_set for sentence in sentences))


def _has_numbers_and_names(sentence: Sentence, text_keys: Set[str]) -> bool:
    if not sentence.numbers <= text_keys:
        return False
    if sentence.language.nouns_capitalised:
        return True
    return all(text_keys >= set(keys) for start, _, keys in sentence.names if start > 0)


def _is_reversed(statement: Sentence, sentence: Sentence) -> bool:
    """Whether `sentence` has all content words of `statement`, or their opposites, but
    not the same sense."""
    opposites = keys_of(statement.language.code).opposites
    missing = statement.key_set - sentence.key_set
    if any(
        key not in opposites or not opposites[key][1] & sentence.key_set
        for key in missing
    ):
        return False
    negated_alike = statement.negations % 2 == sentence.negations % 2
    if missing:
        return negated_alike
    return not negated_alike or not statement.negations
