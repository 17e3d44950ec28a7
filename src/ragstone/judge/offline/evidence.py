"""Features of a statement compared with all contexts together: all in [0, 1]; higher is better supported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ragstone.judge.offline.conflicts import KINDS, conflicting
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.passage import Passage, Sentence, neighbours
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.tokens import NUMBER, key_sequence, keys_of

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
_LIGHT = 0.5
_ALL = 1.0 - 1e-9
_PREFIX = 5
_MANY_WORDS = 10
_MUCH_SPEAKER = 4
_CLOSE, _CLOSE_UNSPACED = 0.9 - 1e-9, 0.7
DOUBTS = (*KINDS, "close")
"""What lowers the probability: the kinds of conflict, and any of them in a statement that is nearly a copy, where it is
no accident."""
_TO_TELL = 4
"""The fewest keys of which all but one show that a sentence was copied."""
_NOWHERE = ("number", "month", "name")
_NO_CONFLICTS = (False,) * len(DOUBTS)
_MAX_CLOSE = 6


@dataclass(frozen=True, slots=True)
class Match:
    """How well the contexts support a statement of this `weight`, the sum over its keys. `conflicts`: for each of
    DOUBTS, whether the nearest text disagrees.

    For each context, `shares` and `windows` are the shares of the statement's weight found anywhere in it and in
    neighbouring sentences, and `held` has a bit for each of the statement's keys, in order, that it contains.
    """

    features: tuple[float, ...]
    conflicts: tuple[bool, ...]
    shares: tuple[float, ...]
    windows: tuple[float, ...]
    held: tuple[int, ...]
    weight: float


def match(statement: Sentence, contexts: Sequence[Passage], rarity: Rarity, language: Language) -> Match:
    """`statement` against all `contexts` (at least one) together."""
    weights = rarity.weights(statement.keys)
    light = keys_of(language.code).light
    if not light.isdisjoint(weights):
        weights = {key: _LIGHT * weight if key in light else weight for key, weight in weights.items()}
    keys = tuple(weights)
    total = sum(weights.values())
    unheld_function = statement.function.difference(*(context.function for context in contexts))
    found = _find(weights, contexts)
    held = found.held_by_any
    words = _words(
        len(statement.function) - len(unheld_function) + held.bit_count(),
        len(statement.function) + sum(held >> bit & 1 or key not in light for bit, key in enumerate(keys)),
    )
    speaker_held = _speaker_held(statement, unheld_function & language.speaker)
    if not held:
        nothing = (0.0,) * len(contexts)
        features = (0.0,) * 6 + words + (0.0, speaker_held, _asserts(statement))
        return Match(features, _NO_CONFLICTS, nothing, nothing, (0,) * len(contexts), total)
    held_keys = frozenset(key for bit, key in enumerate(keys) if held >> bit & 1)
    windows, best_mask, close = found.windows(_NEAR * total)
    del close[_MAX_CLOSE:]
    conflicts = _NO_CONFLICTS
    if close:
        conflicts = conflicting(
            statement,
            [contexts[rank].sentence(position) for _, rank, position in close],
            sum(-less >= _SAME * total for less, _, _ in close),
            held_keys,
            language,
        )
        conflicts += (_nearly_copied(statement, contexts, close[0], total, max(words), conflicts),)
    features = (
        max(windows) / total,
        _pairs_held(statement, contexts, found, close),
        1.0 / (1 + len(keys) - best_mask.bit_count()),
        _share(statement.numbers, held_keys),
        _share(_names(statement, language), held_keys),
        1.0 - _longest_gap(statement.keys, held_keys) / len(statement.keys),
        *words,
        float(words[0] >= _ALL and best_mask.bit_count() == len(keys)),
        speaker_held,
        _asserts(statement),
    )
    return Match(
        features,
        conflicts,
        tuple(weight / total for weight in found.by_context),
        tuple(window / total for window in windows),
        tuple(found.held),
        total,
    )


def _nearly_copied(
    statement: Sentence,
    contexts: Sequence[Passage],
    closest: tuple[float, int, int],
    total: float,
    words: float,
    conflicts: Sequence[bool],
) -> bool:
    """Whether a statement with conflicts is nearly a copy of the closest sentence, which has all its keys but one, or
    most of their weight while hardly any of its `words` is found nowhere. The sentence doesn't matter to what is found
    nowhere, nor the words if it says that something isn't true.
    """
    if not any(conflicts):
        return False
    copied = words >= (_CLOSE if statement.language.spaced else _CLOSE_UNSPACED)
    if not statement.language.spaced or any(conflicts[KINDS.index(kind)] for kind in _NOWHERE):
        return copied
    if conflicts[KINDS.index("negation")] and statement.denies:
        return True
    less, rank, position = closest
    missing = len(statement.key_set - contexts[rank].sentence(position).key_set)
    return (missing <= 1 and len(statement.key_set) >= _TO_TELL) or (copied and -less >= _SAME * total)


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the keys of a statement are. All contexts are in one row of sentences, with a gap of `_WINDOW` - 1 after
    each, so that a window never contains sentences of two; context `rank` begins at `starts[rank]`.

    `weights` are those of the keys, in order. `sentences` are the weights of the keys in each sentence, always added in
    that order; `masks` has a bit for each key in a sentence. `by_context` and `held` are the same for each context.
    """

    weights: Sequence[float]
    starts: Sequence[int]
    sentences: Sequence[float]
    masks: Sequence[int]
    by_context: Sequence[float]
    held: Sequence[int]
    held_by_any: int

    def windows(self, near: float) -> tuple[list[float], int, list[tuple[float, int, int]]]:
        """The weight in the best `_WINDOW` neighbouring sentences of each context; the keys in the best of all; and the
        sentences with a weight from `near` on, the heaviest first: the weight below zero, context, position.
        """
        sentences, masks = self.sentences, self.masks
        sums: dict[int, float] = {}
        windows = [0.0] * len(self.held)
        best, best_mask = 0.0, 0
        close: list[tuple[float, int, int]] = []
        for rank, (start, end) in enumerate(pairwise(self.starts)):
            if not self.held[rank]:
                continue
            top = 0.0
            # A window that starts with a sentence without keys of the statement can't beat one that starts later.
            for at, mask in enumerate(masks[start : end - _WINDOW + 1], start):
                if not mask:
                    continue
                weight = sentences[at]
                if weight >= near:
                    close.append((-weight, rank, at - start))
                if weight + sentences[at + 1] + sentences[at + 2] > top:
                    window = mask | masks[at + 1] | masks[at + 2]
                    if window != mask:
                        if window not in sums:
                            sums[window] = sum_of(window, self.weights)
                        weight = sums[window]
                    if weight > top:
                        top = weight
                        if top > best:
                            best, best_mask = top, window
            windows[rank] = top
        close.sort()
        return windows, best_mask, close


