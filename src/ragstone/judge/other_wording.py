"""Decides whether a statement that the offline judge doesn't find in texts may be there
in other words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.passage import Passage, Sentence, read_passage
from ragstone.judge.offline.statement_evidence import match

MIN_SHARE = 0.5
"""The share of a statement's content words that the texts must have."""
MAX_OTHER_WORDS = 1
MAX_OTHER_SHARE = 0.25
"""How many content words of a statement the texts may lack: so many, and this share of
them.

Chosen on half of RAGTruth's questions, on which no weights are trained. Of the answers
with a statement that the judge doesn't find, 44 of 136 that people call faithful count
as possibly reworded, and 4 of 75 others. If half of the words were enough, these would
be 99 and 17.
"""

_MIN_CERTAIN_CONFLICT = 0.99
"""The certainty of a conflict with a sentence that has all other words of a
statement."""


class _ParsedTexts(Struct, frozen=True):
    """A statement, a question and texts, as the offline judge reads them."""

    statement: Sentence
    question: Sentence
    passages: list[Passage]


def may_be_reworded(statement: str, texts: Sequence[str], question: str) -> bool:
    """Whether `texts` have all numbers and names of `statement` that `question` lacks,
    and most of its content words.

    False if a sentence with the same words contradicts it, by a negation, by another
    degree or by the reverse order.
    """
    parsed = _parse(statement, texts, question)
    evidence = match(parsed.statement, parsed.passages)
    matched = frozenset[str]().union(*evidence.keys_by_text)
    if evidence.conflict >= _MIN_CERTAIN_CONFLICT:
        return False
    if not _include_facts(matched | parsed.question.key_set, parsed.statement):
        return False
    word_count = len(parsed.statement.key_set)
    other_words = word_count - len(matched)
    is_close = other_words <= MAX_OTHER_WORDS + MAX_OTHER_SHARE * word_count
    return is_close and len(matched) >= MIN_SHARE * word_count


def may_be_restated(statement: str, text: str, question: str) -> bool:
    """Whether `text` has all numbers and names of `statement`, and half of the content
    words that the question lacks.

    False if the question has them all: then a word such as "no" may decide.
    """
    parsed = _parse(statement, (text,), question)
    matched = match(parsed.statement, parsed.passages).keys_by_text[0]
    new_words = parsed.statement.key_set - parsed.question.key_set
    if not new_words or not _include_facts(matched, parsed.statement):
        return False
    return len(new_words & matched) >= MIN_SHARE * len(new_words)


def stands_in_one_sentence(statement: str, texts: Sequence[str]) -> bool:
    """Whether a single sentence of `texts` has all content words of `statement`; False
    if that has none."""
    parsed = _parse(statement, texts, question="")
    words = parsed.statement.key_set
    sentences = chain.from_iterable(passage.sentences for passage in parsed.passages)
    return bool(words) and any(words <= sentence.key_set for sentence in sentences)


def _parse(statement: str, texts: Sequence[str], question: str) -> _ParsedTexts:
    language = guess_language(normalise(" ".join((question, *texts))))
    return _ParsedTexts(
        statement=Sentence(normalise(statement), language),
        question=Sentence(normalise(question), language),
        passages=[read_passage(text, language) for text in texts],
    )


def _include_facts(words: frozenset[str], statement: Sentence) -> bool:
    """Whether `words` include all numbers and names of `statement`."""
    if statement.language.capitalises_nouns:
        # Names can't be told from other nouns.
        return statement.numbers <= words
    return statement.numbers | statement.name_keys <= words
