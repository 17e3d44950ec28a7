"""Whether a text is relevant to a question, and whether an answer addresses it.

A relevant text shares words with the question and has a phrase of the kind that would
answer it. An answer also says something new, and all that the reference says. This
replaces reverse questions, which need a generating model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence, Set
from functools import cache
from statistics import fmean

from msgspec import Struct

from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.bare import opening_word
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.model import Logistic
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.phrases import SHARED, has_phrase
from ragstone.judge.offline.statement_evidence import find_key, match
from ragstone.judge.offline.statements import has_verb
from ragstone.judge.offline.tokens import NUMBER, KeySet, keys_of, union
from ragstone.judge.sentences import split_sentences

FEATURES = ("question_held", "kind_of_answer")
"""The features of a text for a question: the share of the question's words that it has,
and 1 if it has a phrase of the kind that would answer it, else 0."""

ANSWER_FEATURES = ("topic", "says_new", "kind_of_answer", "grounded", "on_topic")
"""The features of an answer to its question, in [0, 1]: how much of the question and of
the reference it shares; how much it says besides; 1 if it has a phrase of the kind that
would answer the question, else 0; how much of what it says besides is in the contexts
or references; and how much of the question it shares, where _ENOUGH_SHARED is 1, so
that echoing the question gains nothing more."""

MAX_UNCERTAIN = 0.3
"""The highest relevancy of a phrase such as "30 days" that no context and no reference
has: words can't tell what it is about."""

_MAX_NAME_TOKENS = 4
"""A text of so few tokens may begin with a name."""
_NEW_WORDS_SCALE = 8.0
"""After this many new words, `says_new` is 1 - 1/e."""
_MAX_PHRASE_TOKENS = 8
_MAX_PLAIN_WORDS = 2
"""A phrase has at most this many content words in small letters."""
_MIN_SHARED = 0.2
"""The share of the question's words from which a statement is surely about it."""
_ENOUGH_SHARED = 0.4
"""The share of the question's words that an answer needs at most."""
_MIN_LIKENESS = 0.3
"""The F1 with a reference from which a statement is surely about the question."""
_MIN_GROUNDED = 0.5
"""Only a larger share of a statement's new words in the contexts says that it is about
the question."""
_MIN_COVERING_SHARE = 0.6
"""The share of a reference's statement, beyond the question, from which an answer makes
this statement."""
_UNCOVERED_FACTOR = 0.5
"""What is left of the relevancy of an answer that covers nothing of a reference: it may
say the same in other words."""


class Question(Struct, frozen=True):
    """A question, parsed once."""

    sentence: Sentence
    kind: str | None
    """The kind of phrase that would answer it ("when", "number", …); None if a yes or
    no would."""

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
    """The FEATURES of a text, given as its sentences, for `question`."""
    has_phrase_of_kind = any_of_kind(question, sentences)
    return question.shared(_all_keys(sentences)), float(has_phrase_of_kind)


def any_of_kind(question: Question, sentences: Sequence[Sentence]) -> bool:
    """Whether any of `sentences` has a phrase of the kind asked for."""
    return any(is_of_kind(question, sentence) for sentence in sentences)


def is_of_kind(question: Question, sentence: Sentence) -> bool:
    """Whether `sentence` has a phrase of the kind asked for that is not from the
    question."""
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
            # A word with a capital. The first word has one in any sentence, so that it
            # counts only in a short phrase.
            question_words = set(map(str.lower, question.sentence.surface_forms))
            first = int(len(sentence.surface_forms) > _MAX_NAME_TOKENS)
            tokens = sentence.surface_forms[first:]
            names = [token for token in tokens if token[0].isupper()]
            return not question_words.issuperset(map(str.lower, names))
    return bool(new)


