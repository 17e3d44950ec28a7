"""Features of a statement compared with all contexts together: all in [0, 1]; higher is better supported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragstone.judge.offline.conflicts import KINDS, conflicting
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.tokens import NUMBER, key_sequence

FEATURES = (
    "held_by_window",
    "pairs_held",
    "few_missing_in_window",
    "numbers_held",
    "names_held",
    "no_gap",
    "words_held",
    "few_words_missing",
    "all_held",
    "speaker_held",
    "asserts",
)
"""Names of the features, in the order of `Match.features`."""

_WINDOW = 3
_NEAR = 0.5
_SAME = 0.8
_ALL = 1.0 - 1e-9
_PREFIX = 5
_MANY_WORDS = 10
_MUCH_SPEAKER = 4
_NO_CONFLICTS = (False,) * len(KINDS)
_MOST_CLOSE = 6


@dataclass(frozen=True, slots=True)
class Match:
    """How well the contexts support a statement of this `weight`, the sum over its keys. `conflicts`: for each of
    KINDS, whether the nearest text disagrees.

    For each context, `shares` and `windows` are the shares of the statement's weight found anywhere in it and in
    neighbouring sentences, and `held` has a bit for each of the statement's keys, in order, that it contains.
    """

    features: tuple[float, ...]
    conflicts: tuple[bool, ...]
    shares: tuple[float, ...]
    windows: tuple[float, ...]
    held: tuple[int, ...]
    weight: float


def match(statement: Sentence, passage: Passage, rarity: Rarity, language: Language) -> Match:
    """`statement` against `passage`, the contexts joined."""
    weights = rarity.weights(statement.keys)
    keys = tuple(weights)
    total = sum(weights.values())
    function = len(statement.function & passage.function)
    masks, by_sentence, held = _masks(weights, passage)
    words = _words(function + held.bit_count(), len(statement.function) + len(keys))
    if not held:
        nothing = (0.0,) * len(passage.starts)
        features = (0.0,) * 6 + words + (0.0, _speaker_held(statement, passage, language), _asserts(statement))
        return Match(features, _NO_CONFLICTS, nothing, nothing, (0,) * len(passage.starts), total)
    sums = Sums(tuple(weights.values()))
    together, windows, best_mask = _by_context(masks, by_sentence, sums, passage)
    held_keys = _keys_of(held, keys)
    close = sorted(
        (position for position, weight in by_sentence.items() if weight >= _NEAR * total),
        key=lambda position: (-by_sentence[position], position),
    )[:_MOST_CLOSE]
    conflicts = _NO_CONFLICTS
    if close:
        conflicts = conflicting(
            statement,
            [passage.sentences[position] for position in close],
            sum(by_sentence[position] >= _SAME * total for position in close),
            held_keys,
            language,
        )
    features = (
        max(windows) / total,
        _pairs_held(statement, passage),
        1.0 / (1 + len(keys) - best_mask.bit_count()),
        _share([key for key in keys if key.startswith(NUMBER)], held_keys),
        _share(_names(statement, language), held_keys),
        1.0 - _longest_gap(statement.keys, held_keys) / len(statement.keys),
        *words,
        float(words[0] >= _ALL and best_mask.bit_count() == len(keys)),
        _speaker_held(statement, passage, language),
        _asserts(statement),
    )
    return Match(
        features,
        conflicts,
        tuple(sums.of(mask) / total for mask in together),
        tuple(window / total for window in windows),
        tuple(together),
        total,
    )


class Sums:
    """Sums of the weights whose bits are set, each computed once and always in the same order."""

    def __init__(self, weights: tuple[float, ...]) -> None:
        self._weights = weights
        self._known: dict[int, float] = {0: 0.0}

    def of(self, mask: int) -> float:
        found = self._known.get(mask)
        if found is None:
            found, rest = 0.0, mask
            while rest:
                bit = rest & -rest
                found += self._weights[bit.bit_length() - 1]
                rest ^= bit
            self._known[mask] = found
        return found


def _keys_of(mask: int, keys: Sequence[str]) -> frozenset[str]:
    return frozenset(key for bit, key in enumerate(keys) if mask >> bit & 1)


def _masks(weights: Mapping[str, float], passage: Passage) -> tuple[dict[int, int], dict[int, float], int]:
    """For each sentence with keys of the statement a bit mask of these keys and their weight; the mask of all keys
    found.
    """
    places = passage.places
    masks: dict[int, int] = {}
    by_sentence: dict[int, float] = {}
    held = 0
    flag = 1
    for key, weight in weights.items():
        where = find_key(key, places)
        if where:
            held |= flag
            for position in where:
                if position in masks:
                    masks[position] |= flag
                    by_sentence[position] += weight
                else:
                    masks[position] = flag
                    by_sentence[position] = weight
        flag <<= 1
    return masks, by_sentence, held


def _by_context(
    masks: Mapping[int, int], by_sentence: Mapping[int, float], sums: Sums, passage: Passage
) -> tuple[list[int], list[float], int]:
    """The keys in each context, the weight in its best `_WINDOW` neighbouring sentences, and the keys in the best
    window of all.
    """
    starts = passage.starts
    together = [0] * len(starts)
    windows = [0.0] * len(starts)
    best, best_mask = 0.0, 0
    ends = (*starts[1:], len(passage.sentences))
    rank = 0
    # A window that starts with a sentence without keys of the statement can't beat one that starts later.
    for position in sorted(masks):
        while position >= ends[rank]:
            rank += 1
        mask = masks[position]
        together[rank] |= mask
        bound = by_sentence[position]
        for other in range(position + 1, min(position + _WINDOW, ends[rank])):
            if other in masks:
                mask |= masks[other]
                bound += by_sentence[other]
        if bound > windows[rank]:
            weight = sums.of(mask)
            if weight > windows[rank]:
                windows[rank] = weight
                if weight > best:
                    best, best_mask = weight, mask
    return together, windows, best_mask


def _pairs_held(statement: Sentence, passage: Passage) -> float:
    """The share of the statement's neighbouring keys that are neighbours in a sentence of the passage."""
    if not statement.pairs:
        return 1.0
    return passage.pairs_held(statement.pairs) / len(statement.pairs)


