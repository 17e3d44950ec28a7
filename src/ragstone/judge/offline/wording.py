"""Whether a statement that the offline judge doesn't find in texts may only be worded otherwise."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Sentence, read_passage, read_sentence
from ragstone.judge.offline.tokens import NUMBER, keys_of

MIN_SHARE = 0.5
"""The share of a statement's content words that the texts must have in any case."""
OTHER_WORDS, OTHER_SHARE = 1, 0.25
"""How many content words of a statement may be other ones, and which share of them beside.

Chosen on half of RAGTruth's questions, on which no weights are trained: of the answers with a statement that the judge
doesn't find, 44 of 136 that people call faithful may then be only worded otherwise, and 4 of 75 others. If half of the
words were enough, these would be 99 and 17.
"""


def may_be_reworded(statement: str, texts: Sequence[str], question: str, *, contradicted: bool = False) -> bool:
    """Whether `texts` have all numbers and names of `statement` that `question` lacks, and most of its content words.

    Not where the statement is `contradicted` by a sentence with the same words: then it is denied there, or says more
    or less, or the reverse.
    """
    language = _language(question, texts)
    sentence = read_sentence(normalise(statement), language)
    sentences = _sentences(texts, language)
    known = frozenset[str]().union(*(each.key_set for each in sentences))
    if not _has_numbers_and_names(sentence, known | _content(question, language), language):
        return False
    if contradicted and any(_is_reversed(sentence, each, language) for each in sentences):
        return False
    words, others = len(sentence.key_set), len(sentence.key_set - known)
    return others <= OTHER_WORDS + OTHER_SHARE * words and words - others >= MIN_SHARE * words


def may_be_restated(statement: str, text: str, question: str) -> bool:
    """Whether `text` has all numbers and names of `statement`, and half of the content words that the question lacks.

    False if the question has them all: then a word such as "no" may be what counts.
    """
    language = _language(question, (statement, text))
    sentence = read_sentence(normalise(statement), language)
    known = frozenset[str]().union(*(each.key_set for each in _sentences((text,), language)))
    news = sentence.key_set - _content(question, language)
    if not news or not _has_numbers_and_names(sentence, known, language):
        return False
    return len(news & known) >= MIN_SHARE * len(news)


def stands_in_one_sentence(statement: str, texts: Sequence[str]) -> bool:
    """Whether a sentence of `texts` has all content words of `statement`, of which there is one at least."""
    language = _language("", texts)
    words = read_sentence(normalise(statement), language).key_set
    return bool(words) and any(words <= each.key_set for each in _sentences(texts, language))


def _language(question: str, texts: Sequence[str]) -> Language:
    return guess_language(normalise(" ".join((question, *texts))))


def _sentences(texts: Sequence[str], language: Language) -> list[Sentence]:
    passages = [read_passage(text, language) for text in texts]
    return [passage.sentence(position) for passage in passages for position in range(len(passage.texts))]


def _content(text: str, language: Language) -> frozenset[str]:
    return read_sentence(normalise(text), language).key_set


def _has_numbers_and_names(sentence: Sentence, known: Set[str], language: Language) -> bool:
    if any(key.startswith(NUMBER) and key not in known for key in sentence.key_set):
        return False
    if language.nouns_capitalised:
        return True
    return all(key in known for start, _, keys in sentence.names for key in keys if start > 0)


def _is_reversed(statement: Sentence, sentence: Sentence, language: Language) -> bool:
    """Whether `sentence` has all content words of `statement`, or their opposites, but not the same sense."""
    opposites = keys_of(language.code).opposites
    missing = statement.key_set - sentence.key_set
    if any(key not in opposites or not opposites[key][1] & sentence.key_set for key in missing):
        return False
    negated_alike = statement.negations % 2 == sentence.negations % 2
    if missing:
        return negated_alike
    return not negated_alike or not statement.negations
