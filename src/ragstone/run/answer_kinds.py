"""What kind of answer a response gives, whatever its scores: it may say nothing, or nothing of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import islice

from ragstone.judge.offline.abstention import answer_abstains
from ragstone.metrics.citations import cited
from ragstone.system.response import Context

MIN_COPIED_WORDS = 60
"""A shorter answer that is made of whole contexts may be all that there is to say."""
LONGER = 3.0
"""A copy of contexts is that many times as long as the reference, if there is one."""
MIN_REPEATED = 3
"""A sentence that an answer says so often, and little else, is a loop."""
MIN_EVASIVE_WORDS = 4
"""A shorter answer without a claim ("Yes, always.") is one."""
MAX_CHARACTERS = 200_000
"""Of a longer answer, the beginning is looked at."""
MAX_MARKS = 100
"""Of more distinct marks in brackets, the first are looked up in the contexts."""

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)
_BRACKETS = re.compile(r"[\[【][^\[\]【】\n]{1,80}[\]】]")


class AnswerKind(StrEnum):
    """In the order in which they are looked for. The first four don't answer the question."""

    EMPTY = "empty"
    ABSTAINS = "abstains"
    ECHOES = "echoes"
    """It repeats the question."""
    EVADES = "evades"
    """It claims nothing."""
    TERSE = "terse"
    """It says nothing but words of the reference: others may rightly be the same."""
    COPIES = "copies"
    """It is made of whole contexts."""
    LOOPS = "loops"
    """It says one sentence again and again."""
    MISCITES = "miscites"
    """It cites contexts that there are none of."""
    ANSWERS = "answers"


UNANSWERED = frozenset({AnswerKind.EMPTY, AnswerKind.ABSTAINS, AnswerKind.ECHOES, AnswerKind.EVADES})
MALFORMED = frozenset({AnswerKind.COPIES, AnswerKind.LOOPS, AnswerKind.MISCITES})


def kind_of(
    answer: str,
    question: str,
    reference: str | None,
    contexts: Sequence[Context],
    *,
    abstains: bool | None,
    claims: bool,
) -> AnswerKind:
    """What `answer` is. `abstains` is what the judge says, None if it doesn't; `claims` is False if it found none."""
    answer = answer[:MAX_CHARACTERS]
    words = _words(answer)
    if not words or not _words(_HEADING.sub("", answer)):
        return AnswerKind.EMPTY
    if abstains if abstains is not None else answer_abstains(answer):
        return AnswerKind.ABSTAINS
    wanted = Counter(_words(reference or ""))
    if reference and not Counter(words) - wanted:
        return AnswerKind.TERSE
    if words == _words(question):
        return AnswerKind.ECHOES
    if not claims and len(words) >= MIN_EVASIVE_WORDS:
        return AnswerKind.EVADES
    if _copies(words, sum(wanted.values()), contexts):
        return AnswerKind.COPIES
    if _loops(answer, words):
        return AnswerKind.LOOPS
    return AnswerKind.MISCITES if _miscites(answer, contexts) else AnswerKind.ANSWERS


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _copies(words: Sequence[str], wanted: int, contexts: Sequence[Context]) -> bool:
    if len(words) < max(MIN_COPIED_WORDS, LONGER * wanted):
        return False
    said = f" {' '.join(words)} "
    copied = 0
    for text in dict.fromkeys(context.text for context in contexts):
        own = _words(text)
        if own and f" {' '.join(own)} " in said:
            copied += len(own)
    return copied >= max(MIN_COPIED_WORDS, 0.8 * len(words))


def _loops(answer: str, words: Sequence[str]) -> bool:
    if len(words) < 2 * MIN_REPEATED:
        return False
    found = Counter(key for part in _SENTENCE.split(answer) if len(key := tuple(_words(part))) > 1)
    repeated = sum(times * len(sentence) for sentence, times in found.items() if times >= MIN_REPEATED)
    return 2 * repeated > len(words)


def _miscites(answer: str, contexts: Sequence[Context]) -> bool:
    marks = list(islice(dict.fromkeys(found.group() for found in _BRACKETS.finditer(answer)), MAX_MARKS))
    # A bracket that a context has too is no citation.
    own = [mark for mark in marks if not any(mark in context.text for context in contexts)]
    return bool(contexts) and None in cited(" ".join(own), contexts)
