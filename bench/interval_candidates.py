"""Why Gaffke's bound: 95 % intervals for a mean and for a paired difference, by the candidate methods.

    python bench/interval_candidates.py            # a few minutes on one core

Prints a Markdown table of coverage / width, pooled over the four metrics of a family, with a true drop of 5 points.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats
from score_families import FAMILIES, Family

from ragstone.stats.intervals import mean_interval

Floats = NDArray[np.float64]
DRAWS = 1000
TAIL = 0.025


def student(x: Floats, rng: np.random.Generator) -> tuple[float, float]:
    half = stats.t.ppf(1 - TAIL, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean() - half), float(x.mean() + half)


def percentile(x: Floats, rng: np.random.Generator) -> tuple[float, float]:
    return _quantiles(_resampled_means(x, rng), TAIL, 1 - TAIL)


def expanded_percentile(x: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Hesterberg (2015), section 5.3: percentiles at the level that gives a t interval for normal data."""
    n = len(x)
    level = float(special.ndtr(np.sqrt(n / (n - 1)) * stats.t.ppf(TAIL, n - 1)))
    return _quantiles(_resampled_means(x, rng), level, 1 - level)


def bca(x: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Efron (1987), with the acceleration of a mean: skewness / (6 sqrt(n))."""
    means, centred = _resampled_means(x, rng), x - x.mean()
    below = np.clip(np.mean(means < x.mean()) + 0.5 * np.mean(means == x.mean()), 1 / DRAWS, 1 - 1 / DRAWS)
    bias = special.ndtri(below)
    squares = np.sum(centred**2)
    acceleration = np.sum(centred**3) / (6 * squares**1.5) if squares else 0.0
    z = bias + special.ndtri(np.array([TAIL, 1 - TAIL]))
    low, high = special.ndtr(bias + z / (1 - acceleration * z))
    return _quantiles(means, float(low), float(high))


def bootstrap_t(x: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Owen (2025): bootstrap t with weights Beta(1/2, 3/2) in place of resampling."""
    weights = rng.beta(0.5, 1.5, size=(DRAWS, len(x)))
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ x
    spread = np.sqrt(np.maximum((weights * (x - means[:, None]) ** 2).sum(axis=1), 1e-12))
    low, high = np.quantile((means - x.mean()) / spread, [TAIL, 1 - TAIL])
    return float(x.mean() - high * x.std()), float(x.mean() - low * x.std())


METHODS: dict[str, Callable[[Floats, np.random.Generator], tuple[float, float]]] = {
    "Student's t": student,
    "bootstrap percentile": percentile,
    "expanded percentile": expanded_percentile,
    "BCa": bca,
    "bootstrap t, Beta weights": bootstrap_t,
}


def _resampled_means(x: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.choice(x, size=(DRAWS, len(x))).mean(axis=1))


def _quantiles(values: Floats, low: float, high: float) -> tuple[float, float]:
    found = np.quantile(values, [low, high])
    return float(found[0]), float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--sizes", type=int, nargs="*", default=[30, 100])
    options = parser.parse_args()
    families = [family for family in FAMILIES if family.name in ("rag", "few anew", "pass/fail", "near perfect")]
    names = [*METHODS, "ragstone"]
    print(f"| data | n | {' | '.join(names)} |\n|{' --- |' * (len(names) + 2)}")
    for what in ("mean", "difference"):
        for family in families:
            for n in options.sizes:
                print(f"| {what}, {family.name} | {n} | {' | '.join(_cells(what, family, n, options.runs, names))} |")


def _cells(what: str, family: Family, n: int, runs: int, names: list[str]) -> list[str]:
    rng = np.random.Generator(np.random.PCG64((5, n)))
    means, changes = family.true_means(0.05)
    found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    for baseline, current in zip(*family.draw(rng, runs, n, 0.05), strict=True):
        for j in range(4):
            x = current[:, j] if what == "mean" else current[:, j] - baseline[:, j]
            truth = (means if what == "mean" else changes)[j]
            limits = {name: method(x, rng) for name, method in METHODS.items()}
            ours = mean_interval(x, bounds=(0.0, 1.0) if what == "mean" else (-1.0, 1.0))
            limits["ragstone"] = (ours.low, ours.high)
            for name, (low, high) in limits.items():
                found[name].append((low - 1e-9 <= truth <= high + 1e-9, high - low))
    return [
        f"{np.mean([inside for inside, _ in found[name]]):.3f} / {np.mean([width for _, width in found[name]]):.3f}"
        for name in names
    ]


if __name__ == "__main__":
    main()
