"""Features of a statement against the passages that should hold it: all in [0, 1], more is better supported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    "few_missing_in_window",
    "numbers_held",
    "names_held",
    "no_gap",
    "words_held",
    "few_words_missing",
    "negation_agrees",
    "impersonal",
    "unhedged",
    "claims",
)
"""Names of the features, in the order of `Match.features`."""

_WINDOW = 3
_PREFIX = 5


@dataclass(frozen=True, slots=True)
class Match:
    """How well one passage (the best for this statement) holds a statement."""

    features: tuple[float, ...]
    passage: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is the same for every passage."""

    weights: Mapping[str, float]
    total: float
    pairs: set[tuple[str, str]]
    names: frozenset[str]
    numbers: tuple[str, ...]
    function: frozenset[str]
    manner: tuple[float, ...]


def match(statement: Sentence, passages: Sequence[Passage], rarity: Rarity, language: Language) -> list[Match]:
    """One Match a passage, in order. `passages` is not empty."""
    weights = rarity.weights(statement.key_set)
    asked = _Asked(
        weights=weights,
        total=sum(weights.values()),
        pairs=key_pairs(statement.keys),
        names=_names(statement, language),
        numbers=tuple(key for key in weights if key.startswith(NUMBER)),
        function=statement.function,
        manner=_manner(statement, language),
    )
    return [Match(_features(statement, asked, passage), rank) for rank, passage in enumerate(passages)]


def _features(statement: Sentence, asked: _Asked, passage: Passage) -> tuple[float, ...]:
    weights, total = asked.weights, asked.total
    function = len(asked.function & passage.function)
    if not total:
        return (0.0,) * 8 + _words(function, len(asked.function)) + (1.0,) + asked.manner
    places = passage.places
    held: set[str] = set()
    by_sentence: dict[int, float] = {}
    for key, weight in weights.items():
        where = find_key(key, places)
        if where:
            held.add(key)
            for position in where:
                by_sentence[position] = by_sentence.get(position, 0.0) + weight
    if not held:
        return (0.0,) * 8 + _words(function, len(asked.function) + len(weights)) + (1.0,) + asked.manner
    best = max(by_sentence, key=lambda position: (by_sentence[position], -position))
    window, missing_there = _best_window(weights, passage, by_sentence)
    return (
        sum(weights[key] for key in held) / total,
        window / total,
        by_sentence[best] / total,
        len(asked.pairs & passage.pairs) / len(asked.pairs) if asked.pairs else 1.0,
        1.0 / (1 + missing_there),
        _share(asked.numbers, held),
        _share(asked.names, held),
        1.0 - _longest_gap(statement.keys, held) / len(statement.keys),
        *_words(function + len(held), len(asked.function) + len(weights)),
        float(passage.sentences[best].negated == statement.negated),
        *asked.manner,
    )


def _words(held: int, of: int) -> tuple[float, float]:
    """The share of all words held, function words included, and how few are missing (0 from ten on)."""
    return (held / of if of else 1.0, max(0.0, 1.0 - (of - held) / 10))


def _share(keys: Iterable[str], held: set[str]) -> float:
    """The share of `keys` that is held; 1 when there are none."""
    found = [key in held for key in keys]
    return sum(found) / len(found) if found else 1.0


def _best_window(weights: Mapping[str, float], passage: Passage, by_sentence: Mapping[int, float]) -> tuple[float, int]:
    """The greatest weight of statement keys that `_WINDOW` neighbouring sentences hold, and how many keys they lack."""
    best, missing = 0.0, len(weights)
    sentences = passage.sentences
    for start in {max(0, position - shift) for position in by_sentence for shift in range(_WINDOW)}:
        near = range(start, min(start + _WINDOW, len(sentences)))
        if sum(by_sentence.get(position, 0.0) for position in near) <= best:
            continue
        together = weights.keys() & frozenset().union(*(sentences[position].key_set for position in near))
        weight = sum(weights[key] for key in together)
        if weight > best:
            best, missing = weight, len(weights) - len(together)
    return best, missing


def find_key(key: str, places: Mapping[str, list[int]]) -> list[int] | None:
    """Where `key` stands, or else one of its word family: the key cut by a letter or two, five letters at least."""
    found = places.get(key)
    if found:
        return found
    if len(key) <= _PREFIX or key.startswith(NUMBER):
        return None
    return places.get(key[:-1]) or (places.get(key[:-2]) if len(key) > _PREFIX + 1 else None)


def _names(statement: Sentence, language: Language) -> frozenset[str]:
    """Keys of words written with a capital, the first word aside (German nouns are no names, but rare words too)."""
    capitals = [token.lower() for token in statement.surface[1:] if token[0].isupper()]
    return frozenset(key for key in key_sequence(capitals, language) if key in statement.key_set)


def _manner(statement: Sentence, language: Language) -> tuple[float, float, float]:
    """Impersonal, unhedged, and not a question."""
    lowered = [token.lower() for token in statement.surface]
    if not lowered:
        return (1.0, 1.0, 1.0)
    personal = sum(token in language.personal for token in lowered)
    hedged = not language.hedges.isdisjoint(lowered)
    return (
        1.0 - min(1.0, 4 * personal / len(lowered)),
        float(not hedged),
        float(not statement.text.endswith(("?", "？", "؟"))),
    )


def _longest_gap(keys: Sequence[str], held: set[str]) -> int:
    longest = run = 0
    for key in keys:
        run = 0 if key in held else run + 1
        longest = max(longest, run)
    return longest
