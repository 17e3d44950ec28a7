"""Texts parsed once: sentences, keys, and the positions of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ragstone.judge.offline import details
from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.tokens import NUMBER, has_unspaced, key_sequence, unspaced_sequence, words
from ragstone.judge.sentences import split_sentences

_REACH = 6
_NEGATED_KEYS = 2


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence. `sequence` are the keys of its tokens, FUNCTION for function words; `keys` the content keys, in
    order, with repeats; `function` its function words in lower case; `negated` the keys right after a negation.
    """

    text: str
    sequence: tuple[str, ...]
    keys: tuple[str, ...]
    key_set: frozenset[str]
    function: frozenset[str]
    negated: frozenset[str]
    language: Language

    @cached_property
    def surface(self) -> tuple[str, ...]:
        """The tokens as written."""
        return tuple(words(self.text))

    @cached_property
    def lowered(self) -> tuple[str, ...]:
        """The tokens in lower case."""
        return tuple(token.lower() for token in self.surface)

    @cached_property
    def months(self) -> frozenset[int]:
        """The months that are named, from 1."""
        return details.months(self.text, self.lowered, self.language)

    @cached_property
    def measures(self) -> Mapping[str, frozenset[str]]:
        """Its numbers with their units."""
        return details.measures(self.text, self.language) if self._numbers else {}

    @cached_property
    def quantities(self) -> Mapping[str, int]:
        """The keys after "all", "some", "few"..., with the rank of that word."""
        if not self._aligned or self.language.quantities.keys().isdisjoint(self.lowered):
            return {}
        return details.quantities(self.lowered, self.sequence, self.language)

    @cached_property
    def directions(self) -> Mapping[str, frozenset[tuple[int, bool]]]:
        """The keys after "before", "more"..., with what is said there, as an axis and the value on it."""
        if not self._aligned or self.language.directions.keys().isdisjoint(self.lowered):
            return {}
        return details.directions(self.lowered, self.sequence, self.language)

    @cached_property
    def names(self) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
        """Runs of capitalised keys: their start and end in the sequence, and the keys."""
        if not self._aligned:
            return ()
        return details.names(self.text, self.surface, self.sequence, self.language.months)

    @property
    def _aligned(self) -> bool:
        """Whether each token has one key; not in scripts without spaces."""
        return len(self.surface) == len(self.sequence)

    @property
    def _numbers(self) -> bool:
        return any(key.startswith(NUMBER) for key in self.key_set)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Pairs of neighbouring keys, and of keys with one in between."""
        return frozenset(key_pairs(self.keys))


class Passage:
    """One text or several, as sentences. `starts` are the positions at which the texts begin.

    `parts` are the passages that were joined; what they know is not computed again.
    """

    def __init__(
        self, sentences: tuple[Sentence, ...], starts: tuple[int, ...] = (0,), parts: tuple[Passage, ...] = ()
    ) -> None:
        self.sentences = sentences
        self.starts = starts
        self._parts = parts

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """For each content key, the positions (from 0) of the sentences that contain it."""
        found: dict[str, list[int]] = {}
        for position, sentence in enumerate(self.sentences):
            for key in sentence.key_set:
                if key in found:
                    found[key].append(position)
                else:
                    found[key] = [position]
        return found

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of all sentences."""
        found: set[tuple[str, str]] = set()
        for sentence in self.sentences:
            keys = sentence.keys
            found.update(pairwise(keys), zip(keys, keys[2:], strict=False))
        return frozenset(found)

    def pairs_held(self, pairs: frozenset[tuple[str, str]]) -> int:
        """How many of `pairs` are pairs of some sentence."""
        if not self._parts:
            return len(pairs & self.pairs)
        return len(frozenset[tuple[str, str]]().union(*(pairs & part.pairs for part in self._parts)))

    @cached_property
    def function(self) -> frozenset[str]:
        """All function words."""
        return frozenset[str]().union(*(part.function for part in self._parts or self.sentences))

    @cached_property
    def key_set(self) -> frozenset[str]:
        """All content keys."""
        return frozenset[str]().union(*(sentence.key_set for sentence in self.sentences))


def read_sentence(text: str, language: Language) -> Sentence:
    """Normalised `text` as one sentence."""
    if has_unspaced(text):
        lowered = words(text)
        sequence = unspaced_sequence(lowered, language)
    else:
        lowered = words(text.lower())
        sequence = key_sequence(lowered, language)
    keys = tuple(filter(None, sequence))
    function = language.function.intersection(lowered)
    negated = frozenset[str]()
    if "n't" in text or not language.negations.isdisjoint(lowered):
        negated = _negated(lowered, sequence, language)
    return Sentence(text, tuple(sequence), keys, frozenset(keys), function, negated, language)


def _negated(lowered: Sequence[str], sequence: Sequence[str], language: Language) -> frozenset[str]:
    """The first content keys after each negation, unless they also occur elsewhere in the sentence: "passing the ball
    without control of the ball". Empty for scripts without spaces, whose tokens aren't words.
    """
    if len(lowered) != len(sequence):
        return frozenset()
    found: list[str] = []
    for position, token in enumerate(lowered):
        if token in language.negations or token.endswith("n't"):
            if not language.only.isdisjoint(lowered[position + 1 : position + 2]):
                continue
            after = [
                key for key in sequence[position + 1 : position + 1 + _REACH] if key and not key.startswith(NUMBER)
            ]
            found.extend(after[:_NEGATED_KEYS])
    return frozenset(key for key in found if found.count(key) >= sequence.count(key))


def read_passage(text: str, language: Language) -> Passage:
    """The raw `text`, normalised and parsed."""
    return Passage(
        tuple(read_sentence(sentence, language) for sentence in split_sentences(normalise(text), language.code))
    )


def join(passages: Sequence[Passage]) -> Passage:
    """Several passages as one, in order."""
    if len(passages) == 1:
        return passages[0]
    sentences: list[Sentence] = []
    starts: list[int] = []
    for passage in passages:
        starts.extend(start + len(sentences) for start in passage.starts)
        sentences.extend(passage.sentences)
    return Passage(tuple(sentences), tuple(starts), tuple(passages))


def key_pairs(keys: tuple[str, ...]) -> set[tuple[str, str]]:
    """Pairs of neighbouring keys, and of keys with one in between."""
    return {*pairwise(keys), *zip(keys, keys[2:], strict=False)}
