"""Is a text relevant to a question: does it share rare words, and have a phrase of the kind asked for?

And is an answer about what was asked, new, specific, of the kind asked for, and free of evasion? This replaces reverse
questions, which need a generating model. A vague answer echoes the question's words, so plain similarity prefers it;
what it lacks is content beyond the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise

from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.evidence import holds_key
from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.statements import FINITE_VERB
from ragstone.judge.offline.tokens import NUMBER, key_sequence

FEATURES = ("question_held", "question_pairs_held", "focus_held", "kind_of_answer")
"""Names of the features of a text compared with a question, all in [0, 1]."""

_MONTH = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b|\b\d{1,2}(?:st|nd|rd|th)? century\b", re.IGNORECASE)
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|in order to|as a result|therefore|caused|leads? to|reason|thus|weil|denn|damit"
    r"|parce|car|afin|porque|para|perché|affinché)\b",
    re.IGNORECASE,
)


@cache
def _kinds() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(cue, re.IGNORECASE)) for kind, cue in load_data("questions.json").items())


@dataclass(frozen=True, slots=True)
class Question:
    """A question, parsed once. `focus` are its longest keys, at most two."""

    sentence: Sentence
    pairs: frozenset[tuple[str, str]]
    kind: str | None
    focus: tuple[str, ...]


def read_question(sentence: Sentence) -> Question:
    """The question in `sentence`, with the kind of phrase that would answer it."""
    kind = next((name for name, cue in _kinds() if cue.search(sentence.text)), None)
    ranked = sorted(sentence.key_set, key=lambda key: (-len(key), key))
    return Question(sentence, frozenset(pairwise(sentence.keys)), kind, tuple(ranked[:2]))


def features(question: Question, sentences: Sequence[Sentence]) -> tuple[float, ...]:
    """The features of a text, given as its sentences, compared with `question`."""
    asked = question.sentence.key_set
    if not asked:
        return (0.0, 0.0, 0.0, 0.0)
    kind = float(any(has_kind(question, sentence) for sentence in sentences))
    held = asked.intersection(chain.from_iterable(sentence.keys for sentence in sentences))
    if not held:
        return (0.0, 0.0, 0.0, kind)
    pairs = chain.from_iterable(pairwise(sentence.keys) for sentence in sentences)
    return (
        len(held) / len(asked),
        len(question.pairs.intersection(pairs)) / len(question.pairs) if question.pairs else 0.0,
        sum(key in held for key in question.focus) / len(question.focus),
        kind,
    )


def has_kind(question: Question, sentence: Sentence) -> bool:
    """Whether `sentence` has a phrase of the kind asked for, not from the question. True if no kind is asked for."""
    if question.kind is None:
        return bool(sentence.key_set - question.sentence.key_set)
    new = sentence.key_set - question.sentence.key_set
    if question.kind == "when":
        return bool(_MONTH.search(sentence.text)) or any(key.startswith(NUMBER) for key in new)
    if question.kind == "number":
        return any(key.startswith(NUMBER) for key in new)
    if question.kind == "why":
        return _REASON.search(sentence.text) is not None
    asked = {token.lower() for token in question.sentence.surface}
    return any(token[:1].isupper() and token.lower() not in asked for token in sentence.surface[1:]) or (
        bool(sentence.surface) and sentence.surface[0][:1].isupper() and len(sentence.surface) <= 4
    )


ANSWER_FEATURES = (
    "on_topic",
    "says_new",
    "specific",
    "kind_of_answer",
    "unhedged",
    "precise",
    "firm",
    "question_shared",
    "grounded",
)
"""Names of the features of an answer to its question, all in [0, 1]; higher is better."""

_ENOUGH_TOPIC = 0.4
_MUCH_NEW = 8.0
_MANY_SPECIFICS = 2.0
_VAGUE_FACTOR = 5.0
_HALF = 0.5
_SHORT = 2
_SHORT_WORDS = 8
_ABOUT = 0.2
_LIKE_REFERENCE = 0.3
_FROM_CONTEXTS = 0.5
"""How much of the question an answer about it shares at least, how much it is like a reference, and from which share on
its words being in the contexts says so."""

_THING = re.compile(r"^(?:what|which|was|welche[rs]?|que|quel(?:le)?s?|qué|cuál|quale|qual|wat|welke)\b", re.IGNORECASE)
_YES_OR_NO = re.compile(
    r"(?:yes|no|ja|nein|oui|non|sí|sì|sim|não|nee|do|does|did|is|are|was|were|can|could|may|must|will|has|have)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, given as its statements (at least one), its question, and what else it can be compared with.

    That is the contexts and the references. `nearness` is the topic similarity by embeddings, in [0, 1]; None without
    embeddings.
    """

    question: Question
    sentences: Sequence[Sentence]
    language: Language
    contexts: Sequence[Passage] = ()
    references: Sequence[Passage] = ()
    nearness: float | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The content keys of all statements."""
        return frozenset[str]().union(*(sentence.key_set for sentence in self.sentences))

    def answer_features(self) -> tuple[float, ...]:
        """The features of the answer, as `ANSWER_FEATURES` names them."""
        sentences, keys = self.sentences, self.keys
        new = keys - self.question.sentence.key_set
        kind = any(has_kind(self.question, sentence) for sentence in sentences)
        shared = _shared(self.question, keys)
        lowered = [sentence.tokens for sentence in sentences]
        words = sum(len(tokens) for tokens in lowered)
        hedged = sum(not self.language.hedges.isdisjoint(tokens) for tokens in lowered)
        vague = sum(token in self.language.vague for tokens in lowered for token in tokens)
        alike = max((self._alike(one) for one in self.references), default=0.0)
        brief = self.fits()
        return (
            1.0 if brief else _on_topic(shared, self.nearness),
            1.0 if brief else 1.0 - math.exp(-len(new) / _MUCH_NEW),
            1.0 - math.exp(-_specifics(sentences, new, self.language) / _MANY_SPECIFICS),
            float(kind),
            1.0 - hedged / len(sentences),
            max(0.0, 1.0 - _VAGUE_FACTOR * vague / words) if words else 1.0,
            1.0 - sum(refuses(sentence.text, self.language.code) for sentence in sentences) / len(sentences),
            1.0 if brief else min(1.0, max(shared, self.nearness or 0.0) + alike),
            1.0 if brief else self._grounded(),
        )

    def about(self) -> float:
        """How sure it is that the answer is about what was asked, in [0, 1], whether or not it is right.

        It is, if it shares the question's words, or what a reference or the contexts say besides these, or if it is
        short and a phrase of the kind asked for. Numbers don't count: "60 days" is as much about the question as
        "30 days".
        """
        if self.fits():
            return 1.0
        evidence = [_shared(self.question, self.keys) / _ABOUT, (self.nearness or 0.0) / _ENOUGH_TOPIC]
        evidence.extend(self._alike(passage) / _LIKE_REFERENCE for passage in self.references)
        if self.contexts:
            evidence.append((self._grounded() - _FROM_CONTEXTS) / (1 - _FROM_CONTEXTS))
        return min(1.0, max(0.0, *evidence))

    def fits(self) -> bool:
        """Whether the answer is short, and of the kind asked for, or of the kind that a reference is, or found in one;
        or in the contexts, if there is no reference.
        """
        question, language = self.question, self.language
        if not is_brief(self.sentences, language):
            return False
        phrase = self.sentences[0]
        if question.kind is not None and has_kind(question, phrase):
            return True
        if _YES_OR_NO.match(question.sentence.text) and (
            _YES_OR_NO.match(phrase.text) or phrase.tokens[0] in language.pronouns
        ):
            return True
        words = phrase.key_set - question.sentence.key_set - phrase.numbers
        number = bool(phrase.numbers)
        if any(
            is_brief(one.sentences, language) and number is bool(one.sentences[0].numbers) for one in self.references
        ):
            return True
        if not number and _THING.search(question.sentence.text) and self._alike_in_case(phrase):
            return True
        passages = self.references or self.contexts
        return not passages or any(
            all(holds_key(key, one.places) for key in words)
            and (bool(words) or any(key.startswith(NUMBER) for key in one.places))
            for one in passages
        )

    def _grounded(self) -> float:
        """The share of what the answer says beyond the question, that the contexts or references say.

        Numbers count as found. 1 if there is nothing to compare with, or nothing new.
        """
        passages = (*self.contexts, *self.references)
        keys = _without_numbers(self.keys - self.question.sentence.key_set)
        if not passages or not keys:
            return 1.0
        return sum(any(holds_key(key, one.places) for one in passages) for key in keys) / len(keys)

    def _alike(self, reference: Passage) -> float:
        """F1, of what the answer and a reference say beyond the question, numbers left out."""
        asked = self.question.sentence.key_set
        mine, theirs = _without_numbers(self.keys - asked), _without_numbers(reference.places.keys() - asked)
        total = len(mine) + len(theirs)
        return 2 * len(mine & theirs) / total if total else 0.0

    def _alike_in_case(self, phrase: Sentence) -> bool:
        """Whether a short answer is a name where a reference, or a sentence of the contexts that shares half of the
        question, has a name that the question lacks; or neither is one.
        """
        said = [
            sentence
            for one in self.references or self.contexts
            for sentence in one.sentences
            if self.references or _shared(self.question, sentence.key_set) >= _HALF
        ]
        name = all(token.istitle() for token, key in zip(phrase.surface, phrase.sequence, strict=False) if key)
        asked = self.question.sentence.tokens
        names = any(token.istitle() and token.lower() not in asked for one in said for token in one.surface[1:])
        return bool(said) and name is names


def is_brief(sentences: Sequence[Sentence], language: Language) -> bool:
    """Whether an answer is a phrase rather than a sentence: "30 days", "Yes, with a receipt", "It is Ada"."""
    if len(sentences) != 1:
        return False
    only = sentences[0]
    if not only.surface or len(only.surface) > _SHORT_WORDS or ": " in only.text:
        return False
    if FINITE_VERB.search(only.text) and only.tokens[0] not in language.pronouns:
        return False
    tokens = [token for token, key in zip(only.surface, only.sequence, strict=False) if key]
    names = sum(token.istitle() for token in tokens)
    plain = sum(token.islower() for token in tokens)
    opens = bool(tokens) and names == 1 and tokens[0] == only.surface[0]
    number = any(key.startswith(NUMBER) for key in only.sequence[:4])
    return plain + opens <= (_SHORT if opens or not names else 1) + number


def _shared(question: Question, keys: Collection[str]) -> float:
    """The share of the question, that is in `keys`."""
    asked = question.sentence.key_set
    return len(asked.intersection(keys)) / max(1, len(asked))


def _without_numbers(keys: Iterable[str]) -> set[str]:
    return {key for key in keys if not key.startswith(NUMBER)}


def _on_topic(shared: float, nearness: float | None) -> float:
    """The mean of words and meaning. Each counts in full from 0.4 on: echoing the question gains nothing more."""
    by_words = min(1.0, shared / _ENOUGH_TOPIC)
    if nearness is None:
        return by_words
    return (by_words + min(1.0, nearness / _ENOUGH_TOPIC)) / 2


def _specifics(sentences: Sequence[Sentence], new: frozenset[str], language: Language) -> int:
    """Numbers and capitalised names that are not in the question."""
    numbers = sum(key.startswith(NUMBER) for key in new)
    capitals = {
        token.lower()
        for sentence in sentences
        if not sentence.text[1:].islower()
        for token in sentence.surface[1:]
        if token[0].isupper()
    }
    names = {key for key in key_sequence(sorted(capitals), language) if key in new and not key.startswith(NUMBER)}
    return numbers + len(names)
