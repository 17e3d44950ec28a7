"""What kind of answer a response gives, whatever its scores: it may say nothing, or
nothing of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from math import sqrt

from ragstone.judge.offline.claims import is_aside
from ragstone.judge.offline.lexicon import Language, guess_language
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

MAX_BESIDE_QUESTION = 5
"""An answer that repeats the question, and has more words than this beside it, answers
it."""
MIN_ORDERED_WORDS = 7
"""The order of fewer words shows nothing."""
MIN_KNOWN, MIN_BY_CHANCE = 0.7, 0.3
"""Nor does the order of words that are in no context, or of which hardly any two would
be neighbours by chance."""
MIN_CUT_WORDS = 3
"""A shorter answer may end as it likes."""
MIN_FUNCTION_WORDS = 3
"""A text with fewer words of a language's grammar may be in any."""
MAX_LANGUAGE_CHARACTERS = 600

_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"\w(?:\S*\w)?")
_OPEN = ",;(["
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_START = re.compile(r"(?:^|[.!?]\s)[^\w\s]*(\w)")
_ENDS = ".!?:)]*\"'|"
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)


class AnswerKind(StrEnum):
    """In which way an answer is none, or broken."""

    EMPTY = "empty"
    ABSTAINS = "abstains"
    ECHOES = "echoes"
    """It repeats the question, perhaps with a few words that aren't of the
    reference."""
    EVADES = "evades"
    """It claims nothing."""
    DISORDERED = "disordered"
    """Its words are in no order."""
    CUT = "cut"
    """It ends in the middle of a word or sentence."""
    TERSE = "terse"
    """It says nothing but words of the reference: others may rightly be the same."""
    COPIES = "copies"
    """It is made of whole contexts."""
    LOOPS = "loops"
    """It says one sentence again and again."""
    FOREIGN = "foreign"
    """It is in another language than the question and the reference."""
    ANSWERS = "answers"


UNANSWERED = frozenset(
    {AnswerKind.EMPTY, AnswerKind.ABSTAINS, AnswerKind.ECHOES, AnswerKind.EVADES}
)
MALFORMED = frozenset(AnswerKind) - UNANSWERED - {AnswerKind.TERSE, AnswerKind.ANSWERS}


def kind_of(
    answer: str,
    question: str,
    reference: str,
    contexts: Sequence[Context],
    *,
    abstains: bool,
    claims: bool,
) -> AnswerKind:
    """What `answer` is. `reference` is empty if there is none; `claims` is False if the
    judge found no claim."""
    answer = answer[:MAX_CHARACTERS]
    words = _words(answer)
    wanted = _words(reference)
    body = _HEADING.sub("", answer)
    if not _words(body):
        return AnswerKind.EMPTY
    if abstains:
        return AnswerKind.ABSTAINS
    if _echoes(words, _words(question), wanted):
        return AnswerKind.ECHOES
    texts = [question, reference, *(context.text for context in contexts)]
    source = "\n".join(texts)[:MAX_CHARACTERS]
    if _disordered(answer, source):
        return AnswerKind.DISORDERED
    if words[-1:] != wanted[-1:] and _cut(answer, words, source):
        return AnswerKind.CUT
    if not Counter(words) - Counter(wanted):
        return AnswerKind.TERSE
    if not claims and len(words) >= MIN_EVASIVE_WORDS:
        return AnswerKind.EVADES
    is_long = len(words) >= max(MIN_COPIED_WORDS, LONGER * len(wanted))
    most_words = max(MIN_COPIED_WORDS, 0.8 * len(words))
    if is_long and _copied_words(words, contexts) >= most_words:
        return AnswerKind.COPIES
    if 2 * _repeated_words(answer) > len(words):
        return AnswerKind.LOOPS
    if _foreign(answer, f"{question} {reference}"):
        return AnswerKind.FOREIGN
    return AnswerKind.ANSWERS


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _repeated_words(answer: str) -> int:
    """How many words its sentences have that come again and again."""
    sentences = Counter(tuple(_words(part)) for part in _SENTENCE.split(answer))
    repeated = 0
    for sentence, times in sentences.items():
        if times >= MIN_REPEATED and len(sentence) > 1:
            repeated += times * len(sentence)
    return repeated


