"""Is a text relevant to a question: does it share rare words, and have a phrase of the kind asked for?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from ragstone.judge.offline.lexicon import load_data
from ragstone.judge.offline.passage import Sentence, neighbours
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.tokens import NUMBER

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
