"""Bare answers: yes or no, true or false, the letter of an option, which say something
only with their question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Sentence

_YES = re.compile(
    r"(?:yes|yeah|yep|true|correct|right|ja|richtig|wahr|stimmt|oui|vrai|exact|si|sí|verdadero|cierto|correcto)"
)
_NO = re.compile(
    r"(?:no|nope|false|incorrect|wrong|nein|falsch|non|faux|falso|incorrecto)"
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LETTER = re.compile(
    r"\W*(?:(?:option|answer|antwort|réponse|respuesta|opción)\s+)?([A-Ha-h])\W*"
)
_OPTION = re.compile(r"(?:^|[\s(])\(?([A-H])[).:]\s+")
_ANNOUNCED = re.compile(
    r"^(?:true or false|yes or no|richtig oder falsch|wahr oder falsch|ja oder nein|vrai ou faux|oui ou non"
    r"|verdadero o falso|sí o no)\W+",
    re.IGNORECASE,
)
_MAX_LENGTH = 80
_STOPS = " .,;!"
_MIN_OPTIONS = 2


@dataclass(frozen=True, slots=True)
class Bare:
    """A bare answer: whether it affirms, or the `letter` of an option."""

    affirms: bool | None = None
    letter: str | None = None


def opening(text: str) -> bool | None:
    """Whether `text` opens with a yes (True) or a no (False); None if with neither."""
    first = _WORD.search(text[:_MAX_LENGTH])
    word = (
        first.group().lower()
        if first and not text[: first.start()].strip(" \"'*_(-")
        else ""
    )
    if _YES.fullmatch(word):
        return True
    return False if _NO.fullmatch(word) else None


def read_bare(answer: str, language: Language) -> Bare | None:
    """What normalised `answer` says if it is bare: "Yes.", "No, they aren't.", "True",
    "B)"; else None."""
    text = answer.strip()
    if not text or len(text) > _MAX_LENGTH:
        return None
    letter = _LETTER.fullmatch(text)
    if letter:
        return Bare(letter=letter[1].upper())
    affirms = opening(text)
    if affirms is None:
        return None
    words = _WORD.findall(text.lower())[1:]
    says_more = Sentence(" ".join(words), language).keys or any(
        letter.isdigit() for letter in text
    )
    return None if says_more else Bare(affirms=affirms)


def options(question: str) -> dict[str, str]:
    """The options of a normalised `question`, by their letters: "A) Paris B) Rome"."""
    marks = list(_OPTION.finditer(question))
    if len(marks) < _MIN_OPTIONS:
        return {}
    ends = [mark.start() for mark in marks[1:]] + [len(question)]
    return {
        mark[1]: question[mark.end() : end].strip(" ,;\n")
        for mark, end in zip(marks, ends, strict=True)
    }


def option_letter(text: str, offered: Mapping[str, str]) -> str | None:
    """The letter of the option that `text` names by its letter, "B" or "B) Rome", or in
    full, "Rome"; else None."""
    letter = _LETTER.fullmatch(text.strip()) or _OPTION.match(text.strip())
    if letter:
        return letter[1].upper()
    named = [
        key
        for key, option in offered.items()
        if option.strip(_STOPS).lower() == text.strip(_STOPS).lower()
    ]
    return named[0] if named else None


def full_statement(question: str, answer: str, bare: Bare) -> str | None:
    """The statement that a bare `answer` makes with its `question`; None if the option
    isn't known."""
    question_text = _ANNOUNCED.sub("", question.strip())
    if bare.letter is None:
        mark = "" if question_text.endswith("?") else "?"
        return f"{question_text.rstrip('.')}{mark} {answer.strip()}"
    chosen = options(question).get(bare.letter)
    first = _OPTION.search(question)
    return f"{question[: first.start()].strip()} {chosen}" if chosen and first else None


def read_statement(text: str, language: Language) -> Sentence:
    """Normalised `text` as a statement; a question with a bare answer says what is
    asked, or the opposite of it."""
    question, mark, answer = text.rpartition("?")
    bare = read_bare(answer, language) if mark else None
    if bare is None or bare.affirms is None:
        return Sentence(text, language)
    return Sentence(f"{question}?", language, denied=not bare.affirms)
