"""Is a text relevant to a question: does it share the question's words, and have a
phrase of the kind asked for?

And does an answer address its question, say something new, and all that the reference
says? This replaces reverse questions, which need a generating model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence, Set
from functools import cache
from statistics import fmean

from msgspec import Struct

from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.bare import opening
from ragstone.judge.offline.evidence import match, positions_of
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.model import Logistic
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.phrases import SHARED, has_phrase
from ragstone.judge.offline.statements import has_verb
from ragstone.judge.offline.tokens import NUMBER, KeySet, keys_of, union
from ragstone.judge.sentences import split_sentences

FEATURES = ("question_held", "kind_of_answer")
"""Names of the features of a text compared with a question, in [0, 1]."""

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
"""How much of the question a statement about it shares at least, how much of it an
answer shares that needs no more, how much it is like a reference, and from which share
on its words being in the contexts says so."""

_WHOLE = 0.6
"""The share of a reference's statement, beyond the question, from which an answer makes
this statement."""

_NOTHING_COVERED = 0.5
"""What an answer keeps of its relevancy that says nothing of what a reference says: it
may say so in other words."""


class Question(Struct, frozen=True):
    """A question, parsed once."""

    sentence: Sentence
    kind: str | None
    """The kind of phrase that would answer it; None if that is yes or no."""

    def shared(self, keys: Collection[str]) -> float:
        """The share of the question's words that are in `keys`."""
        question_keys = self.sentence.key_set
        return len(question_keys.intersection(keys)) / max(1, len(question_keys))


def read_question(sentence: Sentence) -> Question:
    """The question in `sentence`, of the kind that its last sentence asks for."""
    sentences = split_sentences(sentence.text, sentence.language.code)
    last = (sentences or [sentence.text])[-1]
    for kind in ("when", "number", "who", "where", "why", "what"):
        if has_phrase(kind, SHARED, last):
            return Question(sentence, kind)
    return Question(sentence, None)


def features(question: Question, sentences: Sequence[Sentence]) -> tuple[float, float]:
    """The features of a text, given as its sentences, compared with `question`."""
    return question.shared(_all_keys(sentences)), has_answer(question, sentences)


def has_answer(question: Question, sentences: Sequence[Sentence]) -> float:
    """1 if one of `sentences` has a phrase of the kind asked for, else 0."""
    return float(any(has_kind(question, sentence) for sentence in sentences))


def has_kind(question: Question, sentence: Sentence) -> bool:
    """Whether `sentence` has a phrase of the kind asked for, not from the question."""
    new = sentence.key_set - question.sentence.key_set
    has_number = any(key.startswith(NUMBER) for key in new)
    match question.kind:
        case "number":
            return has_number
        case "when":
            return has_number or has_phrase("date", SHARED, sentence.text)
        case "why":
            return has_phrase("reason", SHARED, sentence.text)
        case "who" | "where":
            # A word with a capital; of a short phrase, its first word counts, too.
            asked = set(map(str.lower, question.sentence.surface))
            start = len(sentence.surface) > _NAME_WORDS
            names = [token for token in sentence.surface[start:] if token[0].isupper()]
            return not asked.issuperset(map(str.lower, names))
    return bool(new)


