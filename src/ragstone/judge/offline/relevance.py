"""Is a text relevant to a question: does it share the question's words, and have a
phrase of the kind asked for?

And does an answer address its question, say something new, and all that the reference
says? This replaces reverse questions, which need a generating model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from statistics import fmean

from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.bare import opening
from ragstone.judge.offline.evidence import holds_key, match
from ragstone.judge.offline.lexicon import Language, language, load_data
from ragstone.judge.offline.model import Logistic
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.statements import FINITE_VERB
from ragstone.judge.offline.tokens import NUMBER, key_sequence
from ragstone.judge.sentences import split_sentences

FEATURES = ("question_held", "kind_of_answer")
"""Names of the features of a text compared with a question, in [0, 1]."""

_DATE = re.compile(
    r"\b(?:1[0-9]{3}|20[0-9]{2})\b|\b\d{1,2}(?:st|nd|rd|th)? century\b"
    r"|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|today|tomorrow|yesterday|tonight|noon|midnight|weekends?"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|heute|morgen|gestern|januar|februar|märz|juni|juli|oktober"
    r"|dezember|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|aujourd'hui|demain|hier|janvier|février|mars|avril"
    r"|juin|juillet|août|septembre|octobre|novembre|décembre|lunes|martes|miércoles|jueves|viernes|sábado|domingo|hoy"
    r"|mañana|ayer|enero|febrero|marzo|abril|junio|julio|agosto|septiembre|octubre|noviembre|diciembre)\b",
    re.IGNORECASE,
)
"""What answers "when?" beside a number."""
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|in order to|as a result|therefore|caused|leads? to|reason|thus|weil|denn|damit"
    r"|parce|car|afin|porque|para|perché|affinché)\b",
    re.IGNORECASE,
)


@cache
def _kinds() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (kind, re.compile(cue, re.IGNORECASE))
        for kind, cue in load_data("questions.json").items()
    )


@dataclass(frozen=True, slots=True)
class Question:
    """A question, parsed once, with the kind of phrase that would answer it; None if
    that is yes or no."""

    sentence: Sentence
    kind: str | None

    def shared(self, keys: Collection[str]) -> float:
        """The share of the question's words that are in `keys`."""
        question_keys = self.sentence.key_set
        return len(question_keys.intersection(keys)) / max(1, len(question_keys))


def read_question(sentence: Sentence) -> Question:
    """The question in `sentence`, with the kind of phrase that would answer it: that of
    its last sentence."""
    last = split_sentences(sentence.text, sentence.language.code)[-1:]
    text = last[0] if last else sentence.text
    return Question(
        sentence, next((kind for kind, cue in _kinds() if cue.search(text)), None)
    )


def features(question: Question, sentences: Sequence[Sentence]) -> tuple[float, float]:
    """The features of a text, given as its sentences, compared with `question`."""
    keys = set(chain.from_iterable(sentence.keys for sentence in sentences))
    return question.shared(keys), float(
        any(has_kind(question, sentence) for sentence in sentences)
    )


def has_kind(question: Question, sentence: Sentence) -> bool:
    """Whether `sentence` has a phrase of the kind asked for, not from the question."""
    new = sentence.key_set - question.sentence.key_set
    number = any(key.startswith(NUMBER) for key in new)
    if question.kind == "number":
        return number
    if question.kind == "when":
        return number or _DATE.search(sentence.text) is not None
    if question.kind == "why":
        return _REASON.search(sentence.text) is not None
    if question.kind in ("who", "where"):
        question_words = {token.lower() for token in question.sentence.surface}
        first, *later_words = sentence.surface or ("",)
        is_name = first[:1].isupper() and len(later_words) < _NAME_WORDS
        return is_name or any(
            token[:1].isupper() and token.lower() not in question_words
            for token in later_words
        )
    return bool(new)


