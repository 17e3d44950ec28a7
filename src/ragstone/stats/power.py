"""Power: the drop that a number of samples can detect."""

from __future__ import annotations

import math

from ragstone.stats.normal import normal_quantile


def detectable_drop(
    sd: float,
    n: int,
    power: float = 0.8,
    alpha: float = 0.05,
    *,
    tests: float = 1,
    group_size: float = 1.0,
    correlation: float = 0.0,
    loss: float = 0.0,
) -> float:
    """The smallest true drop that `n` samples show with probability `power`; inf if n is too small for any.

    `sd` is the standard deviation of one paired difference. `tests` is the number of hypotheses that share `alpha`
    (Bonferroni, so the result is conservative). `group_size` and `correlation` increase it for samples in groups
    (Kish's design effect, 1 + (size - 1) · correlation).
    One-sided normal approximation, (z_{alpha/tests} + z_power)² sd² = n drop², with z²/2 samples less for the
    estimated sd (Guenther 1981). `loss` is the assumed fall of each value that falls: a drop comes from some values
    that lose much, which adds variance. Raises ValueError for arguments out of range.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if not 0.0 < power < 1.0 or not 0.0 < alpha < 0.5 or tests < 1:
        raise ValueError(f"need power in (0, 1), alpha in (0, 0.5), tests >= 1; got {power}, {alpha}, {tests}")
    if not (math.isfinite(sd) and sd >= 0.0):
        raise ValueError(f"sd must be finite and not negative, got {sd}")
    z_alpha = normal_quantile(1.0 - alpha / tests)
    total = z_alpha + normal_quantile(power)
    effective = n / design_effect(group_size, correlation) - z_alpha**2 / 2.0
    if sd == 0.0 and loss == 0.0:
        return 0.0
    if effective <= 0.0:
        return math.inf
    k = total**2 / effective
    # drop² = k (sd² + variance of the drop), solved for the drop.
    middle = k * loss
    drop = (middle + math.sqrt(middle**2 + 4.0 * (1.0 + k) * k * sd**2)) / (2.0 * (1.0 + k))
    if 2.0 * drop <= loss:
        return drop
    return math.sqrt(k * (sd**2 + loss**2 / 4.0))


def variance_of_drop(drop: float, loss: float) -> float:
    """The variance if some values lose `loss` and the others nothing, so that the mean falls by `drop`."""
    return drop * (loss - drop) if 2.0 * drop < loss else loss**2 / 4.0


def design_effect(group_size: float, correlation: float) -> float:
    """1 + (size - 1) · correlation (Kish 1965): how much grouping inflates the variance of a mean; at least 1."""
    if group_size < 1.0 or not -1.0 <= correlation <= 1.0:
        raise ValueError(f"need group_size >= 1 and correlation in [-1, 1], got {group_size} and {correlation}")
    return max(1.0, 1.0 + (group_size - 1.0) * correlation)
