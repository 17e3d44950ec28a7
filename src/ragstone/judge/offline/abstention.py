"""Detects abstention: an answer that says it can't answer, and claims nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.phrases import NEVER, compiled, contains_any, either

_CLAIM_KEYS = 2
_LOOK_AT = 400
_ENDS = re.compile(r"[.!?\n。！？]+")
_AROUND = " ,;()"
_OPENING_MARKS = " \"'([*"


@dataclass(frozen=True, slots=True)
class _Cues:
    """Patterns. `opening` is a refusal at the beginning of a text; a text with
    `refusal` anywhere has one of `words`.

    `join` stands between two clauses, `front` is a clause before the one that it
    belongs to, and `hedge` a refusal that takes the certainty from what follows: "I'm
    not sure, but".
    """

    opening: str
    refusal: str
    words: tuple[str, ...]
    filler: str
    turn: str
    join: str
    front: str
    hedge: str

    def refuse(self, text: str) -> bool:
        """Whether a refusal is in `text`. The search is slow, so it is made only where
        it may find one."""
        text = text.lstrip(_OPENING_MARKS)
        if compiled(self.opening).match(text):
            return True
        return (
            contains_any(text.lower(), self.words)
            and compiled(self.refusal).search(text) is not None
        )


@cache
def _cues(code: str) -> _Cues | None:
    lists = load_data("abstention.json").get(code)
    if lists is None:
        return None

    refusals = lists["refusals"]
    return _Cues(
        opening=either([pattern for pattern in refusals if pattern.startswith("^")]),
        refusal=either(
            [pattern for pattern in refusals if not pattern.startswith("^")]
        ),
        words=tuple(lists.get("refusal_words", "").split("|")),
        filler=either(lists["fillers"]),
        turn=lists["turns"],
        join=lists["joins"],
        front=lists.get("fronts", NEVER),
        hedge=lists.get("hedges", NEVER),
    )


def abstains(sentences: Sequence[Sentence], language: Language) -> bool:
    """True when `sentences` refuse to answer and make no other claim.

    "I don't know, but X is Y" and "The page does not say. X is Y." are answers: a
    clause after a turn, or a sentence without a cue, is a claim when it has content
    words of its own.
    """
    all_cues = _known(language.code)
    if not any(refuses(sentence.text, language.code) for sentence in sentences):
        return False
    for sentence in sentences:
        text = sentence.text[:_LOOK_AT]
        if _refusal(text, language.code):
            if _claims_after(text, language):
                return False
        elif len(sentence.keys) >= _CLAIM_KEYS and not any(
            compiled(cues.filler).search(text) for cues in all_cues
        ):
            return False
    return True


def may_abstain(text: str) -> bool:
    """Whether a sentence of `text` holds a refusal in any language."""
    parts = [part.strip() for part in _ENDS.split(text)]
    return any(cues.refuse(part) for cues in _all_cues() for part in parts)


def refuses(sentence: str, code: str) -> bool:
    """Whether a sentence says that something is not known or not given."""
    return _refusal(sentence[:_LOOK_AT], code)


def hedged(sentence: str, language: Language) -> bool:
    """Whether a sentence that refuses is a claim nevertheless: "I don't know, but it
    takes an hour."."""
    hedges = [compiled(cues.hedge) for cues in _known(language.code)]
    return any(hedge.match(sentence) for hedge in hedges) and _claims_after(
        sentence, language
    )


def _claims_after(sentence: str, language: Language) -> bool:
    all_cues = _known(language.code)
    return any(
        not any(cues.refuse(clause) for cues in all_cues)
        and _claims(clause, all_cues, language)
        for cues in all_cues
        for clause in compiled(cues.turn).split(sentence[:_LOOK_AT])[1:]
    )


def parted(sentence: str, language: Language) -> list[str]:
    """What `sentence` claims, each clause for itself, and then the rest, if it claims
    and refuses; else `[sentence]`.

    "It takes an hour, but I don't know when it leaves." claims that it takes an hour.
    "I'm not sure, but it takes an hour." stays whole: how sure the speaker is, is a
    part of the claim.
    """
    text, code = sentence[:_LOOK_AT], language.code
    if len(sentence) > _LOOK_AT or not _refusal(text, code):
        return [sentence]
    all_cues = _known(code)
    for cues in all_cues:
        front = compiled(cues.front).match(text)
        clauses = [front[1]] if front else []
        clauses += [
            part.strip(_AROUND)
            for part in compiled(cues.join).split(
                text[front.end() :] if front else text
            )
        ]
        refusing = [_refusal(clause, code) for clause in clauses]
        claiming = [
            not no and _claims(clause, all_cues, language)
            for no, clause in zip(refusing, clauses, strict=True)
        ]
        if (
            any(refusing)
            and any(claiming)
            and not (refusing[0] and compiled(cues.hedge).match(clauses[0]))
        ):
            claims = [
                clause
                for clause, claimed in zip(clauses, claiming, strict=True)
                if claimed
            ]
            return [
                *claims,
                "; ".join(
                    clause for clause in clauses if clause and clause not in claims
                ),
            ]
    return [sentence]


def _claims(clause: str, all_cues: Sequence[_Cues], language: Language) -> bool:
    if any(compiled(cues.filler).search(clause) for cues in all_cues):
        return False
    return len(Sentence(clause, language).keys) >= _CLAIM_KEYS


@cache
def _all_cues() -> tuple[_Cues, ...]:
    return tuple(
        cues
        for code in load_data("abstention.json")
        if (cues := _cues(code)) is not None
    )


@cache
def _known(code: str) -> tuple[_Cues, ...]:
    """The cues of a language plus those of English: systems often refuse in English."""
    return tuple(cues for name in dict.fromkeys((code, "en")) if (cues := _cues(name)))


@lru_cache(maxsize=2048)
def _refusal(text: str, code: str) -> bool:
    return any(cues.refuse(text) for cues in _known(code))
