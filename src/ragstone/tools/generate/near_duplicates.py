"""Pairs of texts with nearly the same wording."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

NEARLY_SAME = 0.7
"""From this similarity on, two questions are near-duplicates."""

_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")


class Pair(Struct, frozen=True):
    """The positions of two texts, `first` < `second`, and their similarity in [0, 1]: 1
    for the same words."""

    first: int
    second: int
    similarity: float


def words_of(text: str) -> str:
    """The words of `text` in lower case, separated by single spaces: for comparing
    texts without their punctuation."""
    return " ".join(_WORD.findall(text.casefold()))


def similar_pairs(texts: Sequence[str], *, least: float = NEARLY_SAME) -> list[Pair]:
    """The pairs of `texts` with a similarity of at least `least` and the same numbers,
    the most similar first.

    The similarity is the weighted Jaccard index of the trigrams of letters in their
    words; a trigram weighs the more, the fewer texts have it, so that the one word that
    differs between two texts of the same form counts. Candidates are found by their
    rarest trigrams (prefix filtering: Bayardo, Ma, Srikant 2007, "Scaling up all pairs
    similarity search"), so no pair is missed and texts without anything in common are
    never compared. A text with the same words as an earlier one makes a pair with the
    first of these only.
    """
    grams = list(map(_trigrams, texts))
    counts = Counter[str]()
    for text_grams in grams:
        counts.update(text_grams)
    weight = {
        gram: math.log(1.0 + len(texts) / count) for gram, count in counts.items()
    }

    def weight_of(some_grams: Iterable[str]) -> float:
        # Sums are the same whatever the order: equal texts have equal ones.
        return math.fsum(weight[gram] for gram in some_grams)

    totals = list(map(weight_of, grams))
    index: dict[str, list[int]] = defaultdict(list)
    originals: dict[str, int] = {}
    pairs: list[Pair] = []
    for position, own_grams in enumerate(grams):
        text = texts[position]
        total = totals[position]
        wording = words_of(text) or text
        original = originals.setdefault(wording, position)
        if original != position:
            pairs.append(Pair(original, position, 1.0))
            continue
        candidates: set[int] = set()
        unseen = total
        min_unseen = least * total - 1e-9
        rarest_first = sorted(own_grams, key=lambda gram: (-weight[gram], gram))
        for gram in rarest_first:
            if unseen < min_unseen:
                break
            unseen -= weight[gram]
            candidates.update(index[gram])
            index[gram].append(position)
        numbers = _DIGITS.findall(text)
        for candidate in candidates:
            shared = weight_of(own_grams & grams[candidate])
            union = total + totals[candidate] - shared
            similarity = min(1.0, shared / union)
            if similarity < least:
                continue
            candidate_numbers = _DIGITS.findall(texts[candidate])
            if candidate_numbers == numbers:
                pairs.append(Pair(candidate, position, similarity))
    return sorted(pairs, key=lambda pair: (-pair.similarity, pair.first, pair.second))


def find_repeats(texts: Sequence[str], earlier: Sequence[str]) -> dict[int, Pair]:
    """Which of `texts` say the same, or nearly, as one of `earlier`, or as one before
    it.

    By position, with the closest of the texts that it repeats: its place in `[*earlier,
    *texts]`.
    """
    pairs = similar_pairs([*earlier, *texts])
    closest = {}
    for pair in reversed(pairs):
        place = pair.second - len(earlier)
        if place >= 0:
            closest[place] = pair
    return closest


def _trigrams(text: str) -> frozenset[str]:
    """Trigrams of the letters of each word, with its ends marked; a word of one or two
    letters is one by itself."""
    trigrams = set()
    for word in _WORD.findall(text.casefold()):
        padded = f" {word} "
        starts = range(len(word))
        trigrams |= {padded[start : start + 3] for start in starts}
    return frozenset(trigrams)
