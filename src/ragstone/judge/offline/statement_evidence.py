"""Evidence for and against a statement in texts: the shares of the statement that the
texts contain, and conflicts between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import pairwise

from msgspec import Struct

from ragstone.judge.offline.conflicts import KINDS, Neighbour, find_conflicts
from ragstone.judge.offline.numerals import SHARE
from ragstone.judge.offline.passage import Passage, Sentence
from ragstone.judge.offline.tokens import NUMBER, KeySet, T, union

SHARES = ("words", "content", "one_place", "pairs", "numbers", "names")
"""What evidence for a statement consists of. Each is a share that the texts contain, in
[0, 1]: of all words, of the content words, of the content words in one place
(neighbouring sentences), of the pairs of content words in a row, of the numbers, and of
the names."""

FEATURES = (*SHARES, *KINDS)
"""The names of `Match.features`, in their order: the shares, and the kinds of conflict,
for which a feature says how sure the conflict is."""

_WINDOW_SENTENCES = 3
"""The number of neighbouring sentences that are one place."""
_MIN_NEIGHBOUR_SHARE = 0.5
"""The share of a statement's keys that a sentence near to it contains."""
_MAX_NEIGHBOURS = 6
_MIN_FORM_CHARACTERS = 5
"""Shorter forms are not looked for: they would be of other words."""


class Match(Struct, frozen=True):
    """How much texts contain of a statement, and how they conflict with it."""

    features: tuple[float, ...]
    """The numbers that FEATURES names."""
    keys_by_text: Sequence[KeySet]
    """For each text, the keys of the statement that it contains."""
    window_shares: Sequence[float]
    """For each text, the largest share of the keys in neighbouring sentences."""

    def __getitem__(self, feature: str) -> float:
        return self.features[FEATURES.index(feature)]

    @property
    def conflict(self) -> float:
        """How sure the surest conflict of the texts with the statement is, in
        [0, 1]."""
        return max(self.features[len(SHARES) :])


def match(statement: Sentence, contexts: Sequence[Passage]) -> Match:
    """Match `statement` with all `contexts` (at least one) together."""
    size = max(1, len(statement.key_set))
    keys_by_text: list[KeySet] = []
    window_shares: list[float] = []
    neighbours: list[Neighbour] = []
    for context in contexts:
        keys_by_sentence = _keys_by_sentence(statement, context)
        keys_by_text.append(union(keys_by_sentence.values()))
        largest_window = 0
        for position, keys in keys_by_sentence.items():
            following = range(position + 1, position + _WINDOW_SENTENCES)
            window = keys.union(
                *(keys_by_sentence.get(after, ()) for after in following)
            )
            largest_window = max(largest_window, len(window))
            if len(keys) >= _MIN_NEIGHBOUR_SHARE * size:
                sentence = context.sentences[position]
                neighbours.append(Neighbour(sentence, len(keys) / size))
        window_shares.append(largest_window / size)
    neighbours.sort(key=lambda neighbour: neighbour.share, reverse=True)
    found_keys = union(keys_by_text)
    function_words = union(context.function_words for context in contexts)
    pairs = frozenset(pairwise(statement.keys))
    found_pairs = union(context.pairs & pairs for context in contexts)
    shares = (
        _share(
            statement.function_words | statement.key_set, function_words | found_keys
        ),
        len(found_keys) / size,
        max(window_shares),
        _share(pairs, found_pairs),
        _share(statement.numbers, found_keys),
        _share(statement.name_keys, found_keys),
    )
    conflicts = find_conflicts(statement, neighbours[:_MAX_NEIGHBOURS], found_keys)
    return Match((*shares, *conflicts), keys_by_text, window_shares)


def _keys_by_sentence(statement: Sentence, context: Passage) -> dict[int, set[str]]:
    """The keys of the statement that each sentence of `context` contains, by the
    position of the sentence. A measure also counts where the same amount is in another
    unit."""
    by_position: dict[int, set[str]] = {}
    for key in dict.fromkeys(statement.keys):
        for position in find_key(key, context.positions):
            by_position.setdefault(position, set()).add(key)
    for value, number in statement.amounts.items():
        start = statement.keys.index(number)
        # The key after the number is the unit, which a share does not have.
        length = 1 if value.unit == SHARE else 2
        for position in context.amounts.get(value, ()):
            measure = statement.keys[start : start + length]
            by_position.setdefault(position, set()).update(measure)
    return by_position


def _share(keys: Set[T], present: Set[T]) -> float:
    """The share of `keys` that is `present`; 1 if there are no keys."""
    return len(keys & present) / len(keys) if keys else 1.0


def find_key(key: str, positions: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """The positions of `key`, or else of another form of the word: without its last
    letter or its last two, or with or without the "ge" of a German participle."""
    if key in positions or key.startswith(NUMBER):
        return positions.get(key, ())
    for form in (key[:-1], key[:-2], f"ge{key}", key.removeprefix("ge")):
        if len(form) >= _MIN_FORM_CHARACTERS and form in positions:
            return positions[form]
    return ()
