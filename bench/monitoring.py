"""How often `ragstone monitor` raises a false alarm, and how soon it finds a loss: simulated years of daily looks.

    python bench/monitoring.py [--years 200]

A false alarm is the beginning of an alarm while nothing changed. All figures that are watched share one a year: each is
simulated at its share, and their number is the sum. A loss begins one or two weeks after the anchor, or half a year
later, when the noise is better known; its size is in points, and the change to find is 5 points.

At a line, from the first day on: a false alarm is one while the mean is at the line, in all figures that have one by
default. A mean that is beyond it is so from the first day on.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragstone.stats.surveillance import Observed, surveil, surveil_line

Floats = NDArray[np.float64]
FIGURES = 11
"""As many are watched by default: eight of the log, and three metrics."""
LINES = 6
"""As many of them have a line by default: five of the log, and faithfulness."""
ANCHOR = 28
YEAR = 365
LOOKS = (FIGURES + LINES) * YEAR
SHIFT = 0.05
LOSSES = (0.03, 0.05, 0.1)
BEYOND = (0.03, 0.05, 0.1, 0.3)
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

    def line_alarms(self, rng: np.random.Generator, years: int) -> tuple[float, float]:
        """Alarms a year in all figures with a line together, whose means are at it; and those of the first 28 days."""
        began, early = 0, 0
        for _ in range(years):
            states = self.beyond(self.days(rng, YEAR))
            starts = [day for day, (before, now) in enumerate(pairwise([False, *states])) if now and not before]
            began, early = began + len(starts), early + sum(day < ANCHOR for day in starts)
        return LINES * began / years, LINES * early / years

    def line_delay(self, rng: np.random.Generator, times: int, loss: float) -> float:
        """The median number of days until it is found that the mean is beyond its line by `loss`."""
        states = [self.beyond(self.days(rng, DAYS_LEFT, loss=loss)) for _ in range(times)]
        return float(np.median([one.index(True) + 1 if True in one else DAYS_LEFT for one in states]))

    def beyond(self, days: list[Observed]) -> list[bool]:
        looks = surveil_line(days, line=self.mean, shift=SHIFT, rising=False, share=True, looks_per_alarm=LOOKS)
        return [look.alarm for look in looks]


def _alarms(days: list[Observed]) -> list[bool]:
    looked = surveil(days, shift=SHIFT, rising=False, anchor=ANCHOR, looks_per_alarm=LOOKS)
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

WILDER = (
    Scenario("differ by 5 points, 0.5: more than is presumed", differ=0.05, lasting=0.5),
    Scenario("yes or no, mean 0.50, 10 a day", 0.50, 1, 10),
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
    print(f"\nAt a line, {LINES} figures; median days until a mean beyond the line is found\n")
    heads = "".join(f" {100 * x:.0f} points |" for x in BEYOND)
    print(f"| days | alarms a year, all lines | of these, in the first {ANCHOR} days |{heads}")
    print("|---|" + "--:|" * (2 + len(BEYOND)))
    for scenario in (*SCENARIOS, *WILDER):
        rng = np.random.default_rng(20261122)
        delays = [scenario.line_delay(rng, years // 2, loss) for loss in BEYOND]
        cells = [f"{rate:.1f}" for rate in scenario.line_alarms(rng, years)] + [f"{days:.0f}" for days in delays]
        print(f"| {scenario.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
