"""Detects a question back: an answer that asks its user for what it needs to know,
instead of answering."""

from __future__ import annotations

import re
from functools import cache

from ragstone.judge.offline.lexicon import guess_language, load_data
from ragstone.judge.offline.normal import normalise
from ragstone.judge.sentences import Kind, split_blocks

_LOOK_AT = 20_000
_MAX_SENTENCE = 400
_CLOSING_MARKS = " \"')*_]"
_QUESTION_MARKS = ("?", "？", "؟")
_OPTIONS = frozenset({Kind.ITEM, Kind.ROW, Kind.TABLE_HEAD, Kind.NOTE})


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    """The patterns of one kind in clarification.json, in all languages: an answer may
    be too short to guess its own."""
    return re.compile("|".join(load_data("clarification.json")[kind]), re.IGNORECASE)


def asks_back(answer: str) -> bool:
    """Whether an answer ends in a question to its user, or in a request to name
    something.

    Options in a list after the question, thanks, and what the reply is good for ("Then
    I can look it up.") may follow. Offers of more help ("Anything else?") are no
    question back; nor is the offer to do something ("Shall I cancel it?"), unless the
    answer has nothing besides.
    """
    text = normalise(answer[:_LOOK_AT])
    blocks = split_blocks(text, guess_language(text).code)
    while len(blocks) > 1 and blocks[-1][0] in _OPTIONS:
        blocks.pop()
    sentences: list[str] = []
    for _, block in blocks:
        for sentence in block:
            ending = sentence[-_MAX_SENTENCE:]
            is_aside = _pattern("asides").search(ending) is not None and not _asks(
                ending
            )
            if not is_aside and not _pattern("help").search(ending):
                sentences.append(ending)
    if not sentences or not _asks(sentences[-1]):
        return False
    return _pattern("offers").search(sentences[-1]) is None or all(
        map(_asks, sentences)
    )


def _asks(sentence: str) -> bool:
    is_question = sentence.rstrip(_CLOSING_MARKS).endswith(_QUESTION_MARKS)
    return is_question or _pattern("requests").search(sentence) is not None
