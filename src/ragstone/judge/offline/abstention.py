"""Detects abstention: an answer that says it can't answer, and claims nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Sentence, read_sentence

_CLAIM_KEYS = 2
_LOOK_AT = 400


@dataclass(frozen=True, slots=True)
class _Cues:
    refusal: re.Pattern[str]
    filler: re.Pattern[str]
    turn: re.Pattern[str]


@cache
def _cues(code: str) -> _Cues | None:
    lists = load_data("abstention.json").get(code)
    if lists is None:
        return None

    def any_of(patterns: Sequence[str]) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)

    return _Cues(any_of(lists["refusals"]), any_of(lists["fillers"]), any_of([lists["turns"]]))


def abstains(sentences: Sequence[Sentence], language: Language) -> bool:
    """True when `sentences` refuse to answer and make no other claim.

    "I don't know, but X is Y" and "The page does not say. X is Y." are answers: a clause after a turn, or a sentence
    without a cue, is a claim when it has content words of its own.
    """
    known = _known(language.code)
    refused = False
    for sentence in sentences:
        text = sentence.text[:_LOOK_AT]
        if _refusal(text, language.code):
            refused = True
            if any(_claims_after_turn(text, cues, known, language) for cues in known):
                return False
        elif len(sentence.keys) >= _CLAIM_KEYS and not any(cues.filler.search(text) for cues in known):
            return False
    return refused


def refuses(sentence: Sentence, language: Language) -> bool:
    """Whether a sentence says that something is not known or not given."""
    return _refusal(sentence.text[:_LOOK_AT], language.code)


@cache
def _known(code: str) -> tuple[_Cues, ...]:
    """The cues of a language plus those of English: systems often refuse in English."""
    return tuple(cues for name in dict.fromkeys((code, "en")) if (cues := _cues(name)))


@lru_cache(maxsize=2048)
def _refusal(text: str, code: str) -> bool:
    return any(cues.refusal.search(text) for cues in _known(code))


def _claims_after_turn(text: str, cues: _Cues, known: Sequence[_Cues], language: Language) -> bool:
    for clause in cues.turn.split(text)[1:]:
        if any(other.refusal.search(clause) or other.filler.search(clause) for other in known):
            continue
        if len(read_sentence(clause, language).keys) >= _CLAIM_KEYS:
            return True
    return False
