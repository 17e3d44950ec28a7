"""What speaks for and against a statement in texts: shares of it that they contain, and
conflicts with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragstone.judge.offline.conflicts import KINDS, conflicting
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.tokens import NUMBER

SHARES = ("words", "content", "one_place", "pairs", "numbers", "names")
"""Shares in [0, 1], higher is better: of all words, of the content words, of those in
three neighbouring sentences, of the neighbouring pairs, of the numbers and of the names
that the texts contain.
"""
FEATURES = (*SHARES, *KINDS)
"""Names of the features, in the order of `Match.features`: the shares, and for each
kind of conflict how sure it is."""

_WINDOW = 3
_NEAR = 0.5
_MAX_NEAR = 6
_PREFIX = 5


@dataclass(frozen=True, slots=True)
class Match:
    """How a statement and texts go together.

    `features` are as FEATURES names them. For each text, `matched` are the statement's
    keys that it contains, and `windows` the largest share of the keys in neighbouring
    sentences.
    """

    features: tuple[float, ...]
    matched: tuple[frozenset[str], ...]
    windows: tuple[float, ...]

    @property
    def conflicts(self) -> bool:
        """Whether the nearest text contradicts the statement."""
        return any(self.features[len(SHARES) :])


def match(statement: Sentence, contexts: Sequence[Passage]) -> Match:
    """`statement` against all `contexts` (at least one) together."""
    keys = statement.key_set
    places = [_places(statement, context) for context in contexts]
    matched = tuple(frozenset(positions) for positions in places)
    all_held = frozenset[str]().union(*matched)
    windows, near = _windows(places)
    size = max(1, len(keys))
    function = statement.function
    function_words = sum(
        any(word in context.function for context in contexts) for word in function
    )
    closest = sorted(
        (-count, len(contexts[rank].sentences[position].keys), rank, position)
        for count, rank, position in near
        if count >= max(1, _NEAR * size)
    )
    del closest[_MAX_NEAR:]
    conflicts = conflicting(
        statement,
        [
            (contexts[rank].sentences[position], -less / size)
            for less, _, rank, position in closest
        ],
        all_held,
    )
    shares = (
        (function_words + len(all_held)) / max(1, len(function) + len(keys)),
        len(all_held) / size,
        max(windows, default=0) / size,
        _pairs_held(statement, contexts),
        _share(statement.numbers, all_held),
        _share(statement.name_keys, all_held),
    )
    return Match(
        (*shares, *conflicts), matched, tuple(window / size for window in windows)
    )


def _places(statement: Sentence, context: Passage) -> dict[str, Sequence[int]]:
    """The positions of the sentences of `context` that contain each of the statement's
    keys; keys in none are left out.

    A number and its unit are also there if the context has the same amount in another
    unit.
    """
    places: dict[str, Sequence[int]] = {}
    for key in statement.key_set:
        for form in forms(key):
            if form in context.places:
                places[key] = context.places[form]
                break
    lacking = statement.numbers - places.keys()
    if lacking and not context.amounts.isdisjoint(statement.amounts):
        for value, key in statement.amounts.items():
            if value in context.amounts and key in statement.key_set:
                positions = [
                    at
                    for at, sentence in enumerate(context.sentences)
                    if value in sentence.amounts
                ]
                place = statement.keys.index(key)
                for equal in statement.keys[place : place + 2]:
                    places.setdefault(equal, positions)
    return places


def _windows(
    places: Sequence[Mapping[str, Sequence[int]]],
) -> tuple[list[int], Iterator[tuple[int, int, int]]]:
    """How many keys neighbouring sentences of each context have at most; and (keys,
    context, position) by sentence."""
    windows: list[int] = []
    by_sentence: list[dict[int, int]] = []
    for context_places in places:
        masks: dict[int, int] = {}
        for bit, positions in enumerate(context_places.values()):
            for position in positions:
                masks[position] = masks.get(position, 0) | 1 << bit
        by_sentence.append(masks)
        most = 0
        for position, mask in masks.items():
            for step in range(1, _WINDOW):
                mask |= masks.get(position + step, 0)
            most = max(most, mask.bit_count())
        windows.append(most)
    sentences = (
        (mask.bit_count(), rank, position)
        for rank, masks in enumerate(by_sentence)
        for position, mask in masks.items()
    )
    return windows, sentences


def _pairs_held(statement: Sentence, contexts: Sequence[Passage]) -> float:
    """The share of the statement's neighbouring keys that are neighbours in a sentence
    of the contexts."""
    pairs = frozenset(pairwise(statement.keys))
    return _share(
        pairs,
        frozenset(
            pair for pair in pairs if any(pair in context.pairs for context in contexts)
        ),
    )


def _share(wanted: Collection[object], present: Collection[object]) -> float:
    """The share of `wanted` that is in `present`; 1 when there are none."""
    return sum(item in present for item in wanted) / len(wanted) if wanted else 1.0


def holds_key(key: str, places: Mapping[str, Sequence[int]]) -> bool:
    """Whether `places` have `key` or its word family."""
    return any(form in places for form in forms(key))


def forms(key: str) -> tuple[str, ...]:
    """`key`, and what is looked for if it is not found, its word family: without its
    last letter or two, at least five long, and as or instead of a German participle.
    """
    if key.startswith(NUMBER):
        return (key,)
    participle = key[2:] if key.startswith("ge") else f"ge{key}"
    shorter = [key[:-cut] for cut in (1, 2) if len(key) - cut >= _PREFIX]
    return (key, *shorter, participle)
