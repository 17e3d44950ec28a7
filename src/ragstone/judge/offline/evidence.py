"""What speaks for and against a statement in texts: shares of it that they contain, and
conflicts with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from operator import itemgetter

from msgspec import Struct

from ragstone.judge.offline.conflicts import KINDS, conflicting
from ragstone.judge.offline.numerals import SHARE
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.tokens import NUMBER, KeySet, T, union

SHARES = ("words", "content", "one_place", "pairs", "numbers", "names")
"""Shares in [0, 1], higher is better: of all words, of the content words, of those in
three neighbouring sentences, of the neighbouring pairs, of the numbers and of the names
that the texts contain."""

FEATURES = (*SHARES, *KINDS)
"""Names of the features, in the order of `Match.features`: the shares, and for each
kind of conflict how sure it is."""

_WINDOW = 3
_NEAR = 0.5
_MAX_NEAR = 6
_PREFIX = 5


class Match(Struct, frozen=True):
    """How a statement and texts go together."""

    features: tuple[float, ...]
    """As FEATURES names them."""
    matched: Sequence[KeySet]
    """The statement's keys that each text contains."""
    windows: Sequence[float]
    """The largest share of the keys in neighbouring sentences, for each text."""

    def __getitem__(self, feature: str) -> float:
        return self.features[FEATURES.index(feature)]

    @property
    def conflict(self) -> float:
        """How surely the nearest text contradicts the statement."""
        return max(self.features[len(SHARES) :])


def match(statement: Sentence, contexts: Sequence[Passage]) -> Match:
    """`statement` against all `contexts` (at least one) together."""
    size = max(1, len(statement.key_set))
    matched: list[KeySet] = []
    windows: list[float] = []
    near: list[tuple[Sentence, float]] = []
    for context in contexts:
        by_sentence = _keys_by_sentence(statement, context)
        matched.append(union(by_sentence.values()))
        largest_window = 0
        for position, keys in by_sentence.items():
            following = range(position + 1, position + _WINDOW)
            window = keys.union(*(by_sentence.get(after, ()) for after in following))
            largest_window = max(largest_window, len(window))
            if len(keys) >= _NEAR * size:
                near.append((context.sentences[position], len(keys) / size))
        windows.append(largest_window / size)
    near.sort(key=itemgetter(1), reverse=True)
    all_matched = union(matched)
    pairs = frozenset(pairwise(statement.keys))
    pairs_in_contexts = union(context.pairs & pairs for context in contexts)
    in_contexts = union(context.function for context in contexts)
    shares = (
        _share(statement.function | statement.key_set, in_contexts | all_matched),
        len(all_matched) / size,
        max(windows),
        _share(pairs, pairs_in_contexts),
        _share(statement.numbers, all_matched),
        _share(statement.name_keys, all_matched),
    )
    conflicts = conflicting(statement, near[:_MAX_NEAR], all_matched)
    return Match((*shares, *conflicts), matched, windows)


def _keys_by_sentence(statement: Sentence, context: Passage) -> dict[int, set[str]]:
    """The statement's keys that each sentence of `context` contains, by its position;
    those of a measure also where the same amount is in another unit."""
    by_sentence: dict[int, set[str]] = {}
    for key in dict.fromkeys(statement.keys):
        for position in positions_of(key, context.places):
            by_sentence.setdefault(position, set()).add(key)
    for value, number in statement.amounts.items():
        place = statement.keys.index(number)
        length = 1 if value[0] == SHARE else 2
        for position in context.amounts.get(value, ()):
            measure = statement.keys[place : place + length]
            by_sentence.setdefault(position, set()).update(measure)
    return by_sentence


def _share(wanted: Set[T], present: Set[T]) -> float:
    """The share of `wanted` that is in `present`; 1 when nothing is wanted."""
    return len(wanted & present) / len(wanted) if wanted else 1.0


def positions_of(key: str, places: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """Where `places` have `key`, or else its word family: without its last letter or
    two, and as or instead of a German participle, at least five long."""
    if key in places or key.startswith(NUMBER):
        return places.get(key, ())
    for form in (key[:-1], key[:-2], f"ge{key}", key.removeprefix("ge")):
        if len(form) >= _PREFIX and form in places:
            return places[form]
    return ()
