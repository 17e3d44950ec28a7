"""Detects abstention: an answer that says that it can't answer, and claims nothing
else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.phrases import has_phrase

_MIN_CLAIM_KEYS = 2
"""A clause with fewer content words claims nothing."""
_MAX_READ_CHARACTERS = 400
"""Only the beginning of a longer sentence is read, since patterns take time."""
_MARKS_AROUND_CLAUSE = " ,;()"
_OPENING_MARKS = " \"'([*"


def abstains(sentences: Sequence[Sentence], language: Language) -> bool:
    """Whether `sentences` refuse to answer and make no other claim.

    "I don't know, but X is Y" and "The page does not say. X is Y." are answers.
    """
    has_refusal = False
    for sentence in sentences:
        if refuses(sentence.text, language.code):
            has_refusal = True
            if claiming_clauses(sentence.text, language):
                return False
        elif _claims(sentence.text[:_MAX_READ_CHARACTERS], language):
            return False
    return has_refusal


def refuses(sentence: str, code: str) -> bool:
    """Whether `sentence` says that something is not known or not stated."""
    return _refuses(sentence[:_MAX_READ_CHARACTERS].lstrip(_OPENING_MARKS), code)


@lru_cache(maxsize=2048)
def _refuses(text: str, code: str) -> bool:
    return has_phrase("refusals", code, text)


def claiming_clauses(sentence: str, language: Language) -> list[str]:
    """The clauses of a refusing sentence that claim something.

    "It takes an hour, but I don't know when it leaves." claims that it takes an hour.
    Empty if no clause claims anything, or if the sentence can't be split.
    """
    # Systems often refuse in English.
    for code in (language.code, "en"):
        if code not in load_data("abstention.json"):
            continue
        # "Although X, Y" becomes "X; Y".
        text = _pattern(code, "fronts").sub(r"\1; ", sentence[:_MAX_READ_CHARACTERS])
        parts = _pattern(code, "joins").split(text)
        clauses = [part.strip(_MARKS_AROUND_CLAUSE) for part in parts]
        claims = [
            clause
            for clause in clauses
            if not refuses(clause, language.code) and _claims(clause, language)
        ]
        if 0 < len(claims) < len(clauses):
            return claims
    return []


def _claims(clause: str, language: Language) -> bool:
    """Whether a clause has enough content words, and is no filler such as "I checked
    the documents"."""
    if has_phrase("fillers", language.code, clause):
        return False
    return len(Sentence(clause, language).keys) >= _MIN_CLAIM_KEYS


@cache
def _pattern(code: str, kind: str) -> re.Pattern[str]:
    return re.compile(load_data("abstention.json")[code][kind], re.IGNORECASE)
