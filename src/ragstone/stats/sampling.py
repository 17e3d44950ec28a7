"""Samples of a finite population with known probabilities of being drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def inclusion_probabilities(sizes: Floats, n: int) -> Floats:
    """The probabilities (N,) of a sample of `n` units in which each is proportional to its size, at most 1.

    Units whose share would be more than 1 are certain, and the rest share what is left. Raises ValueError unless
    0 < n <= N and all sizes are positive and finite.
    """
    size = np.asarray(sizes, dtype=np.float64)
    if size.ndim != 1 or not 0 < n <= len(size) or not np.all(np.isfinite(size)) or np.any(size <= 0.0):
        raise ValueError(f"need positive sizes and a sample of 1 to {size.size}, got {n}")
    found = np.ones(len(size))
    certain = np.zeros(len(size), dtype=np.bool_)
    while True:
        free = ~certain
        share = (n - int(certain.sum())) * size[free] / size[free].sum() if free.any() else size[free]
        if not np.any(share >= 1.0):
            found[free] = share
            return found
        certain[np.flatnonzero(free)[share >= 1.0]] = True


def systematic_sample(probabilities: Floats, *, seed: int = 0) -> NDArray[np.int64]:
    """Positions drawn with `probabilities` (N,), whose sum is the size of the sample, in ascending order.

    Systematic sampling of the units in random order: each unit is drawn with exactly its probability (W. G. Madow,
    Annals of Mathematical Statistics 20, 1949).
    """
    share = np.asarray(probabilities, dtype=np.float64)
    rng = np.random.Generator(np.random.PCG64(seed))
    order = rng.permutation(len(share))
    ends = np.cumsum(share[order])
    size = round(float(ends[-1]))
    marks = rng.random() + np.arange(size)
    drawn = np.searchsorted(ends * (size / ends[-1]), marks, side="right")
    return np.sort(order[np.minimum(drawn, len(share) - 1)]).astype(np.int64)
