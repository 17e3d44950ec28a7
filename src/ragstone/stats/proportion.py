"""Exact limits for a proportion.

Uses quantiles and tails from scipy.special. scipy.stats.binomtest gives the same limits (the tests compare them), but
finds them by root search, and importing scipy.stats takes longer than a small run.
"""

from __future__ import annotations

from scipy.special import bdtrc, betaincinv

from ragstone.stats.estimate import Estimate, check_confidence


def proportion_interval(hits: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """The exact (Clopper–Pearson) interval for a proportion of `hits` in `n` independent trials.

    Source: C. Clopper and E. Pearson, Biometrika 26 (1934). Covers at least `confidence` at any n and any proportion.
    Raises ValueError unless 0 <= hits <= n, n >= 1 and confidence in (0, 1).
    """
    _check(hits, n)
    check_confidence(confidence)
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1.0 - tail))
    return Estimate(hits / n, low, high, confidence, "exact binomial", n)


def p_proportion_at_most(hits: int, n: int, bound: float) -> float:
    """Exact binomial p-value of "the proportion is at most `bound`": P(X >= hits)."""
    _check(hits, n)
    return float(bdtrc(hits - 1, n, bound)) if hits else 1.0


def _check(hits: int, n: int) -> None:
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"need 0 <= hits <= n and n >= 1, got {hits} of {n}")