def _words(held: int, of: int) -> tuple[float, float]:
    """The share of all words found, function words included, and how few are missing (0 from ten on)."""
    return (held / of if of else 1.0, max(0.0, 1.0 - (of - held) / _MANY_WORDS))


def _share(keys: Iterable[str], held: frozenset[str]) -> float:
    """The share of `keys` that is found; 1 when there are none."""
    found = [key in held for key in keys]
    return sum(found) / len(found) if found else 1.0


def find_key(key: str, places: Mapping[str, list[int]]) -> list[int] | None:
    """Positions of `key`, or else of its word family: the key without its last letter or two, at least five long."""
    found = places.get(key)
    if found:
        return found
    if len(key) <= _PREFIX or key.startswith(NUMBER):
        return None
    return places.get(key[:-1]) or (places.get(key[:-2]) if len(key) > _PREFIX + 1 else None)


def _names(statement: Sentence, language: Language) -> frozenset[str]:
    """Keys of capitalised words except the first word (German nouns aren't names, but are rare words too)."""
    capitals = [token.lower() for token in statement.surface[1:] if token[0].isupper()]
    return frozenset(key for key in key_sequence(capitals, language) if key in statement.key_set)


def _speaker_held(statement: Sentence, passage: Passage, language: Language) -> float:
    """1 unless the statement has first-person words that the contexts lack; lower, the more of them it has."""
    unheld = (statement.function & language.speaker) - passage.function
    if not unheld:
        return 1.0
    mine = sum(token.lower() in unheld for token in statement.surface)
    return 1.0 - min(1.0, _MUCH_SPEAKER * mine / len(statement.surface))


def _asserts(statement: Sentence) -> float:
    """0 for a question: an answer that only asks makes no claim that could be supported."""
    return float(not statement.text.endswith(("?", "？", "؟")))


def _longest_gap(keys: Sequence[str], held: frozenset[str]) -> int:
    longest = run = 0
    for key in keys:
        run = 0 if key in held else run + 1
        longest = max(longest, run)
    return longest
