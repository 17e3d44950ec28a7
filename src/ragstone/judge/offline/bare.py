"""Bare answers (yes or no, true or false, the letter of an option), which say something
only together with their question."""

from __future__ import annotations

import re

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.phrases import (
    SHARED,
    first_match,
    matches_whole,
    without_phrases,
)

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_OPTION = re.compile(r"(?:^|[\s(])\(?([A-H])[).:]\s+")
_MAX_CHARACTERS = 80
"""A longer answer is not bare."""
_OPENING_MARKS = " \"'*_(-"
_MARKS_AROUND_OPTION = " .,;!\n"


def opening_word(text: str) -> str | None:
    """Which of "yes" and "no" `text` opens with, in any language; None if neither."""
    word = _WORD.match(text[:_MAX_CHARACTERS].lstrip(_OPENING_MARKS))
    for kind in ("yes", "no"):
        if word and matches_whole(kind, SHARED, word[0]):
            return kind
    return None


def read_bare(answer: str, language: Language) -> str | None:
    """What normalised `answer` says if it is bare: "yes" ("Yes, they are."), "no", or
    the letter of an option ("B)"); None if it is not bare."""
    text = answer.strip()
    letter = first_match("letter", SHARED, text)
    if letter:
        return letter[1].upper()
    if len(text) > _MAX_CHARACTERS or any(character.isdigit() for character in text):
        return None
    words_after = " ".join(_WORD.findall(text.lower())[1:])
    has_content = bool(Sentence(words_after, language).keys)
    return None if has_content else opening_word(text)


def options(question: str) -> dict[str, str]:
    """The options of a normalised `question`, by their letters: "A) Paris B) Rome"."""
    # Letters and texts take turns.
    _, *parts = _OPTION.split(question)
    texts = [part.strip(_MARKS_AROUND_OPTION) for part in parts[1::2]]
    return dict(zip(parts[::2], texts, strict=True))


def choice(text: str) -> str | None:
    """What normalised `text` chooses: the letter of an option ("B", "B) Rome"), or the
    "yes" or "no" that it opens with; None if it chooses nothing."""
    text = text.strip()
    letter = first_match("letter", SHARED, text) or _OPTION.match(text)
    if letter:
        return letter[1].upper()
    return opening_word(text)


def full_statement(question: str, answer: str, language: Language) -> str | None:
    """The statement that a bare `answer` makes with its `question`, both normalised;
    None if the answer isn't bare, or the question has no content word."""
    bare = read_bare(answer, language)
    if bare is None or not Sentence(question, language).keys:
        return None
    if bare in ("yes", "no"):
        # Without "True or false:".
        assertion = without_phrases("announced", SHARED, question.strip())
        return f"{assertion.rstrip('.?')}? {answer.strip()}"
    option = options(question).get(bare, answer.strip())
    return f"{_OPTION.split(question)[0].strip()} {option}"


def read_statement(text: str, language: Language) -> Sentence:
    """Normalised `text` as a statement. A question followed by a bare yes or no says
    what is asked, or the opposite of it."""
    question, mark, answer = text.rpartition("?")
    bare = read_bare(answer, language) if mark else None
    if bare in ("yes", "no"):
        return Sentence(f"{question}?", language, is_denied=bare == "no")
    return Sentence(text, language)
