"""Detects answers that ask the user for more information instead of answering."""

from __future__ import annotations

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.phrases import SHARED, has_phrase
from ragstone.judge.sentences import Kind, split_blocks

_MAX_ANSWER_CHARACTERS = 20_000
_MAX_SENTENCE_CHARACTERS = 400
_CLOSING_MARKS = " \"')*_]"
_QUESTION_MARKS = ("?", "？", "؟")
_KINDS_AFTER_QUESTION = (Kind.ITEM, Kind.ROW, Kind.TABLE_HEAD, Kind.NOTE)
"""The kinds of blocks that may follow the question, such as a list of options."""


def asks_back(answer: str) -> bool:
    """Whether an answer ends in a question to its user, or in a request to name
    something.

    A list of options, thanks, and why the reply is needed ("Then I can look it up.")
    may follow. An offer of more help ("Anything else?") does not count, and an offer to
    do something ("Shall I cancel it?") only if the answer says nothing else.
    """
    text = normalise(answer[:_MAX_ANSWER_CHARACTERS])
    blocks = split_blocks(text, guess_language(text).code)
    while len(blocks) > 1 and blocks[-1][0] in _KINDS_AFTER_QUESTION:
        blocks.pop()
    sentences: list[str] = []
    for _, block_sentences in blocks:
        endings = [sentence[-_MAX_SENTENCE_CHARACTERS:] for sentence in block_sentences]
        sentences += [ending for ending in endings if not _is_aside(ending)]
    if not sentences or not _asks(sentences[-1]):
        return False
    is_offer = _has_phrase("offers", sentences[-1])
    return not is_offer or all(map(_asks, sentences))


def _is_aside(sentence: str) -> bool:
    """Whether a sentence only thanks, closes, or offers more help."""
    if _has_phrase("help", sentence):
        return True
    return _has_phrase("closings", sentence) and not _asks(sentence)


def _asks(sentence: str) -> bool:
    """Whether a sentence is a question or a request."""
    is_question = sentence.rstrip(_CLOSING_MARKS).endswith(_QUESTION_MARKS)
    return is_question or _has_phrase("requests", sentence)


def _has_phrase(kind: str, sentence: str) -> bool:
    """Whether `sentence` has a phrase of a kind in any language, because an answer may
    be too short to guess its language."""
    return has_phrase(kind, SHARED, sentence)
