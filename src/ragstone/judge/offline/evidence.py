"""Features of a statement against the passages that should hold it: all in [0, 1], more is better supported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Passage, Sentence, key_pairs
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.tokens import NUMBER, key_sequence

FEATURES = (
    "held_by_passage",
    "held_by_window",
    "held_by_sentence",
    "pairs_held",
    "numbers_held",
    "names_held",
    "no_gap",
    "complete",
    "negation_agrees",
    "impersonal",
    "unhedged",
)
"""Names of the features, in the order of `Match.features`."""

_WINDOW = 3
_PREFIX = 5


@dataclass(frozen=True, slots=True)
class Match:
    """How well one passage (the best for this statement) holds a statement."""

    features: tuple[float, ...]
    passage: int


def match(statement: Sentence, passages: Sequence[Passage], rarity: Rarity, language: Language) -> list[Match]:
    """One Match a passage, in order. `passages` is not empty."""
    weights = rarity.weights(statement.key_set)
    pairs = key_pairs(statement.keys)
    names = _names(statement, language)
    manner = _manner(statement, language)
    return [
        Match(_features(statement, passage, weights, pairs, names, manner), position)
        for position, passage in enumerate(passages)
    ]


def _features(
    statement: Sentence,
    passage: Passage,
    weights: dict[str, float],
    pairs: set[tuple[str, str]],
    names: frozenset[str],
    manner: tuple[float, float],
) -> tuple[float, ...]:
    total = sum(weights.values())
    if not total:
        return (0.0,) * (len(FEATURES) - 2) + manner
    places = passage.places
    held: dict[str, float] = {}
    by_sentence: dict[int, float] = {}
    for key, weight in weights.items():
        where = places.get(key)
        if where is not None:
            held[key] = weight
            for position in where:
                by_sentence[position] = by_sentence.get(position, 0.0) + weight
        else:
            near = _near(key, places)
            if near:
                held[key] = weight * 0.8
                for position in places[near]:
                    by_sentence[position] = by_sentence.get(position, 0.0) + weight * 0.8
    best = max(by_sentence, key=lambda position: (by_sentence[position], -position)) if by_sentence else None
    window = _best_window(weights, passage, by_sentence)
    numbers = [key for key in weights if key.startswith(NUMBER)]
    agrees = best is None or passage.sentences[best].negated == statement.negated
    return (
        sum(held.values()) / total,
        window / total,
        (by_sentence[best] / total) if best is not None else 0.0,
        len(pairs & passage.pairs) / len(pairs) if pairs else float(bool(held)),
        sum(key in held for key in numbers) / len(numbers) if numbers else 1.0,
        sum(key in held for key in names) / len(names) if names else 1.0,
        1.0 - _longest_gap(statement.keys, held) / len(statement.keys),
        float(len(held) == len(weights)),
        float(agrees),
        *manner,
    )


def _best_window(weights: dict[str, float], passage: Passage, by_sentence: dict[int, float]) -> float:
    """The greatest weight of statement keys held by `_WINDOW` neighbouring sentences together."""
    best = 0.0
    for start in {max(0, position - shift) for position in by_sentence for shift in range(_WINDOW)}:
        together: set[str] = set()
        for sentence in passage.sentences[start : start + _WINDOW]:
            together |= sentence.key_set
        best = max(best, sum(weight for key, weight in weights.items() if key in together))
    return best


def _near(key: str, places: dict[str, list[int]]) -> str | None:
    """A key of the same word family: one is the beginning of the other, five letters at least."""
    if len(key) < _PREFIX or key.startswith(NUMBER):
        return None
    for cut in (key[:-1], key[:-2]):
        if len(cut) >= _PREFIX and cut in places:
            return cut
    return None


def _names(statement: Sentence, language: Language) -> frozenset[str]:
    """Keys of words written with a capital, the first word aside (German nouns are no names, but rare words too)."""
    capitals = [token.lower() for token in statement.surface[1:] if token[0].isupper()]
    return frozenset(key for key in key_sequence(capitals, language) if key in statement.key_set)


def _manner(statement: Sentence, language: Language) -> tuple[float, float]:
    lowered = [token.lower() for token in statement.surface]
    if not lowered:
        return (1.0, 1.0)
    personal = sum(token in language.personal for token in lowered)
    hedged = any(token in language.hedges for token in lowered)
    return (1.0 - min(1.0, 4 * personal / len(lowered)), 1.0 - hedged)


def _longest_gap(keys: Sequence[str], held: dict[str, float]) -> int:
    longest = run = 0
    for key in keys:
        run = 0 if key in held else run + 1
        longest = max(longest, run)
    return longest
