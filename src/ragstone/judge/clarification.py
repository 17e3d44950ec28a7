"""Detects a question back: an answer that asks its user for what it needs to know,
instead of answering."""

from __future__ import annotations

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.phrases import SHARED, has_phrase
from ragstone.judge.sentences import Kind, split_blocks

_LOOK_AT = 20_000
_MAX_SENTENCE = 400
_CLOSING_MARKS = " \"')*_]"
_QUESTION_MARKS = ("?", "？", "؟")
_OPTIONS = (Kind.ITEM, Kind.ROW, Kind.TABLE_HEAD, Kind.NOTE)


def asks_back(answer: str) -> bool:
    """Whether an answer ends in a question to its user, or in a request to name
    something.

    Options in a list after the question, thanks, and what the reply is good for ("Then
    I can look it up.") may follow. Offers of more help ("Anything else?") are no
    question back; nor is the offer to do something ("Shall I cancel it?"), unless the
    answer says nothing besides.
    """
    text = normalise(answer[:_LOOK_AT])
    blocks = split_blocks(text, guess_language(text).code)
    while len(blocks) > 1 and blocks[-1][0] in _OPTIONS:
        blocks.pop()
    sentences: list[str] = []
    for _, block in blocks:
        endings = [sentence[-_MAX_SENTENCE:] for sentence in block]
        sentences += [ending for ending in endings if not _is_aside(ending)]
    if not sentences or not _asks(sentences[-1]):
        return False
    offers = _has("offers", sentences[-1])
    return not offers or all(map(_asks, sentences))


def _is_aside(sentence: str) -> bool:
    """Whether a sentence only thanks, closes, or offers more help."""
    if _has("help", sentence):
        return True
    return _has("closings", sentence) and not _asks(sentence)


def _asks(sentence: str) -> bool:
    is_question = sentence.rstrip(_CLOSING_MARKS).endswith(_QUESTION_MARKS)
    return is_question or _has("requests", sentence)


def _has(kind: str, sentence: str) -> bool:
    """Whether `sentence` has a phrase of a kind in any language: an answer may be too
    short to guess its own."""
    return has_phrase(kind, SHARED, sentence)
