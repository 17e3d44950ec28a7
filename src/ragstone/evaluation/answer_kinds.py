"""Classifies answers, whatever their scores: an answer may say nothing, be broken, or
repeat its input."""

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
"""A shorter answer may consist of contexts because there is nothing more to say."""
MIN_COPY_RATIO = 3.0
"""An answer that is not so many times as long as the reference is no mere copy of
contexts."""
MIN_COPIED_SHARE = 0.8
MIN_REPETITIONS = 3
"""A sentence that occurs so often in an answer is counted as a repetition."""
MIN_EVASIVE_WORDS = 4
"""A shorter answer without a claim ("Yes, always.") may still answer the question."""
MAX_CHARACTERS = 200_000
"""Of a longer answer, only the beginning is classified."""

MAX_WORDS_BESIDE_QUESTION = 5
"""An answer that repeats the question and has more other words answers it."""
MIN_ORDERED_WORDS = 7
"""The order of fewer words shows nothing."""
MIN_KNOWN_SHARE = 0.7
"""If a smaller share of the words is in the source, their order can't be judged."""
MIN_CHANCE_PAIRS = 0.3
"""If fewer pairs would be neighbours by chance, their number shows nothing."""
MIN_CUT_WORDS = 3
"""A shorter answer may end anywhere."""
MIN_FUNCTION_WORDS = 3
"""A text with fewer function words of a language may be in any language."""
MAX_LANGUAGE_CHARACTERS = 600

_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"\w(?:\S*\w)?")
_OPEN_ENDS = ",;(["
_SENTENCE_BREAK = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_SENTENCE_START = re.compile(r"(?:^|[.!?]\s)[^\w\s]*(\w)")
_CLOSED_ENDS = ".!?:)]*\"'|"
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)


class AnswerKind(StrEnum):
    """What an answer does instead of answering, or how it is broken."""

    EMPTY = "empty"
    ABSTAINS = "abstains"
    ECHOES = "echoes"
    """Repeats the question, perhaps with a few words that are not in the reference."""
    EVADES = "evades"
    """Claims nothing."""
    DISORDERED = "disordered"
    """Has its words in no order."""
    CUT = "cut"
    """Ends in the middle of a word or sentence."""
    TERSE = "terse"
    """Says only words of the reference; many right answers may do so."""
    COPIES = "copies"
    """Consists of whole contexts."""
    LOOPS = "loops"
    """Says the same sentences again and again."""
    FOREIGN = "foreign"
    """Is in another language than the question and the reference."""
    ANSWERS = "answers"
    """Just answers."""


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
    has_claims: bool,
) -> AnswerKind:
    """The kind of `answer`. `reference` is empty if there is none; `has_claims` is
    False if the judge found no claim."""
    answer = answer[:MAX_CHARACTERS]
    words = _words(answer)
    reference_words = _words(reference)
    body = _HEADING.sub("", answer)
    if not _words(body):
        return AnswerKind.EMPTY
    if abstains:
        return AnswerKind.ABSTAINS
    if _is_echo(words, _words(question), reference_words):
        return AnswerKind.ECHOES
    texts = [question, reference, *(context.text for context in contexts)]
    source = "\n".join(texts)[:MAX_CHARACTERS]
    if _is_disordered(answer, source):
        return AnswerKind.DISORDERED
    ends_as_reference = words[-1:] == reference_words[-1:]
    if not ends_as_reference and _is_cut(answer, words, source):
        return AnswerKind.CUT
    has_only_reference_words = not Counter(words) - Counter(reference_words)
    if has_only_reference_words:
        return AnswerKind.TERSE
    if not has_claims and len(words) >= MIN_EVASIVE_WORDS:
        return AnswerKind.EVADES
    is_long = len(words) >= max(MIN_COPIED_WORDS, MIN_COPY_RATIO * len(reference_words))
    min_copied = max(MIN_COPIED_WORDS, MIN_COPIED_SHARE * len(words))
    if is_long and _count_copied_words(words, contexts) >= min_copied:
        return AnswerKind.COPIES
    if 2 * _count_repeated_words(answer) > len(words):
        return AnswerKind.LOOPS
    if _is_foreign(answer, f"{question} {reference}"):
        return AnswerKind.FOREIGN
    return AnswerKind.ANSWERS


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _count_repeated_words(answer: str) -> int:
    """How many words are in sentences that occur MIN_REPETITIONS times or more."""
    sentences = Counter(tuple(_words(part)) for part in _SENTENCE_BREAK.split(answer))
    count = 0
    for sentence, times in sentences.items():
        if times >= MIN_REPETITIONS and len(sentence) > 1:
            count += times * len(sentence)
    return count


