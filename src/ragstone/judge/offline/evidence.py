"""Features of a statement against the passages that should hold it: all in [0, 1], more is better supported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Passage, Sentence, key_pairs
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.tokens import NUMBER, key_sequence, keys_of

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
    "no_opposite",
    "impersonal",
    "unhedged",
    "claims",
)
"""Names of the features, in the order of `Match.features`."""

Opposites = Mapping[str, tuple[frozenset[str], frozenset[str]]]

_WINDOW = 3
_NEAR = 0.5
_PREFIX = 5


@dataclass(frozen=True, slots=True)
class Match:
    """How well one passage holds a statement. `contradicts`: it says the same with a negation, an opposite or a number
    of its own. The training sets hold too few contradictions to learn that from, so it is a rule and no feature alone.
    """

    features: tuple[float, ...]
    contradicts: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is the same for every passage."""

    weights: Mapping[str, float]
    total: float
    pairs: set[tuple[str, str]]
    names: frozenset[str]
    numbers: tuple[str, ...]
    function: frozenset[str]
    opposites: Opposites
    manner: tuple[float, ...]


def match(statement: Sentence, passages: Sequence[Passage], rarity: Rarity, language: Language) -> list[Match]:
    """One Match a passage, in order. `passages` is not empty."""
    weights = rarity.weights(statement.keys)
    asked = _Asked(
        weights=weights,
        total=sum(weights.values()),
        pairs=key_pairs(statement.keys),
        names=_names(statement, language),
        numbers=tuple(key for key in weights if key.startswith(NUMBER)),
        function=statement.function,
        opposites=keys_of(language.code).opposites,
        manner=_manner(statement, language),
    )
    return [_match(statement, asked, passage) for passage in passages]


def _match(statement: Sentence, asked: _Asked, passage: Passage) -> Match:
    weights, total = asked.weights, asked.total
    function = len(asked.function & passage.function)
    if not total:
        return Match((0.0,) * 8 + _words(function, len(asked.function)) + (1.0, 1.0) + asked.manner)
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
        words = _words(function, len(asked.function) + len(weights))
        return Match((0.0,) * 8 + words + (1.0, 1.0) + asked.manner)
    best = max(by_sentence, key=lambda position: (by_sentence[position], -position))
    window, missing_there = _best_window(weights, passage, by_sentence)
    closest = passage.sentences[best]
    agrees = _negation_agrees(statement, passage, by_sentence, total)
    opposed = _opposed(statement, closest, asked.opposites)
    near = by_sentence[best] >= _NEAR * total
    features = (
        sum(weight for key, weight in weights.items() if key in held) / total,
        window / total,
        by_sentence[best] / total,
        len(asked.pairs & passage.pairs) / len(asked.pairs) if asked.pairs else 1.0,
        1.0 / (1 + missing_there),
        _share(asked.numbers, held),
        _share(asked.names, held),
        1.0 - _longest_gap(statement.keys, held) / len(statement.keys),
        *_words(function + len(held), len(asked.function) + len(weights)),
        float(agrees),
        float(not opposed),
        *asked.manner,
    )
    return Match(features, near and (not agrees or opposed or _other_number(asked, held, closest)))


def _other_number(asked: _Asked, held: set[str], closest: Sentence) -> bool:
    """Whether a number of the statement stands nowhere, while the closest sentence has one that the statement lacks."""
    missing = [key for key in asked.numbers if key not in held]
    return bool(missing) and any(key.startswith(NUMBER) and key not in asked.weights for key in closest.key_set)


def _words(held: int, of: int) -> tuple[float, float]:
    """The share of all words held, function words included, and how few are missing (0 from ten on)."""
    return (held / of if of else 1.0, max(0.0, 1.0 - (of - held) / 10))


def _negation_agrees(statement: Sentence, passage: Passage, by_sentence: Mapping[int, float], total: float) -> bool:
    """False when the statement negates what no sentence close to it negates, or the other way round.

    Close: a sentence that holds half of the statement.
    """
    close = [passage.sentences[position] for position, weight in by_sentence.items() if weight >= _NEAR * total]
    if not statement.negated and not any(sentence.negated for sentence in close):
        return True
    for key in statement.key_set:
        negated = [key in sentence.negated for sentence in close if key in sentence.key_set]
        if negated and all(one is not (key in statement.negated) for one in negated):
            return False
    return True


def _opposed(statement: Sentence, sentence: Sentence, opposites: Opposites) -> bool:
    """Whether the sentence says the opposite of a word of the statement, and does not say that word as well.

    Where it has both, as in "sales rose while costs fell", the word's neighbours in the statement decide.
    """
    for key in statement.key_set & opposites.keys():
        mine, theirs = opposites[key]
        if not sentence.key_set & theirs or statement.key_set & theirs:
            continue
        if not sentence.key_set & mine:
            return True
        near = _neighbours(sentence, theirs) - _neighbours(sentence, mine)
        if any(not partner.startswith(NUMBER) for partner in near & _neighbours(statement, frozenset({key}))):
            return True
    return False


def _neighbours(sentence: Sentence, keys: frozenset[str]) -> set[str]:
    """The keys that stand next to one of `keys`."""
    return {
        other
        for pair in pairwise(sentence.keys)
        for one, other in (pair, pair[::-1])
        if one in keys and other not in keys
    }


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
        together = frozenset[str]().union(*(sentences[position].key_set for position in near))
        # In the statement's order: sums over a set would differ in the last digit from one process to the next.
        found = [weight for key, weight in weights.items() if key in together]
        weight = sum(found)
        if weight > best:
            best, missing = weight, len(weights) - len(found)
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
