"""Pairs of texts with nearly the same wording."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

NEARLY_SAME = 0.7
"""From this similarity on, two questions are near-duplicates."""

_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Pair:
    """The positions of two texts, `first` < `second`, and their similarity in [0, 1]."""

    first: int
    second: int
    similarity: float


def words_of(text: str) -> str:
    """The words of `text` in lower case, separated by single spaces: for comparing texts without their punctuation."""
    return " ".join(_WORD.findall(text.casefold()))


def similar_pairs(texts: Sequence[str], *, least: float = NEARLY_SAME) -> list[Pair]:
    """All pairs of `texts` with a similarity of at least `least` and the same numbers, the most similar first.

    The similarity is the weighted Jaccard index of the trigrams of letters in their words; a trigram weighs the more,
    the fewer texts have it, so that the one word that differs between two texts of the same form counts. Candidates
    are found by their rarest trigrams (prefix filtering: Bayardo, Ma, Srikant 2007, "Scaling up all pairs similarity
    search"), so no pair is missed and texts without anything in common are never compared.
    """
    grams, weight = _weighed(texts)
    numbers = [sorted(_DIGITS.findall(text)) for text in texts]
    index: dict[str, list[int]] = defaultdict(list)
    totals: list[float] = []
    pairs: list[Pair] = []
    for position, own_grams in enumerate(grams):
        total = math.fsum(weight[gram] for gram in own_grams)  # whatever the order: equal texts have equal sums
        totals.append(total)
        candidates: set[int] = set()
        unseen = total
        for gram in sorted(own_grams, key=lambda gram: (-weight[gram], gram)):
            if unseen < least * total - 1e-9:
                break
            unseen -= weight[gram]
            candidates.update(index[gram])
            index[gram].append(position)
        for candidate in sorted(candidates):
            shared = math.fsum(weight[gram] for gram in own_grams & grams[candidate])
            similarity = shared / (total + totals[candidate] - shared)
            if similarity >= least and numbers[candidate] == numbers[position]:
                pairs.append(Pair(candidate, position, min(1.0, similarity)))
    return sorted(pairs, key=lambda pair: (-pair.similarity, pair.first, pair.second))


def repeats(texts: Sequence[str], earlier: Sequence[str]) -> dict[int, tuple[int, bool]]:
    """Which of `texts` say the same, or nearly, as one of `earlier`, or as one before it that repeats none itself.

    By position: the first of `[*earlier, *texts]` that it repeats, and whether it does so word for word.
    """
    every = [*earlier, *texts]
    near: dict[int, set[int]] = defaultdict(set)
    for pair in similar_pairs(every):
        near[pair.second].add(pair.first)
    repeated: dict[int, tuple[int, bool]] = {}
    first_with: dict[str, int] = {}
    originals: set[int] = set()
    for position, text in enumerate(every):
        words = words_of(text) or text
        same = near[position] & originals
        if words in first_with:
            same.add(first_with[words])
        if same and position >= len(earlier):
            repeated[position - len(earlier)] = (min(same), words in first_with)
        else:
            originals.add(position)
            first_with.setdefault(words, position)
    return repeated


def _weighed(texts: Sequence[str]) -> tuple[list[frozenset[str]], dict[str, float]]:
    """The trigrams of each text, and the weight of each trigram."""
    grams = [_trigrams(text) for text in texts]
    counts = Counter(gram for text_grams in grams for gram in text_grams)
    return grams, {gram: math.log(1.0 + len(texts) / count) for gram, count in counts.items()}


def _trigrams(text: str) -> frozenset[str]:
    """Trigrams of the letters of each word, with its ends marked; a word of one or two letters is one by itself."""
    padded = (f" {word} " for word in _WORD.findall(text.casefold()))
    return frozenset(word[at : at + 3] for word in padded for at in range(len(word) - 2))