def _echoes(
    words: Sequence[str], question_words: Sequence[str], wanted: Sequence[str]
) -> bool:
    """Whether they are those of the question; or contain it, with few others, and none
    that are `wanted`."""
    if words == question_words:
        return True
    asked_words = " ".join(question_words)
    answer_words = " ".join(words)
    if f" {asked_words} " not in f" {answer_words} ":
        return False
    additional = Counter(words) - Counter(question_words)
    is_short = additional.total() <= MAX_BESIDE_QUESTION
    return is_short and bool(wanted) and additional.keys().isdisjoint(wanted)


def _disordered(answer: str, source: str) -> bool:
    """Whether hardly more of its neighbouring words are neighbours in `source` than of
    its words in a random order.

    Other words for the same have other neighbours, but begin and end as sentences do.
    """
    tokens = _TOKEN.findall(answer.casefold())
    if len(tokens) < MIN_ORDERED_WORDS or _is_punctuated(answer):
        return False
    times = Counter(tokens)
    source_tokens = _TOKEN.findall(source.casefold())
    known_words = sum(times[word] for word in set(source_tokens))
    source_pairs = set(pairwise(source_tokens))
    arrangements = 0
    for first, second in source_pairs:
        successors = times[second]
        if first == second:
            successors -= 1
        arrangements += times[first] * successors
    by_chance = arrangements / len(tokens)
    if known_words < MIN_KNOWN * len(tokens) or by_chance < MIN_BY_CHANCE:
        return False
    shared_pairs = sum(pair in source_pairs for pair in pairwise(tokens))
    return shared_pairs <= by_chance + 2.0 * sqrt(by_chance)


def _is_punctuated(answer: str) -> bool:
    """Whether each sentence begins with a capital or a number, and the last one ends;
    False in scripts without case."""
    has_case = answer.lower() != answer.upper()
    ends = answer.rstrip()[-1] in _ENDS
    has_small_start = any(start.islower() for start in _START.findall(answer))
    return has_case and ends and not has_small_start


def _cut(answer: str, words: Sequence[str], source: str) -> bool:
    """Whether it ends with an open bracket or comma, a word of grammar, or the
    beginning of a word of `source`."""
    last = words[-1]
    end = answer.rstrip()[-1]
    if len(words) < MIN_CUT_WORDS or not (end.isalnum() or end in _OPEN):
        return False
    language = guess_language(answer)
    last_line = answer.rstrip().rpartition("\n")[2]
    if is_aside(last_line, language.code):  # "Confidence: high"
        return False
    if end in _OPEN or last in language.function:
        return True
    vocabulary = {*_words(source), *words[:-1]}
    continuations = [word for word in vocabulary if word.startswith(last)]
    longest = max(map(len, continuations), default=0)
    return last.isalpha() and last not in vocabulary and longest > len(last) + 1


def _foreign(answer: str, question: str) -> bool:
    """Whether it is shown by words of grammar, or by the script, to be in another
    language than `question`."""
    own = guess_language(answer)
    expected = guess_language(question)
    if own.code == expected.code or not (own.spaced or expected.spaced):
        return False

    def signs(text: str, language: Language) -> int:
        words = _words(text[:MAX_LANGUAGE_CHARACTERS])
        return sum(word in language.function for word in words)

    own_signs = signs(answer, own)
    for language, count in ((own, own_signs), (expected, signs(question, expected))):
        if language.function and language.spaced and count < MIN_FUNCTION_WORDS:
            return False
    return 2 * signs(answer, expected) <= own_signs


def _copied_words(words: Sequence[str], contexts: Sequence[Context]) -> int:
    """How many words the contexts have that are in the answer as a whole."""
    answer_text = f" {' '.join(words)} "
    copied = 0
    for text in dict.fromkeys(context.text for context in contexts):
        own = _words(text)
        if f" {' '.join(own)} " in answer_text:
            copied += len(own)
    return copied
