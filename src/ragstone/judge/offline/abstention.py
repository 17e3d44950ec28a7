"""Detects abstention: an answer that says it can't answer, and claims nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.phrases import has_phrase

_CLAIM_KEYS = 2
_LOOK_AT = 400
_AROUND = " ,;()"
_OPENING_MARKS = " \"'([*"


def abstains(sentences: Sequence[Sentence], language: Language) -> bool:
    """True when `sentences` refuse to answer and make no other claim.

    "I don't know, but X is Y" and "The page does not say. X is Y." are answers.
    """
    has_refusal = False
    for sentence in sentences:
        if refuses(sentence.text, language.code):
            has_refusal = True
            if claiming_clauses(sentence.text, language):
                return False
        elif _claims(sentence.text[:_LOOK_AT], language):
            return False
    return has_refusal


def refuses(sentence: str, code: str) -> bool:
    """Whether a sentence says that something is not known or not given."""
    return _refuses(sentence[:_LOOK_AT].lstrip(_OPENING_MARKS), code)


@lru_cache(maxsize=2048)
def _refuses(text: str, code: str) -> bool:
    return has_phrase("refusals", code, text)


def claiming_clauses(sentence: str, language: Language) -> list[str]:
    """The clauses that claim something of a sentence that refuses.

    "It takes an hour, but I don't know when it leaves." claims that it takes an hour.
    """
    for code in (language.code, "en"):  # systems often refuse in English
        if code not in load_data("abstention.json"):
            continue
        text = _pattern(code, "fronts").sub(r"\1; ", sentence[:_LOOK_AT])
        parts = _pattern(code, "joins").split(text)
        clauses = [part.strip(_AROUND) for part in parts]
        claims = [
            clause
            for clause in clauses
            if not refuses(clause, language.code) and _claims(clause, language)
        ]
        if 0 < len(claims) < len(clauses):
            return claims
    return []


def _claims(clause: str, language: Language) -> bool:
    if has_phrase("fillers", language.code, clause):
        return False
    return len(Sentence(clause, language).keys) >= _CLAIM_KEYS


@cache
def _pattern(code: str, kind: str) -> re.Pattern[str]:
    return re.compile(load_data("abstention.json")[code][kind], re.IGNORECASE)
