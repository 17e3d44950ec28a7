"""Detects abstention: an answer that says it can't answer, and claims nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from ragstone.judge.offline.lexicon import Language, guess_language, load_data
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Sentence, read_passage, read_sentence

_CLAIM_KEYS = 2
_LOOK_AT = 400
_LOOK_AT_ANSWER = 2000
_ENDS = re.compile(r"[.!?\n。！？]+")
_NEVER = "(?!)"
_OPENING_MARKS = " \"'([*"
_ODD_CASE = re.compile("[\u0131\u017f\u0307]")
"""Letters that patterns match without regard to case, though they are different in lower case: ı, ſ, and i̇ from İ."""


@dataclass(frozen=True, slots=True)
class _Cues:
    """`opening` is a refusal at the beginning of a text; a text with `refusal` anywhere has one of `words`, if any."""

    opening: re.Pattern[str]
    refusal: re.Pattern[str]
    words: tuple[str, ...]
    filler: re.Pattern[str]
    turn: re.Pattern[str]

    def refuse(self, text: str) -> bool:
        """Whether a refusal is in `text`. The search is slow, so it is made only where it may find one."""
        text = text.lstrip(_OPENING_MARKS)
        return self.opening.match(text) is not None or (
            self._may_refuse(text) and self.refusal.search(text) is not None
        )

    def _may_refuse(self, text: str) -> bool:
        lowered = text.lower()
        return (
            not self.words
            or any(word in lowered for word in self.words)
            or (not lowered.isascii() and _ODD_CASE.search(lowered) is not None)
        )


@cache
def _cues(code: str) -> _Cues | None:
    lists = load_data("abstention.json").get(code)
    if lists is None:
        return None

    def any_of(patterns: Sequence[str]) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)

    refusals = lists["refusals"]
    return _Cues(
        opening=any_of([pattern for pattern in refusals if pattern.startswith("^")] or [_NEVER]),
        refusal=any_of([pattern for pattern in refusals if not pattern.startswith("^")]),
        words=tuple(filter(None, lists.get("refusal_words", "").split("|"))),
        filler=any_of(lists["fillers"]),
        turn=any_of([lists["turns"]]),
    )


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


def answer_abstains(answer: str) -> bool:
    """Whether an answer abstains, quickly where it holds no refusal in any language."""
    text = normalise(answer[:_LOOK_AT_ANSWER])
    parts = [part.strip() for part in _ENDS.split(text)]
    if not any(cues.refuse(part) for cues in _all_cues() for part in parts):
        return False
    language = guess_language(text)
    return abstains(read_passage(text, language).sentences, language)


def refuses(sentence: str, code: str) -> bool:
    """Whether a sentence says that something is not known or not given."""
    return _refusal(sentence[:_LOOK_AT], code)


@cache
def _all_cues() -> tuple[_Cues, ...]:
    return tuple(cues for code in load_data("abstention.json") if (cues := _cues(code)) is not None)


@cache
def _known(code: str) -> tuple[_Cues, ...]:
    """The cues of a language plus those of English: systems often refuse in English."""
    return tuple(cues for name in dict.fromkeys((code, "en")) if (cues := _cues(name)))


@lru_cache(maxsize=2048)
def _refusal(text: str, code: str) -> bool:
    return any(cues.refuse(text) for cues in _known(code))


def _claims_after_turn(text: str, cues: _Cues, known: Sequence[_Cues], language: Language) -> bool:
    for clause in cues.turn.split(text)[1:]:
        if any(other.refuse(clause) or other.filler.search(clause) for other in known):
            continue
        if len(read_sentence(clause, language).keys) >= _CLAIM_KEYS:
            return True
    return False