def _is_echo(
    words: Sequence[str],
    question_words: Sequence[str],
    reference_words: Sequence[str],
) -> bool:
    """Whether `words` are those of the question, or contain it with a few others, none
    of which is in the reference."""
    if words == question_words:
        return True
    if f" {' '.join(question_words)} " not in f" {' '.join(words)} ":
        return False
    additional = Counter(words) - Counter(question_words)
    if additional.total() > MAX_WORDS_BESIDE_QUESTION or not reference_words:
        return False
    return additional.keys().isdisjoint(reference_words)


def _is_disordered(answer: str, source: str) -> bool:
    """Whether hardly more of the neighbouring words in `answer` are neighbours in
    `source` than if its words were in a random order.

    A paraphrase also has other neighbours, but its sentences begin and end properly.
    """
    tokens = _TOKEN.findall(answer.casefold())
    if len(tokens) < MIN_ORDERED_WORDS or _is_punctuated(answer):
        return False
    token_counts = Counter(tokens)
    source_tokens = _TOKEN.findall(source.casefold())
    known_words = sum(token_counts[word] for word in set(source_tokens))
    source_pairs = set(pairwise(source_tokens))
    arrangements = 0
    for first, second in source_pairs:
        successors = token_counts[second]
        if first == second:
            successors -= 1
        arrangements += token_counts[first] * successors
    by_chance = arrangements / len(tokens)
    is_known = known_words >= MIN_KNOWN_SHARE * len(tokens)
    if not is_known or by_chance < MIN_CHANCE_PAIRS:
        return False
    shared_pairs = sum(pair in source_pairs for pair in pairwise(tokens))
    # Two standard deviations above chance, as a Poisson count has them.
    return shared_pairs <= by_chance + 2.0 * sqrt(by_chance)


def _is_punctuated(answer: str) -> bool:
    """Whether each sentence begins with a capital letter or a number, and the last one
    is closed; False in scripts without case."""
    has_case = answer.lower() != answer.upper()
    is_closed = answer.rstrip()[-1] in _CLOSED_ENDS
    starts = _SENTENCE_START.findall(answer)
    has_small_start = any(start.islower() for start in starts)
    return has_case and is_closed and not has_small_start


def _is_cut(answer: str, words: Sequence[str], source: str) -> bool:
    """Whether `answer` ends with an open bracket or comma, a function word, or the
    beginning of a word of `source`."""
    last = words[-1]
    end = answer.rstrip()[-1]
    if len(words) < MIN_CUT_WORDS or not (end.isalnum() or end in _OPEN_ENDS):
        return False
    language = guess_language(answer)
    last_line = answer.rstrip().rpartition("\n")[2]
    if is_aside(last_line, language.code):  # "Confidence: high"
        return False
    if end in _OPEN_ENDS or last in language.function_words:
        return True
    vocabulary = {*_words(source), *words[:-1]}
    continuations = [word for word in vocabulary if word.startswith(last)]
    longest = max(map(len, continuations), default=0)
    # One more letter may be an ending: "price" is not a cut "prices".
    return last.isalpha() and last not in vocabulary and longest > len(last) + 1


def _is_foreign(answer: str, question: str) -> bool:
    """Whether function words, or the script, show that `answer` is in another language
    than `question`."""
    language = guess_language(answer)
    expected = guess_language(question)
    # Two languages without spaces can't be told apart by their words.
    has_spaces = language.has_spaces or expected.has_spaces
    if language.code == expected.code or not has_spaces:
        return False
    own_count = _count_function_words(answer, language)
    expected_count = _count_function_words(question, expected)
    for guess, count in ((language, own_count), (expected, expected_count)):
        if guess.function_words and guess.has_spaces and count < MIN_FUNCTION_WORDS:
            return False
    return 2 * _count_function_words(answer, expected) <= own_count


def _count_function_words(text: str, language: Language) -> int:
    words = _words(text[:MAX_LANGUAGE_CHARACTERS])
    return sum(word in language.function_words for word in words)


def _count_copied_words(words: Sequence[str], contexts: Sequence[Context]) -> int:
    """How many words the contexts have that occur in the answer as a whole."""
    answer_text = f" {' '.join(words)} "
    count = 0
    for text in dict.fromkeys(context.text for context in contexts):
        context_words = _words(text)
        if f" {' '.join(context_words)} " in answer_text:
            count += len(context_words)
    return count