ANSWER_FEATURES = ("topic", "says_new", "kind_of_answer", "grounded", "on_topic")
"""Names of the features of an answer to its question, higher is better: how much of the
question and of the reference it shares, how much it says besides, whether a phrase of
the kind asked for, how much of that the texts say, and how much of the question it
shares, in full from 0.4 on: echoing it gains nothing more. In [0, 1].
"""

MAX_UNCERTAIN = 0.3
"""Limit for a phrase such as "30 days" that no context and no reference holds: words
can't tell what it is about."""

_NAME_WORDS = 4
_MUCH_NEW = 8.0
_PHRASE_WORDS = 8
_PLAIN_WORDS = 2
_TOPIC = 0.2
_NEAR = 0.4
_LIKE_REFERENCE = 0.3
_FROM_CONTEXTS = 0.5
"""How much of the question a statement about it shares at least, how near it is by
embeddings, how much it is like a reference, and from which share on its words being in
the contexts says so."""

_WHOLE = 0.6
"""The share of a reference's statement, beyond the question, from which an answer makes
this statement."""

_NOTHING_COVERED = 0.5
"""What an answer keeps of its relevancy that says nothing of what a reference says: it
may say so in other words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, given as its statements (at least one), its question, and what else it
    can be compared with.

    That is the contexts and the references. `nearness` is the topic similarity by
    embeddings, in [0, 1]; None without embeddings.
    """

    question: Question
    sentences: Sequence[Sentence]
    language: Language
    contexts: Sequence[Passage] = ()
    references: Sequence[Passage] = ()
    nearness: float | None = None

    def relevancy(self, model: Logistic) -> float:
        """How surely the answer addresses the question, in [0, 1], right or wrong: the
        probability by `model`, times the share of the answer that is about the
        question, times that of the reference that it covers.

        A phrase instead of a sentence is relevant if a text holds it, and else at most
        MAX_UNCERTAIN; not so "It was built in 1871", which has the question's verb.
        """
        first = self.sentences[0]
        phrase = is_phrase(self.sentences, self.language)
        if phrase and self._is_answered_by(first):
            return 1.0
        phrase = phrase and not (
            FINITE_VERB.search(first.text) and self.question.shared(first.key_set)
        )
        if phrase and not self.contexts and not self.references:
            return MAX_UNCERTAIN
        weights = [len(sentence.key_set) or 1 for sentence in self.sentences]
        about = [
            weight * self._about(sentence)
            for weight, sentence in zip(weights, self.sentences, strict=True)
        ]
        covered = max(map(self._covered, self.references), default=1.0)
        whole = _NOTHING_COVERED + (1 - _NOTHING_COVERED) * covered
        relevancy = (
            model.probability(self.features()) * whole * math.fsum(about) / sum(weights)
        )
        return min(relevancy, MAX_UNCERTAIN) if phrase else relevancy

    def features(self) -> tuple[float, ...]:
        """The features of the answer, as `ANSWER_FEATURES` names them."""
        keys = frozenset[str]().union(
            *(sentence.key_set for sentence in self.sentences)
        )
        alike = max(
            (self._alike(keys, reference) for reference in self.references), default=0.0
        )
        new = self._news(keys)
        shared = self.question.shared(keys)
        on_topic = min(1.0, shared / _NEAR)
        if self.nearness is not None:
            on_topic = (on_topic + min(1.0, self.nearness / _NEAR)) / 2
        return (
            min(1.0, max(shared, self.nearness or 0.0) + alike),
            1.0 - math.exp(-len(new) / _MUCH_NEW),
            float(
                any(has_kind(self.question, sentence) for sentence in self.sentences)
            ),
            self._grounded(new),
            on_topic,
        )

    def _about(self, sentence: Sentence) -> float:
        """How sure it is that a statement is about the question, in [0, 1]: it shares
        the question's words, or says what a reference or the contexts say besides
        these. A refusal is not.

        Numbers don't count: "60 days" is as much about the question as "30 days".
        """
        if refuses(sentence.text, self.language.code):
            return 0.0
        keys = sentence.key_set
        new = self._news(keys)
        if not new and self.question.kind is not None:
            return 0.0
        evidence = [self.question.shared(keys) / _TOPIC, (self.nearness or 0.0) / _NEAR]
        evidence.extend(
            self._alike(keys, reference) / _LIKE_REFERENCE
            for reference in self.references
        )
        if self.contexts:
            evidence.append(
                (self._grounded(new) - _FROM_CONTEXTS) / (1 - _FROM_CONTEXTS)
            )
        return min(1.0, max(0.0, *evidence))

    def _news(self, keys: frozenset[str]) -> frozenset[str]:
        """Those of `keys` that are not in the question, and say something: not
        "provided", "important"."""
        return keys - self.question.sentence.key_set - _vague(self.language.code)

    def _is_answered_by(self, phrase: Sentence) -> bool:
        """Whether a phrase is a yes or no where that is asked for, or is of the kind
        asked for and a text has its numbers, its names and most of its words.
        """
        if self.question.kind is None and (
            opening(phrase.text) is not None
            or phrase.tokens[0] in self.language.pronouns
        ):
            return True
        texts = (*self.contexts, *self.references)
        if not texts:
            return False
        question_keys = self.question.sentence.key_set
        matched = frozenset[str]().union(*match(phrase, texts).matched) | question_keys
        words = phrase.key_set - question_keys
        exact = phrase.numbers | phrase.name_keys
        return (
            exact <= matched
            and 2 * len(words & matched) > len(words)
            and has_kind(self.question, phrase)
        )

    def _grounded(self, keys: Iterable[str]) -> float:
        """The share of `keys` that the contexts or references hold; 1 if there is
        nothing to compare.

        Numbers count as found.
        """
        texts = (*self.contexts, *self.references)
        words = _without_numbers(keys)
        if not texts or not words:
            return 1.0
        return sum(
            any(holds_key(key, text.places) for text in texts) for key in words
        ) / len(words)

    def _alike(self, keys: Iterable[str], reference: Passage) -> float:
        """F1, of `keys` and of a reference beyond the question, numbers left out."""
        question_keys = self.question.sentence.key_set
        own, expected = (
            _without_numbers(set(keys) - question_keys),
            _without_numbers(reference.places.keys() - question_keys),
        )
        total = len(own) + len(expected)
        return 2 * len(own & expected) / total if total else 0.0

    def _covered(self, reference: Passage) -> float:
        """The mean over the reference's statements of how much of it the answer says
        beyond the question, in [0, 1]."""
        answer = Passage(self.sentences, self.language)
        shares: list[float] = []
        for sentence in reference.sentences:
            words = sentence.key_set - self.question.sentence.key_set
            if words:
                share = sum(holds_key(key, answer.places) for key in words) / len(words)
                shares.append(min(1.0, share / _WHOLE))
        return fmean(shares) if shares else 1.0


def is_phrase(sentences: Sequence[Sentence], language: Language) -> bool:
    """Whether an answer is a phrase rather than a sentence: "30 days", "Yes, with a
    receipt", "It is Ada"."""
    first = sentences[0]
    if (
        len(sentences) > 1
        or not 0 < len(first.surface) <= _PHRASE_WORDS
        or ": " in first.text
    ):
        return False
    if FINITE_VERB.search(first.text) and first.tokens[0] not in language.pronouns:
        return False
    plain = [
        key
        for token, key in zip(first.surface, first.sequence, strict=False)
        if key and token.islower()
    ]
    return len(plain) <= _PLAIN_WORDS


@cache
def _vague(code: str) -> frozenset[str]:
    return frozenset(key_sequence(sorted(language(code).vague), language(code)))


def _without_numbers(keys: Iterable[str]) -> set[str]:
    return {key for key in keys if not key.startswith(NUMBER)}