def _find(weights: Mapping[str, float], contexts: Sequence[Passage]) -> _Found:
    """Where the keys in `weights` are in `contexts`."""
    starts = [0, *accumulate(len(context.texts) + _WINDOW - 1 for context in contexts)]
    ranked = [(rank, starts[rank], context.places) for rank, context in enumerate(contexts)]
    sentences, masks = [0.0] * starts[-1], [0] * starts[-1]
    by_context, held = [0.0] * len(ranked), [0] * len(ranked)
    held_by_any = 0
    flag = 1
    for key, weight in weights.items():
        for form in _forms(key):
            for rank, start, places in ranked:
                where = places.get(form)
                if where is not None:
                    held_by_any |= flag
                    held[rank] |= flag
                    by_context[rank] += weight
                    for position in where:
                        masks[start + position] |= flag
                        sentences[start + position] += weight
            if held_by_any & flag:
                break
        flag <<= 1
    return _Found(tuple(weights.values()), starts, sentences, masks, by_context, held, held_by_any)


def sum_of(mask: int, weights: Sequence[float]) -> float:
    """The sum of the weights whose bits are set, in order."""
    found = 0.0
    for bit, weight in enumerate(weights):
        if mask >> bit & 1:
            found += weight
    return found


def _pairs_held(
    statement: Sentence, contexts: Sequence[Passage], found: _Found, close: Sequence[tuple[float, int, int]]
) -> float:
    """The share of the statement's neighbouring keys that are neighbours in a sentence of the contexts.

    Only sentences with two of its keys are searched, those in `close` first, until nothing is missing.
    """
    pairs = missing = frozenset(neighbours(statement.keys))
    if not pairs:
        return 1.0
    for _, rank, position in close:
        missing -= contexts[rank].pairs(position)
        if not missing:
            return 1.0
    repeats = any(one == other for one, other in missing)
    for rank, (start, end) in enumerate(pairwise(found.starts)):
        if not found.held[rank]:
            continue
        for position, mask in enumerate(found.masks[start : end - _WINDOW + 1]):
            if mask & (mask - 1) or (repeats and mask):
                missing -= contexts[rank].pairs(position)
    return (len(pairs) - len(missing)) / len(pairs)


def _words(held: int, of: int) -> tuple[float, float]:
    """The share of all words found, function words included, and how few are missing (0 from ten on)."""
    return (held / of if of else 1.0, max(0.0, 1.0 - (of - held) / _MANY_WORDS))


def _share(keys: Collection[str], held: frozenset[str]) -> float:
    """The share of `keys`, each once, that is found; 1 when there are none."""
    return sum(key in held for key in keys) / len(keys) if keys else 1.0


def holds_key(key: str, places: Mapping[str, Sequence[int]]) -> bool:
    """Whether `places` have `key` or its word family."""
    return any(form in places for form in _forms(key))


def _forms(key: str) -> tuple[str, ...]:
    """`key`, and what is looked for if it is not found, its word family: without its last letter or two, at least five
    long.
    """
    if len(key) <= _PREFIX or key.startswith(NUMBER):
        return (key,)
    return (key, key[:-1], key[:-2]) if len(key) > _PREFIX + 1 else (key, key[:-1])


def _names(statement: Sentence, language: Language) -> frozenset[str]:
    """Keys of capitalised words except the first word (German nouns aren't names, but are rare words too)."""
    if not statement.capitals:
        return frozenset()
    capitals = [token.lower() for token in statement.surface[1:] if token[0].isupper()]
    return frozenset(key for key in key_sequence(capitals, language) if key in statement.key_set)


def _speaker_held(statement: Sentence, unheld: frozenset[str]) -> float:
    """1 unless the statement has first-person words that the contexts lack (`unheld`); lower, the more it has."""
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
