"""Detects abstention: an answer that says it can't answer, and claims nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Sentence

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


def claiming_clauses(sentence: str, language: Language) -> list[str]:
    """The clauses that claim something of a sentence that refuses.

    "It takes an hour, but I don't know when it leaves." claims that it takes an hour.
    """
    for code in _codes(language.code):
        text = _pattern(code, "fronts").sub(r"\1; ", sentence[:_LOOK_AT])
        parts = _pattern(code, "joins").split(text)
        clauses = [part.strip(_AROUND) for part in parts]
        claims = [
            clause
            for clause in clauses
            if not refuses(clause, language.code) and _claims(clause, language)
        ]
        if len(claims) < len(clauses) and claims:
            return claims
    return []


def _claims(clause: str, language: Language) -> bool:
    for code in _codes(language.code):
        if _pattern(code, "fillers").search(clause):
            return False
    return len(Sentence(clause, language).keys) >= _CLAIM_KEYS


@lru_cache(maxsize=2048)
def _refuses(text: str, code: str) -> bool:
    lowered = text.lower()
    for name in _codes(code):
        words = load_data("abstention.json")[name].get("refusal_words", "").split("|")
        has_word = any(word in lowered for word in words)
        if has_word and _pattern(name, "refusals").search(text):
            return True
    return False


def _codes(code: str) -> Sequence[str]:
    """The language, and English: systems often refuse in English."""
    return [code, "en"] if code in load_data("abstention.json") else ["en"]


@cache
def _pattern(code: str, kind: str) -> re.Pattern[str]:
    patterns = load_data("abstention.json")[code][kind]
    return re.compile("|".join(patterns), re.IGNORECASE)