class Answer(Struct, frozen=True):
    """An answer, its question, and what else it can be compared with."""

    question: Question
    sentences: Sequence[Sentence]
    """The statements of the answer, at least one."""
    contexts: Sequence[Passage]
    references: Sequence[Passage]

    @property
    def language(self) -> Language:
        return self.sentences[0].language

    @property
    def texts(self) -> Sequence[Passage]:
        """The contexts and the references."""
        return (*self.contexts, *self.references)

    def relevancy(self, model: Logistic) -> float:
        """How surely the answer addresses the question, in [0, 1], right or wrong: the
        probability by `model`, times the share of the answer that is about the
        question, times that of the reference that it covers.

        A phrase instead of a sentence is relevant if a text holds it, and else at most
        MAX_UNCERTAIN; not so "It was built in 1871", which has the question's verb.
        """
        first = self.sentences[0]
        is_uncertain = False
        if is_phrase(self.sentences):
            if self._is_answered_by(first):
                return 1.0
            shared = self.question.shared(first.key_set)
            is_uncertain = not (shared and has_verb(first))
            if is_uncertain and not self.texts:
                return MAX_UNCERTAIN
        total = about = 0.0
        for sentence in self.sentences:
            weight = len(sentence.key_set) or 1
            total += weight
            about += weight * self._about(sentence)
        covered = max(map(self._covered, self.references), default=1.0)
        relevancy = model.probability(self.features()) * about / total
        relevancy *= _NOTHING_COVERED + (1 - _NOTHING_COVERED) * covered
        return min(relevancy, MAX_UNCERTAIN) if is_uncertain else relevancy

    def features(self) -> tuple[float, ...]:
        """The features of the answer, as `ANSWER_FEATURES` names them."""
        keys = _all_keys(self.sentences)
        new = self._news(keys)
        shared = self.question.shared(keys)
        return (
            min(1.0, shared + self._alike(keys)),
            1.0 - math.exp(-len(new) / _MUCH_NEW),
            has_answer(self.question, self.sentences),
            self._grounded(new),
            min(1.0, shared / _NEAR),
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
        evidence = [
            self.question.shared(keys) / _TOPIC,
            self._alike(keys) / _LIKE_REFERENCE,
        ]
        if self.contexts:
            grounded = self._grounded(new) - _FROM_CONTEXTS
            evidence.append(grounded / (1 - _FROM_CONTEXTS))
        return min(1.0, max(evidence))

    def _news(self, keys: Set[str]) -> Set[str]:
        """Those of `keys` that are not in the question, and say something: not
        "provided", "important"."""
        return keys - self.question.sentence.key_set - _vague(self.language)

    def _is_answered_by(self, phrase: Sentence) -> bool:
        """Whether a phrase is a yes or no where that is asked for, or is of the kind
        asked for and a text has its numbers, its names and most of its words.
        """
        opens_with_pronoun = phrase.tokens[0] in self.language.pronouns
        if self.question.kind is None and (
            opens_with_pronoun or opening(phrase.text) is not None
        ):
            return True
        if not self.texts:
            return False
        question = Passage([self.question.sentence], self.language)
        evidence = match(phrase, [*self.texts, question])
        is_held = evidence["numbers"] == evidence["names"] == 1.0
        has_most_words = evidence["content"] > _FROM_CONTEXTS
        return is_held and has_most_words and has_kind(self.question, phrase)

    def _grounded(self, keys: Iterable[str]) -> float:
        """The share of `keys`, without numbers, that the contexts or references hold; 1
        if there is nothing to compare."""
        words = self._words(keys)
        return _held(words, self.texts) if self.texts and words else 1.0

    def _words(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that are no number and no unit."""
        units = keys_of(self.language).units
        return {key for key in keys if key not in units and key[0] != NUMBER}

    def _alike(self, keys: Iterable[str]) -> float:
        """F1, of `keys` and of the reference most like them beyond the question,
        numbers left out."""
        question_keys = self.question.sentence.key_set
        own = self._words(keys) - question_keys
        best = 0.0
        for reference in self.references:
            expected = self._words(reference.places) - question_keys
            total = len(own) + len(expected)
            if total:
                best = max(best, 2 * len(own & expected) / total)
        return best

    def _covered(self, reference: Passage) -> float:
        """The mean over the reference's statements of how much of it the answer says
        beyond the question, in [0, 1]."""
        answer = Passage(self.sentences, self.language)
        shares: list[float] = []
        for sentence in reference.sentences:
            words = self._words(sentence.key_set - self.question.sentence.key_set)
            if words:
                shares.append(min(1.0, _held(words, [answer]) / _WHOLE))
        return fmean(shares or [1.0])


def _held(words: Collection[str], texts: Sequence[Passage]) -> float:
    """The share of `words` that some of `texts` has."""
    held = 0
    for word in words:
        held += any(positions_of(word, text.places) for text in texts)
    return held / len(words)


def is_phrase(sentences: Sequence[Sentence]) -> bool:
    """Whether an answer is a phrase rather than a sentence: "30 days", "Yes, with a
    receipt", "It is Ada"."""
    first = sentences[0]
    is_short = 0 < len(first.surface) <= _PHRASE_WORDS
    if len(sentences) > 1 or not is_short or ": " in first.text:
        return False
    if first.tokens[0] not in first.language.pronouns and has_verb(first):
        return False
    plain = 0
    for token, key in zip(first.surface, first.sequence, strict=False):
        plain += bool(key) and token.islower()
    return plain <= _PLAIN_WORDS


@cache
def _vague(language: Language) -> KeySet:
    return frozenset(map(keys_of(language).of, language.vague))


def _all_keys(sentences: Sequence[Sentence]) -> KeySet:
    return union(sentence.key_set for sentence in sentences)
