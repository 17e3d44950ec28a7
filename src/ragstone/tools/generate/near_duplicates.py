"""Finds pairs of texts with nearly the same wording."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

NEARLY_SAME = 0.7
"""Two questions with this similarity or more are near-duplicates."""

_ROUNDING_ERROR = 1e-9
"""The most by which a sum of weights may be wrong."""

_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")


class Pair(Struct, frozen=True):
    """Two similar texts."""

    first: int
    second: int
    """The positions of the two; `first` is less than `second`."""
    similarity: float
    """In [0, 1]; 1 if the words are the same."""


def words_of(text: str) -> str:
    """`text` in lower case without its punctuation, and with single spaces between
    words."""
    return " ".join(_WORD.findall(text.casefold()))


def similar_pairs(
    texts: Sequence[str], *, min_similarity: float = NEARLY_SAME
) -> list[Pair]:
    """The pairs of `texts` with at least `min_similarity` and the same numbers, the most
    similar first.

    The similarity is the weighted Jaccard index of the trigrams of letters in their
    words; a trigram weighs the more, the fewer texts have it, so that the one word that
    differs between two texts of the same form counts. Candidates are found by their
    rarest trigrams (prefix filtering: Bayardo, Ma, Srikant 2007, "Scaling up all pairs
    similarity search"), so no pair is missed, and texts without anything in common are
    never compared. A text with the same words as earlier ones makes a pair with the
    first of these only.
    """
    trigrams_of_texts = list(map(_trigrams, texts))
    counts = Counter[str]()
    for trigrams in trigrams_of_texts:
        counts.update(trigrams)
    weight = {
        trigram: math.log(1.0 + len(texts) / count) for trigram, count in counts.items()
    }

    def total_weight(trigrams: Iterable[str]) -> float:
        # fsum doesn't depend on the order, so that equal texts have equal weights.
        return math.fsum(weight[trigram] for trigram in trigrams)

    totals = list(map(total_weight, trigrams_of_texts))
    positions_by_trigram: dict[str, list[int]] = defaultdict(list)
    first_by_wording: dict[str, int] = {}
    pairs: list[Pair] = []
    for position, trigrams in enumerate(trigrams_of_texts):
        text = texts[position]
        total = totals[position]
        wording = words_of(text) or text
        first = first_by_wording.setdefault(wording, position)
        if first != position:
            pairs.append(Pair(first, position, similarity=1.0))
            continue
        # Similar texts share a trigram before the weight that remains is too small.
        candidates: set[int] = set()
        remaining = total
        min_remaining = min_similarity * total - _ROUNDING_ERROR
        rarest_first = sorted(trigrams, key=lambda trigram: (-weight[trigram], trigram))
        for trigram in rarest_first:
            if remaining < min_remaining:
                break
            remaining -= weight[trigram]
            candidates.update(positions_by_trigram[trigram])
            positions_by_trigram[trigram].append(position)
        numbers = _DIGITS.findall(text)
        for candidate in candidates:
            shared = total_weight(trigrams & trigrams_of_texts[candidate])
            union = total + totals[candidate] - shared
            similarity = min(1.0, shared / union)
            if similarity < min_similarity:
                continue
            candidate_numbers = _DIGITS.findall(texts[candidate])
            if candidate_numbers == numbers:
                pairs.append(Pair(candidate, position, similarity))
    return sorted(pairs, key=lambda pair: (-pair.similarity, pair.first, pair.second))


def find_repeats(texts: Sequence[str], earlier: Sequence[str]) -> dict[int, Pair]:
    """Find each of `texts` that is nearly the same as one of `earlier`, or as a text
    before it in `texts`.

    Returns the most similar pair for each, by its position in `texts`. The positions in
    a pair are those in ``[*earlier, *texts]``.
    """
    pairs = similar_pairs([*earlier, *texts])
    most_similar = {}
    for pair in reversed(pairs):
        position = pair.second - len(earlier)
        if position >= 0:
            most_similar[position] = pair
    return most_similar


def _trigrams(text: str) -> frozenset[str]:
    """The trigrams of letters in the words of `text`. A space marks the ends of a word,
    so that a word of one letter has a trigram, too."""
    trigrams = set()
    for word in _WORD.findall(text.casefold()):
        padded = f" {word} "
        starts = range(len(word))
        trigrams |= {padded[start : start + 3] for start in starts}
    return frozenset(trigrams)
