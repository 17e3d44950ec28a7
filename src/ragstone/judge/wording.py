"""Whether a statement that the offline judge doesn't find in texts may only be worded
otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ragstone.judge.normal import normalise
from ragstone.judge.offline.evidence import match
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.passage import Passage, Sentence, read_passage

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

_SURE = 0.99
"""Conflicts are as sure as that with a sentence that has all other words of a
statement."""


def may_be_reworded(statement: str, texts: Sequence[str], question: str) -> bool:
    """Whether `texts` have all numbers and names of `statement` that `question` lacks,
    and most of its content words.

    Not where a sentence with the same words contradicts it: then it is denied there, or
    says more or less, or the reverse.
    """
    sentence, asked, passages = _read(statement, texts, question)
    evidence = match(sentence, passages)
    matched = frozenset[str]().union(*evidence.keys_by_text)
    if evidence.conflict >= _SURE or not _has_facts(sentence, matched | asked.key_set):
        return False
    words, known_words = len(sentence.key_set), len(matched)
    is_enough = words - known_words <= OTHER_WORDS + OTHER_SHARE * words
    return is_enough and known_words >= MIN_SHARE * words


def may_be_restated(statement: str, text: str, question: str) -> bool:
    """Whether `text` has all numbers and names of `statement`, and half of the content
    words that the question lacks.

    False if the question has them all: then a word such as "no" may be what counts.
    """
    sentence, asked, passages = _read(statement, (text,), question)
    matched = match(sentence, passages).keys_by_text[0]
    news = sentence.key_set - asked.key_set
    if not news or not _has_facts(sentence, matched):
        return False
    return len(news & matched) >= MIN_SHARE * len(news)


def stands_in_one_sentence(statement: str, texts: Sequence[str]) -> bool:
    """Whether a sentence of `texts` has all content words of `statement`, of which
    there is one at least."""
    sentence, _, passages = _read(statement, texts, "")
    sentences = chain.from_iterable(passage.sentences for passage in passages)
    return bool(sentence.keys) and any(
        sentence.key_set <= near.key_set for near in sentences
    )


def _read(
    statement: str, texts: Sequence[str], question: str
) -> tuple[Sentence, Sentence, list[Passage]]:
    language = guess_language(normalise(" ".join((question, *texts))))
    sentence = Sentence(normalise(statement), language)
    asked = Sentence(normalise(question), language)
    return sentence, asked, [read_passage(text, language) for text in texts]


def _has_facts(sentence: Sentence, keys: frozenset[str]) -> bool:
    """Whether `keys` have all numbers and names of `sentence`."""
    if sentence.language.capitalises_nouns:
        return sentence.numbers <= keys
    return sentence.numbers | sentence.name_keys <= keys
