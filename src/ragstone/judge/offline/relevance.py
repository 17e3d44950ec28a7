"""Is a text relevant to a question: does it share rare words, and have a phrase of the kind asked for?

And is an answer on topic, new, specific, of the kind asked for, and free of evasion? This replaces reverse questions,
which need a generating model. A vague answer echoes the question's words, so plain similarity prefers it; what it lacks
is content beyond the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.lexicon import Language, load_data
from ragstone.judge.offline.passage import Sentence, neighbours
from ragstone.judge.offline.rarity import Rarity
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
    """A question, parsed once. `total` is the sum of its keys' weights; `focus` are its heaviest keys, at most two."""

    sentence: Sentence
    weights: dict[str, float]
    pairs: frozenset[tuple[str, str]]
    kind: str | None
    total: float
    focus: tuple[str, ...]


def read_question(sentence: Sentence, rarity: Rarity) -> Question:
    """The question in `sentence`, with the kind of phrase that would answer it."""
    kind = next((name for name, cue in _kinds() if cue.search(sentence.text)), None)
    weights = rarity.weights(sentence.keys)
    ranked = sorted(weights, key=lambda key: (-weights[key], -len(key), key))
    pairs = frozenset(neighbours(sentence.keys))
    return Question(sentence, weights, pairs, kind, sum(weights.values()), tuple(ranked[:2]))


def features(question: Question, sentences: Sequence[Sentence]) -> tuple[float, ...]:
    """The features of a text, given as its sentences, compared with `question`."""
    if not question.total:
        return (0.0, 0.0, 0.0, 0.0)
    kind = float(any(has_kind(question, sentence) for sentence in sentences))
    held = question.weights.keys() & chain.from_iterable(sentence.keys for sentence in sentences)
    if not held:
        return (0.0, 0.0, 0.0, kind)
    pairs = chain.from_iterable(neighbours(sentence.keys) for sentence in sentences)
    return (
        sum(weight for key, weight in question.weights.items() if key in held) / question.total,
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


ANSWER_FEATURES = ("on_topic", "says_new", "specific", "kind_of_answer", "unhedged", "precise", "firm")
"""Names of the features of an answer to its question, all in [0, 1]; higher is better."""

_ENOUGH_TOPIC = 0.4
_MUCH_NEW = 8.0
_MANY_SPECIFICS = 2.0
_SHORT = 6
_VAGUE_FACTOR = 5.0


def answer_features(
    question: Question, sentences: Sequence[Sentence], language: Language, *, nearness: float | None = None
) -> tuple[float, ...]:
    """The features of an answer, given as its statements (at least one).

    `nearness` is the topic similarity by embeddings, in [0, 1]; None without embeddings.
    """
    asked = question.sentence.key_set
    keys = frozenset[str]().union(*(sentence.key_set for sentence in sentences))
    new = keys - asked
    kind = any(has_kind(question, sentence) for sentence in sentences)
    total = question.total
    shared = sum(weight for key, weight in question.weights.items() if key in keys) / total if total else 0.0
    lowered = [sentence.lowered for sentence in sentences]
    words = sum(len(tokens) for tokens in lowered)
    hedged = sum(not language.hedges.isdisjoint(tokens) for tokens in lowered)
    vague = sum(token in language.vague for tokens in lowered for token in tokens)
    brief = len(keys) <= _SHORT and kind
    return (
        1.0 if brief else _on_topic(shared, nearness),
        1.0 if brief else 1.0 - math.exp(-len(new) / _MUCH_NEW),
        1.0 - math.exp(-_specifics(sentences, new, language) / _MANY_SPECIFICS),
        float(kind),
        1.0 - hedged / len(sentences),
        max(0.0, 1.0 - _VAGUE_FACTOR * vague / words) if words else 1.0,
        1.0 - sum(refuses(sentence, language) for sentence in sentences) / len(sentences),
    )


def _on_topic(shared: float, nearness: float | None) -> float:
    """The mean of words and meaning. Each counts in full from 0.4 on, so that echoing the question gains nothing more.

    The mean did better on CLAPNQ than the larger of the two, or meaning alone (docs/judges.md).
    """
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
        if sentence.capitals
        for token in sentence.surface[1:]
        if token[0].isupper()
    }
    names = {key for key in key_sequence(sorted(capitals), language) if key in new and not key.startswith(NUMBER)}
    return numbers + len(names)
