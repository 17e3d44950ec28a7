"""A text taken apart once: sentences, keys, and where each key stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragstone.judge.offline.lexicon import Language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.tokens import FUNCTION, has_unspaced, key_sequence, unspaced_sequence, words
from ragstone.judge.sentences import split_sentences

_REACH = 6
_NEGATED_KEYS = 2


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence. `surface` are its tokens as written; `keys` its content keys in order, with repeats; `function`
    its function words in lower case; `negated` the keys that stand right after a negation.
    """

    text: str
    surface: tuple[str, ...]
    keys: tuple[str, ...]
    key_set: frozenset[str]
    function: frozenset[str]
    negated: frozenset[str]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text in sentences. `places` maps each content key to the sentences (from 0) it stands in.

    `pairs` are neighbouring content keys, and neighbours but one, in order; `function` all its function words.
    """

    sentences: tuple[Sentence, ...]
    places: dict[str, list[int]]
    pairs: frozenset[tuple[str, str]]
    function: frozenset[str]


def read_sentence(text: str, language: Language) -> Sentence:
    """Normalised `text` as one sentence."""
    surface = words(text)
    if has_unspaced(text):
        sequence = unspaced_sequence(surface, language)
        lowered = surface
    else:
        lowered = [token.lower() for token in surface]
        sequence = key_sequence(lowered, language)
    keys = tuple(key for key in sequence if key != FUNCTION)
    function = language.function.intersection(lowered)
    negated = frozenset[str]()
    if "n't" in text or not language.negations.isdisjoint(lowered):
        negated = _negated(lowered, sequence, language)
    return Sentence(text, tuple(surface), keys, frozenset(keys), function, negated)


def _negated(lowered: Sequence[str], sequence: Sequence[str], language: Language) -> frozenset[str]:
    """The first content keys after each negation. Empty for scripts without spaces, where tokens are no words."""
    if len(lowered) != len(sequence):
        return frozenset()
    found: set[str] = set()
    for position, token in enumerate(lowered):
        if token in language.negations or token.endswith("n't"):
            after = [key for key in sequence[position + 1 : position + 1 + _REACH] if key != FUNCTION]
            found.update(after[:_NEGATED_KEYS])
    return frozenset(found)


def read_passage(text: str, language: Language) -> Passage:
    """`text` (as it came) normalised and taken apart."""
    sentences = tuple(read_sentence(sentence, language) for sentence in split_sentences(normalise(text), language.code))
    places: dict[str, list[int]] = {}
    pairs: set[tuple[str, str]] = set()
    for position, sentence in enumerate(sentences):
        for key in sentence.key_set:
            places.setdefault(key, []).append(position)
        pairs.update(key_pairs(sentence.keys))
    function = frozenset[str]().union(*(sentence.function for sentence in sentences))
    return Passage(sentences, places, frozenset(pairs), function)


def join(passages: Sequence[Passage]) -> Passage:
    """Several passages as one, in order."""
    if len(passages) == 1:
        return passages[0]
    sentences: list[Sentence] = []
    places: dict[str, list[int]] = {}
    for passage in passages:
        shift = len(sentences)
        sentences.extend(passage.sentences)
        for key, where in passage.places.items():
            places.setdefault(key, []).extend([position + shift for position in where])
    pairs = frozenset[tuple[str, str]]().union(*(passage.pairs for passage in passages))
    function = frozenset[str]().union(*(passage.function for passage in passages))
    return Passage(tuple(sentences), places, pairs, function)


def key_pairs(keys: tuple[str, ...]) -> set[tuple[str, str]]:
    """Neighbouring keys, and neighbours but one."""
    return {*pairwise(keys), *zip(keys, keys[2:], strict=False)}
