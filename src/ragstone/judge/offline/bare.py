"""Bare answers: yes or no, true or false, the letter of an option, which say something
only with their question."""

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
_MAX_LENGTH = 80
_OPENING_MARKS = " \"'*_(-"
_STOPS = " .,;!\n"


def opening(text: str) -> str | None:
    """Whether `text` opens with a yes or a no; None if with neither."""
    word = _WORD.match(text[:_MAX_LENGTH].lstrip(_OPENING_MARKS))
    for kind in ("yes", "no"):
        if word and matches_whole(kind, SHARED, word[0]):
            return kind
    return None


def read_bare(answer: str, language: Language) -> str | None:
    """What normalised `answer` says if it is bare: "yes" ("Yes, they are."), "no", or
    the letter of an option ("B)"); None if it says more."""
    text = answer.strip()
    letter = first_match("letter", SHARED, text)
    if letter:
        return letter[1].upper()
    if len(text) > _MAX_LENGTH or any(character.isdigit() for character in text):
        return None
    more = " ".join(_WORD.findall(text.lower())[1:])
    return None if Sentence(more, language).keys else opening(text)


def options(question: str) -> dict[str, str]:
    """The options of a normalised `question`, by their letters: "A) Paris B) Rome"."""
    _, *parts = _OPTION.split(question)
    texts = [part.strip(_STOPS) for part in parts[1::2]]
    return dict(zip(parts[::2], texts, strict=True))


def choice(text: str) -> str | None:
    """What normalised `text` chooses: an option by its letter, "B" or "B) Rome", or a
    yes or no that it opens with."""
    text = text.strip()
    letter = first_match("letter", SHARED, text) or _OPTION.match(text)
    if letter:
        return letter[1].upper()
    return opening(text)


def full_statement(question: str, answer: str, language: Language) -> str | None:
    """The statement that normalised `answer` makes with its `question` if it is bare;
    None if it isn't, or the question says nothing."""
    bare = read_bare(answer, language)
    if bare is None or not Sentence(question, language).keys:
        return None
    if bare in ("yes", "no"):
        asked = without_phrases("announced", SHARED, question.strip())
        return f"{asked.rstrip('.?')}? {answer.strip()}"
    chosen = options(question).get(bare, answer.strip())
    return f"{_OPTION.split(question)[0].strip()} {chosen}"


def read_statement(text: str, language: Language) -> Sentence:
    """Normalised `text` as a statement; a question with a bare answer says what is
    asked, or the opposite of it."""
    question, mark, answer = text.rpartition("?")
    bare = read_bare(answer, language) if mark else None
    if bare in ("yes", "no"):
        return Sentence(f"{question}?", language, denied=bare == "no")
    return Sentence(text, language)
