"""How often `ragstone monitor` raises a false alarm, and how soon it finds a change: simulated years of daily looks.

    python bench/monitoring.py [--years 1000]

A false alarm is the beginning of an alarm, or a jump, of one metric while nothing changed. Days differ by more than
their samples explain in the rows with "days differ": a standard deviation of the true daily mean of that many points.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.surveillance import Observed, surveil

Floats = NDArray[np.float64]
ANCHOR = 28
YEAR = 365
PER_DAY = 200


def day(rng: np.random.Generator, kind: str, mean: float, n: int) -> Observed:
    """One day's sample of scores of a kind, with this true mean."""
    mean = min(0.999, max(0.001, mean))
    if kind == "yes or no":
        values = (rng.random(n) < mean).astype(float)
    elif kind == "thirds":
        values = rng.binomial(3, mean, n) / 3.0
    else:  # a share of statements: many at 1, the rest anywhere
        perfect = max(0.0, 2.0 * mean - 1.0)
        values = np.where(rng.random(n) < perfect, 1.0, rng.random(n))
    return Observed(float(values.mean()), n, float(values.var(ddof=1)))


def count(days: list[Observed], shift: float, *, rising: bool) -> tuple[int, int | None]:
    """Number of beginnings of alarms, and the first of them, in days after the anchor."""
    found = surveil(days, shift=shift, rising=rising, anchor=ANCHOR, looks_per_alarm=YEAR)
    assert found is not None
    started, first, before = 0, None, False
    for number, look in enumerate(found.looks):
        if look.jump or (look.alarm and not before):
            started += 1
            first = number if first is None else first
        before = look.alarm
    return started, first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=1000)
    years = parser.parse_args().years
    rng = np.random.default_rng(20261122)
    scenarios = [
        ("faithfulness, a share", "share", 0.85, PER_DAY, 0.0, 0.05),
        ("a grade in thirds", "thirds", 0.75, PER_DAY, 0.0, 0.05),
        ("yes or no, mean 0.90", "yes or no", 0.90, PER_DAY, 0.0, 0.05),
        ("yes or no, mean 0.50 (the noisiest)", "yes or no", 0.50, PER_DAY, 0.0, 0.05),
        ("yes or no 0.90, days differ by 1", "yes or no", 0.90, PER_DAY, 0.01, 0.05),
        ("yes or no 0.90, days differ by 2", "yes or no", 0.90, PER_DAY, 0.02, 0.05),
        ("50 samples a day, mean 0.90", "yes or no", 0.90, 50, 0.0, 0.05),
        ("error rate 1 %, 2,000 a day", "yes or no", 0.99, 2000, 0.0, 0.05),
        ("error rate 1 %, 2,000 a day, shift 1", "yes or no", 0.99, 2000, 0.0, 0.01),
        ("error rate 0.1 %, 200 a day", "yes or no", 0.999, 200, 0.0, 0.05),
        ("yes or no, mean 0.50, 600 a day", "yes or no", 0.50, 600, 0.0, 0.05),
    ]
    print(f"{years:,} years each; anchor {ANCHOR} days; the shift is found if an alarm begins within 4 days of it.")
    print(f"{'scenario':38} {'false alarms a year':>20} {'found in 4 days':>16} {'median days':>12}")
    for name, kind, mean, n, differ, shift in scenarios:
        false, found, delays = 0, 0, []
        for _ in range(years):
            means = mean + differ * rng.standard_normal(ANCHOR + YEAR)
            false += count([day(rng, kind, m, n) for m in means], shift, rising=False)[0]
            quiet = int(rng.integers(1, 15))
            means = mean + differ * rng.standard_normal(ANCHOR + quiet + 30)
            means[ANCHOR + quiet :] -= shift
            days = [day(rng, kind, m, n) for m in means]
            look = surveil(days, shift=shift, rising=False, anchor=ANCHOR, looks_per_alarm=YEAR)
            assert look is not None
            after = [one.position - ANCHOR - quiet + 1 for one in look.looks[quiet:] if one.alarm or one.jump]
            delays.append(after[0] if after else 31)
            found += bool(after and after[0] <= 4)
        print(f"{name:38} {false / years:20.2f} {found / years:16.0%} {float(np.median(delays)):12.0f}")


if __name__ == "__main__":
    main()
