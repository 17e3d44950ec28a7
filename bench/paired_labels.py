"""Drops corrected by people's labels of both answers to some questions: ``python bench/paired_labels.py [RUNS]``.

A judge passes a share of the bad answers; of the new answers, because of their style, 5, 10 or 15 points less than of
the old ones, so it sees a drop where there is none. Pairs are drawn as by ``ragstone label --where-sides-differ``.
Prints how often the judge and the corrected difference show a loss, of 2 points or more, where nothing was lost, and
where 12 points were; the coverage of the 95 % interval of the correction; and how many pairs have to be labelled for an
interval of the same width without the judge, drawn at random, or else answers of each side on its own. With groups,
five questions each are alike in what is good and where the judge errs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ragstone.stats.intervals import mean_interval
from ragstone.stats.ppi import PoweredMean, powered_difference
from ragstone.stats.sampling import inclusion_probabilities, systematic_sample
from ragstone.tools.judging.labelling.labelling import MIN_PAIR_SHARE

Floats = NDArray[np.float64]
QUESTIONS, GOOD, FALSE_PASSES, FALSE_FAILS, TURNED, ALLOWED = 200, 0.7, 0.3, 0.05, 0.2, 0.02
STEP = 4


@dataclass(frozen=True)
class Setting:
    """`bias`: how much less of the bad new answers the judge passes. `lost`: the share of answers that became bad."""

    bias: float
    lost: float
    labels: int
    grouped: bool


def uniform(rng: np.random.Generator, groups: NDArray[np.int64] | None) -> Floats:
    """Uniform numbers, half of whose variance (on the normal scale) is between groups."""
    own = rng.normal(size=QUESTIONS)
    return np.asarray(ndtr(own if groups is None else (own + rng.normal(size=QUESTIONS)[groups]) / np.sqrt(2.0)))


def questions(rng: np.random.Generator, one: Setting) -> tuple[Floats, Floats, Floats, NDArray[np.int64] | None]:
    """Each answer now and before by people, and the change by the judge; without loss, as many turn good as bad."""
    groups = np.arange(QUESTIONS) // 5 if one.grouped else None
    before = (uniform(rng, groups) < GOOD).astype(np.float64)
    now, turned, lost = before.copy(), round(TURNED * QUESTIONS / 2), round(one.lost * QUESTIONS)
    now[rng.choice(np.flatnonzero(before == 0.0), turned, replace=False)] = 1.0
    now[rng.choice(np.flatnonzero(before == 1.0), turned + lost, replace=False)] = 0.0
    errs = uniform(rng, groups)
    again = np.where(rng.random(QUESTIONS) < 0.6, errs, uniform(rng, groups))
    judged = [
        np.where(good == 1.0, chance > FALSE_FAILS, chance < passes).astype(np.float64)
        for good, chance, passes in ((now, again, FALSE_PASSES - one.bias), (before, errs, FALSE_PASSES))
    ]
    return now, before, judged[0] - judged[1], groups


def corrected(people: Floats, judge: Floats, groups: NDArray[np.int64] | None, labels: int, seed: int) -> PoweredMean:
    shares = inclusion_probabilities(MIN_PAIR_SHARE + (1.0 - MIN_PAIR_SHARE) * np.abs(judge), labels)
    drawn = systematic_sample(shares, seed=seed)
    of = None if groups is None else groups[drawn]
    return powered_difference(people[drawn], judge[drawn], shares[drawn], judge, groups=of)


def side_alone(good: Floats, groups: NDArray[np.int64] | None, labels: int, rng: np.random.Generator) -> float:
    """The width of the interval of one side's mean, from labels of answers drawn at random."""
    drawn = rng.choice(QUESTIONS, labels, replace=False)
    found = mean_interval(good[drawn], groups=None if groups is None else groups[drawn])
    return found.high - found.low


def fewer(labels: int, widths: dict[int, list[float]], width: float) -> str:
    needed = next((many for many, seen in widths.items() if np.mean(seen) <= width), None)
    return f"> {max(widths)}" if needed is None else f"{needed} ({1.0 - labels / needed:.0%} fewer)"


def measure(one: Setting, runs: int) -> str:
    rng = np.random.default_rng(11)
    shown = by_judge = covered = 0
    widths: list[float] = []
    alone: dict[int, list[float]] = {labels: [] for labels in range(one.labels, QUESTIONS, STEP)}
    apart: dict[int, list[float]] = {labels: [] for labels in alone}
    nothing = np.zeros(QUESTIONS)
    for seed in range(runs):
        now, before, judge, groups = questions(rng, one)
        people = now - before
        found = corrected(people, judge, groups, one.labels, seed)
        covered += found.low - 1e-9 <= people.mean() <= found.high + 1e-9
        shown += found.high < 0.0 and found.estimate < -ALLOWED
        naive = mean_interval(judge, bounds=(-1.0, 1.0), groups=groups)
        by_judge += naive.high < 0.0 and naive.estimate < -ALLOWED
        widths.append(found.high - found.low)
        if seed < runs // 10:
            for labels, seen in alone.items():
                without = corrected(people, nothing, groups, labels, seed)
                seen.append(without.high - without.low)
                sides = [side_alone(side, groups, labels, rng) for side in (now, before)]
                apart[labels].append(float(np.hypot(sides[0], sides[1])))
    saved = " | ".join(fewer(one.labels, seen, float(np.mean(widths))) for seen in (alone, apart))
    return (
        f"| {100 * one.bias:.0f} | {'5 each' if one.grouped else 'none'} | {one.labels} | {by_judge / runs:.1%} "
        f"| {shown / runs:.1%} | {covered / runs:.1%} | {np.mean(widths) / 2:.3f} | {saved} |"
    )


def main(runs: int) -> None:
    for lost in (0.0, 0.12):
        print(f"\n{'No loss' if not lost else f'{lost:.0%} of the answers became bad'}:\n")
        print(
            "| bias, points | groups | pairs | judge | corrected | coverage | ± | pairs, no judge | each side alone |"
        )
        print("|--:|:--|--:|--:|--:|--:|--:|:--|:--|")
        for labels in (20, 40):
            for grouped in (False, True):
                for bias in (0.05, 0.10, 0.15):
                    print(measure(Setting(bias, lost, labels, grouped), runs), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
