"""Word weights: rare words weigh more than common ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from ragstone.judge.offline.tokens import NUMBER

_PRIOR_TEXTS = 20
_MIN_WEIGHT = 0.15


class Rarity:
    """Inverse document frequency over the golden set's texts, above a shipped table of everyday words.

    A weight is in [0.15, 1]. A word that occurs in every text of the golden set, like the product's name, distinguishes
    samples as little as an everyday word does.
    """

    def __init__(self, texts: Iterable[Iterable[str]] = (), everyday: Mapping[str, float] | None = None) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for keys in texts:
            counts.update(set(keys))
            total += 1
        scale = math.log(total + _PRIOR_TEXTS)
        self._less = {key: weight for key, weight in (everyday or {}).items() if not key.startswith(NUMBER)}
        for key, count in counts.items():
            if count > 1 and not key.startswith(NUMBER):
                self._less[key] = min(self._less.get(key, 1.0), max(_MIN_WEIGHT, 1.0 - math.log(count) / scale))

    def weights(self, keys: Iterable[str]) -> dict[str, float]:
        """The weight of each of `keys`; 1 for a number."""
        less = self._less
        return {key: less.get(key, 1.0) for key in keys}
