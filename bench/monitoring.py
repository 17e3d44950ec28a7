"""How often `ragstone monitor` raises a false alarm, and how soon it finds a loss: simulated years of daily looks.

    python bench/monitoring.py [--years 200]

A false alarm is the beginning of an alarm while nothing changed. All figures that are watched share one a year: each is
simulated at its share, and their number is the sum. A loss begins one or two weeks after the anchor, or half a year
later, when the noise is better known; its size is in points, and the change to find is 5 points.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.surveillance import Observed, surveil

Floats = NDArray[np.float64]
FIGURES = 11
"""As many are watched by default: eight of the log, and three metrics."""
ANCHOR = 28
YEAR = 365
SHIFT = 0.05
LOSSES = (0.03, 0.05, 0.1)
DAYS_LEFT = 60
"""A loss that is not found in so many days counts as found then."""


@dataclass(frozen=True)
class Scenario:
    """Days with `n` samples, each a share of `steps` verdicts. Of the true daily means, in points of 1: `weekend` is
    what Saturday and Sunday are lower by, `differ` the standard deviation of what days differ by, with the
    autocorrelation `lasting`, and `swing` the amplitude of a yearly swing that the anchor is anywhere in."""

    name: str
    mean: float = 0.85
    steps: int = 3
    n: int = 200
    weekend: float = 0.0
    differ: float = 0.0
    lasting: float = 0.0
    swing: float = 0.0

    def days(self, rng: np.random.Generator, count: int, *, loss: float = 0.0, at: int = 0) -> list[Observed]:
        """`count` days, with a `loss` from the day `at` on."""
        day = np.arange(count)
        means = self.mean - self.weekend * (day % 7 >= 5) - loss * (day >= at)
        means += self.swing * np.sin(2.0 * np.pi * (day / YEAR + rng.random()))
        state = rng.standard_normal(count)
        for i in range(1, count):
            state[i] = self.lasting * state[i - 1] + np.sqrt(1.0 - self.lasting**2) * state[i]
        found = []
        for i, mean in enumerate(np.clip(means + self.differ * state, 0.001, 0.999)):
            values = rng.binomial(self.steps, mean, self.n) / self.steps
            found.append(Observed(float(values.mean()), self.n, float(values.var(ddof=1)), i % 7))
        return found

    def alarms(self, rng: np.random.Generator, years: int) -> tuple[float, float]:
        """Alarms a year in all figures together, and the days of a year that a figure is in one."""
        began, lasted = 0, 0
        for _ in range(years):
            states = [False, *_alarms(self.days(rng, ANCHOR + YEAR))]
            began += sum(now and not before for before, now in pairwise(states))
            lasted += sum(states)
        return FIGURES * began / years, lasted / years

    def delay(self, rng: np.random.Generator, times: int, loss: float, *, late: bool) -> float:
        """The median number of days until a loss is found."""
        found = []
        for _ in range(times):
            quiet = int(rng.integers(7, 15)) + (YEAR // 2 if late else 0)
            states = _alarms(self.days(rng, ANCHOR + quiet + DAYS_LEFT, loss=loss, at=ANCHOR + quiet))[quiet:]
            found.append(states.index(True) + 1 if True in states else DAYS_LEFT)
        return float(np.median(found))


def _alarms(days: list[Observed]) -> list[bool]:
    looked = surveil(days, shift=SHIFT, rising=False, anchor=ANCHOR, looks_per_alarm=FIGURES * YEAR)
    return [look.alarm for look in looked]


SCENARIOS = (
    Scenario("independent days"),
    Scenario("weekends 2 points lower", weekend=0.02),
    Scenario("correlated days: 2 points, 0.5", differ=0.02, lasting=0.5),
    Scenario("correlated days: 1 point, 0.7", differ=0.01, lasting=0.7),
    Scenario("yearly swing of ± 3 points", swing=0.03),
    Scenario("yes or no, mean 0.90", 0.90, 1),
    Scenario("yes or no, mean 0.50", 0.50, 1),
    Scenario("yes or no, mean 0.90, 50 a day", 0.90, 1, 50),
    Scenario("error rate 1 %, 2,000 a day", 0.99, 1, 2000),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=200)
    years = parser.parse_args().years
    print(f"{years:,} years each, {FIGURES} figures; median days until a loss is found, soon / late\n")
    print("| days | alarms a year, all figures | days in alarm |" + "".join(f" {100 * x:.0f} points |" for x in LOSSES))
    print("|---|" + "--:|" * (2 + len(LOSSES)))
    for scenario in SCENARIOS:
        rng = np.random.default_rng(20261122)
        began, lasted = scenario.alarms(rng, years)
        cells = [f"{began:.1f}", f"{lasted:.0f}"]
        for loss in LOSSES:
            soon, late = (scenario.delay(rng, years // 2, loss, late=late) for late in (False, True))
            cells.append(f"{soon:.0f} / {late:.0f}")
        print(f"| {scenario.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