class Answer(Struct, frozen=True):
    """An answer, and the texts that it is compared with."""

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
        """How sure it is that the answer, right or wrong, addresses the question, in
        [0, 1]: the probability by `model`, times the share of the answer that is about
        the question, times a factor for the share of the reference that it covers.

        A phrase instead of a sentence has 1 if it answers the question by a text, and
        else at most MAX_UNCERTAIN. That limit is not for "It was built in 1871", which
        has the question's verb.
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
        total_weight = 0.0
        weight_about_question = 0.0
        for sentence in self.sentences:
            weight = len(sentence.key_set) or 1
            total_weight += weight
            weight_about_question += weight * self._about(sentence)
        covered = max(map(self._covered, self.references), default=1.0)
        probability = model.probability(self.features())
        relevancy = probability * weight_about_question / total_weight
        relevancy *= _UNCOVERED_FACTOR + (1 - _UNCOVERED_FACTOR) * covered
        return min(relevancy, MAX_UNCERTAIN) if is_uncertain else relevancy

    def features(self) -> tuple[float, ...]:
        """The ANSWER_FEATURES of the answer."""
        keys = _all_keys(self.sentences)
        new = self._new_keys(keys)
        shared = self.question.shared(keys)
        return (
            min(1.0, shared + self._likeness(keys)),
            1.0 - math.exp(-len(new) / _NEW_WORDS_SCALE),
            float(any_of_kind(self.question, self.sentences)),
            self._grounded(new),
            min(1.0, shared / _ENOUGH_SHARED),
        )

    def _about(self, sentence: Sentence) -> float:
        """How sure it is that a statement is about the question, in [0, 1]: it shares
        the question's words, or says what a reference or the contexts say besides. A
        refusal is not about the question.

        Numbers don't count: "60 days" is as much about the question as "30 days".
        """
        if refuses(sentence.text, self.language.code):
            return 0.0
        keys = sentence.key_set
        new = self._new_keys(keys)
        # It only repeats the question, which answers it if a yes or no would.
        if not new and self.question.kind is not None:
            return 0.0
        evidence = [
            self.question.shared(keys) / _MIN_SHARED,
            self._likeness(keys) / _MIN_LIKENESS,
        ]
        if self.contexts:
            excess = self._grounded(new) - _MIN_GROUNDED
            evidence.append(excess / (1 - _MIN_GROUNDED))
        return min(1.0, max(evidence))

    def _new_keys(self, keys: Set[str]) -> Set[str]:
        """The `keys` that are not in the question, without those of vague words such as
        "provided" and "important"."""
        return keys - self.question.sentence.key_set - _vague_keys(self.language)

    def _is_answered_by(self, phrase: Sentence) -> bool:
        """Whether a phrase answers the question: a yes or no where that is asked for,
        or a phrase of the kind asked for, of which a text has the numbers, the names
        and most words."""
        opens_with_pronoun = phrase.tokens[0] in self.language.pronouns
        if self.question.kind is None and (
            opens_with_pronoun or opening_word(phrase.text) is not None
        ):
            return True
        if not self.texts:
            return False
        # A phrase may repeat words of the question.
        question = Passage([self.question.sentence], self.language)
        evidence = match(phrase, [*self.texts, question])
        has_facts = evidence["numbers"] == evidence["names"] == 1.0
        has_most_words = evidence["content"] > _MIN_GROUNDED
        return has_facts and has_most_words and is_of_kind(self.question, phrase)

    def _grounded(self, keys: Iterable[str]) -> float:
        """The share of `keys`, without numbers, that the contexts or references have; 1
        if there are no keys or no texts."""
        words = self._words(keys)
        return _share_in(words, self.texts) if self.texts and words else 1.0

    def _words(self, keys: Iterable[str]) -> set[str]:
        """The `keys` that are neither numbers nor units."""
        units = keys_of(self.language).units
        return {key for key in keys if key not in units and key[0] != NUMBER}

    def _likeness(self, keys: Iterable[str]) -> float:
        """The F1 of `keys` and those of the most similar reference, without numbers and
        the words of the question."""
        question_keys = self.question.sentence.key_set
        words = self._words(keys) - question_keys
        best = 0.0
        for reference in self.references:
            reference_words = self._words(reference.positions) - question_keys
            total = len(words) + len(reference_words)
            if total:
                best = max(best, 2 * len(words & reference_words) / total)
        return best

    def _covered(self, reference: Passage) -> float:
        """The mean over the reference's statements of how much of the statement,
        without the words of the question, the answer says, in [0, 1]."""
        answer = Passage(self.sentences, self.language)
        shares: list[float] = []
        for sentence in reference.sentences:
            words = self._words(sentence.key_set - self.question.sentence.key_set)
            if words:
                share = _share_in(words, [answer]) / _MIN_COVERING_SHARE
                shares.append(min(1.0, share))
        return fmean(shares or [1.0])


def _share_in(words: Collection[str], texts: Sequence[Passage]) -> float:
    """The share of `words` that any of `texts` has."""
    count = 0
    for word in words:
        count += any(find_key(word, text.positions) for text in texts)
    return count / len(words)


def is_phrase(sentences: Sequence[Sentence]) -> bool:
    """Whether an answer is a phrase rather than a sentence: "30 days", "Yes, with a
    receipt", "It is Ada"."""
    first = sentences[0]
    is_short = 0 < len(first.surface_forms) <= _MAX_PHRASE_TOKENS
    if len(sentences) > 1 or not is_short or ": " in first.text:
        return False
    if first.tokens[0] not in first.language.pronouns and has_verb(first):
        return False
    plain_words = 0
    for token, key in zip(first.surface_forms, first.key_sequence, strict=False):
        plain_words += bool(key) and token.islower()
    return plain_words <= _MAX_PLAIN_WORDS


@cache
def _vague_keys(language: Language) -> KeySet:
    return frozenset(map(keys_of(language).key, language.vague_words))


def _all_keys(sentences: Sequence[Sentence]) -> KeySet:
    return union(sentence.key_set for sentence in sentences)
