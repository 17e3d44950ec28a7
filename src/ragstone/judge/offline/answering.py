"""Answer relevancy: is an answer on topic, new, specific, of the kind asked for, and free of evasion?

This replaces reverse questions, which need a generating model. A vague answer echoes the question's words, so plain
similarity prefers it; what it lacks is content beyond the question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragstone.judge.offline.abstention import refuses
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Sentence
from ragstone.judge.offline.relevance import Question, has_kind
from ragstone.judge.offline.tokens import NUMBER, key_sequence

FEATURES = ("on_topic", "says_new", "specific", "kind_of_answer", "unhedged", "precise", "firm")
"""Names of the features of an answer to its question, all in [0, 1]; higher is better."""

_ENOUGH_TOPIC = 0.4
_MUCH_NEW = 8.0
_MANY_SPECIFICS = 2.0
_SHORT = 6
_VAGUE_FACTOR = 5.0


def features(
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
