"""The best of many versions none of which is better: how much it gains, and whether the history tells how much.

    python bench/wear.py

Questions have an expected score each (Beta(6, 1)), an answer's score is the share of its three statements that are
supported, and each version answers 40 % of the questions anew. The gain is that of the best of 66 versions of one base
over that base. The history is a chain of versions, each made of the one before, of which none was chosen.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from ragstone.history.wear import TYPICAL_SD
from ragstone.stats.best_of import expected_maximum
from ragstone.stats.drift import Series, half_squares

Floats = NDArray[np.float64]

RENEWED = 0.4
STATEMENTS = 3
CHAIN = 24


def answered(rng: np.random.Generator, skill: Floats, base: Floats) -> Floats:
    """The scores of a version made of the one with the scores `base`."""
    new = rng.binomial(STATEMENTS, skill) / STATEMENTS
    return np.where(rng.random(base.shape) < RENEWED, new, base)


def simulated(n: int, versions: int, repeats: int, seed: int = 1) -> tuple[float, Floats]:
    """The mean gain of the best of `versions`, and for each repeat what the history of a chain says it is."""
    rng = np.random.Generator(np.random.PCG64(seed))
    best, said = expected_maximum(versions), []
    gains = []
    for _ in range(repeats):
        skill = rng.beta(6.0, 1.0, size=n)
        base = rng.binomial(STATEMENTS, skill) / STATEMENTS
        gains.append(max(float(answered(rng, skill, base).mean()) for _ in range(versions)) - float(base.mean()))
        chain = [base]
        while len(chain) < CHAIN:
            chain.append(answered(rng, skill, chain[-1]))
        series = Series(np.array(chain), np.arange(CHAIN), np.ones(CHAIN, dtype=np.bool_))
        lags, squares = half_squares(series)
        said.append(best * math.sqrt(float(squares[lags == 2].mean())))
    return float(np.mean(gains)), np.array(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1_000)
    repeats = parser.parse_args().repeats
    print(f"{'n':>5} {'versions':>8} {'gain':>6} {'by the history':>15} {'assumed':>8}   points")
    for n in (60, 200, 500):
        for versions in (10, 66, 200):
            gain, said = simulated(n, versions, repeats)
            low, middle, high = np.quantile(said, (0.05, 0.5, 0.95))
            assumed = expected_maximum(versions) * TYPICAL_SD / math.sqrt(n)
            print(
                f"{n:>5} {versions:>8} {100 * gain:>6.1f} "
                f"{100 * middle:>5.1f} ({100 * low:.1f}-{100 * high:.1f}) {100 * assumed:>8.1f}"
            )


if __name__ == "__main__":
    main()
