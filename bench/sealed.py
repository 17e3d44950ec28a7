"""What a sealed set finds: the gap between seen and sealed means over 1,000 merges, with and without an adversary.

    python bench/sealed.py

Twenty merges a month; the first of each month changes 40 % of the answers, the others 2 %. The adversary makes 66
candidates a month and keeps the best on the seen questions; what it gains there is never lost (the worst case: by luck
alone, each change would lose part of it again). Means of both sets are released once in five merges, about weekly;
after 50 releases the sealed questions are replaced. A score has a standard deviation of 0.25 between questions and
0.165 between answers to one: then the best of 66 gains 4.6 points on 60 questions, and 2.5 on 200. Means are normal.

- held: the share of seasons, with the adversary, in which the interval of the gap held the truth at all 200 releases
- alarms: new alarms a year of an honest team, in one metric; in any of four (half of their variance in common)
- found: the share of seasons in which an alarm came before the gap was 5 points

The second table compares ways to release the gap of both halves of 1,000 questions: `ragstone.stats.gap` ("spending");
"Bonferroni", the same level for each of 200 releases, a number fixed beforehand; and "Thresholdout" (Dwork et al. 2015,
algorithm 1), which releases the sealed mean only if it differs from the seen one by more than a threshold, with Laplace
noise of scale 2 s on the threshold, 4 s on the difference and s on what it releases. An alarm of it is such a release.
Its threshold is the smallest with no more alarms of an honest team than "spending" has, and the half-width that of the
interval that holds all its releases of an honest team in .95 of seasons. "Probed": the share of seasons in which the
interval holds for a system that was made from 49 releases of systems which answer each question in one of two ways at
random, by the way with the better releases (the attack of Blum and Hardt 2015 on means).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ragstone.stats.gap import ALARM, ROUNDING, spent

Floats = NDArray[np.float64]

BETWEEN, WITHIN = 0.25, 0.165
SD = float(np.hypot(BETWEEN, WITHIN))
CHANGED, CANDIDATES = 0.4, 66
MONTHS, MERGES, EVERY, RELEASES = 50, 20, 5, 50
LOOKS = MONTHS * MERGES // EVERY
MAX_GAP = 0.02
SIZES = ((48, 12), (100, 100), (160, 40), (400, 100), (250, 250), (800, 200), (500, 500), (1_000, 1_000))


@dataclass(frozen=True)
class Seasons:
    """By release and season: seen minus sealed mean, and how much of it was learnt; both also since the first release
    of the sealed set."""

    gap: Floats
    learnt: Floats
    grown: Floats
    newly_learnt: Floats

    def of(self, *, drawn: bool) -> tuple[Floats, Floats]:
        return (self.gap, self.learnt) if drawn else (self.grown, self.newly_learnt)


def seasons(seen: int, sealed: int, count: int, rng: np.random.Generator, *, learns: bool) -> Seasons:
    def drawn(sd: float, n: int) -> Floats:
        return rng.normal(0.0, sd / np.sqrt(n), count)

    hard, luck = drawn(BETWEEN, seen), drawn(WITHIN, seen)
    sealed_hard, sealed_luck = drawn(BETWEEN, sealed), drawn(WITHIN, sealed)
    learnt = np.zeros(count)
    gaps, truths, first = list[Floats](), list[Floats](), list[int]()
    for merge in range(MONTHS * MERGES):
        stays = 1.0 - (0.02 if merge % MERGES else CHANGED)
        new = np.sqrt(1.0 - stays**2)
        luck = stays * luck + new * drawn(WITHIN, seen)
        sealed_luck = stays * sealed_luck + new * drawn(WITHIN, sealed)
        if learns and merge and merge % MERGES == 0:
            each = np.sqrt(2.0 * CHANGED) * WITHIN / np.sqrt(seen)
            learnt = learnt + rng.normal(0.0, each, (CANDIDATES, count)).max(axis=0)
        if merge % EVERY == 0:
            release = len(gaps)
            if release % RELEASES == 0 and release:
                sealed_hard, sealed_luck = drawn(BETWEEN, sealed), drawn(WITHIN, sealed)
            released = np.round((sealed_hard + sealed_luck) / ROUNDING) * ROUNDING
            gaps.append(hard + luck + learnt - released)
            truths.append(learnt)
            first.append(release - release % RELEASES)
    gap, truth = np.array(gaps), np.array(truths)
    return Seasons(gap, truth, gap - gap[first], truth - truth[first])


def error(seen: int, sealed: int, *, drawn: bool) -> float:
    """The standard error that `ragstone.stats.gap` uses."""
    return float(np.sqrt((SD**2 * (1.0 / seen + 1.0 / sealed) + ROUNDING**2 / 12.0) * (1.0 if drawn else 2.0)))


def levels() -> Floats:
    """The quantile of each release's interval."""
    return np.array([ndtri(1.0 - spent(release) / 2.0) for release in range(1, LOOKS + 1)])[:, None]


def alarms(gap: Floats, error: float) -> NDArray[np.bool_]:
    """As `Gap.alarms` and the policy's default say; a new sealed set has no alarm to last."""
    limit = max(ndtri(1.0 - ALARM) * error, MAX_GAP)
    raised: NDArray[np.bool_] = np.greater(gap, limit)
    for release in range(1, LOOKS):
        if release % RELEASES:
            raised[release] |= raised[release - 1] & (gap[release] > limit / 2.0)
    return raised


def new_a_year(raised: NDArray[np.bool_]) -> float:
    """Alarms whose release before had none, a year."""
    starts = raised[0].sum() + (raised[1:] & ~raised[:-1]).sum()
    return float(starts / raised.shape[1] / (MONTHS / 12.0))


def found(raised: NDArray[np.bool_], learnt: Floats) -> float:
    before = np.maximum.accumulate(learnt, axis=0) < 0.05
    return float((raised & before).any(axis=0).mean())


def row(seen: int, sealed: int, count: int, rng: np.random.Generator, *, drawn: bool) -> list[str]:
    wide = error(seen, sealed, drawn=drawn)
    gap, truth = seasons(seen, sealed, count, rng, learns=True).of(drawn=drawn)
    held = (np.abs(gap - truth) <= levels() * wide).all(axis=0).mean()
    honest = [seasons(seen, sealed, count, rng, learns=False).of(drawn=drawn)[0] for _ in range(5)]
    each = [alarms((honest[0] + own) / np.sqrt(2.0), wide) for own in honest[1:]]
    four: NDArray[np.bool_] = np.logical_or.reduce(each)
    once = alarms(gap, wide)
    figures = (held, new_a_year(alarms(honest[0], wide)), new_a_year(four), found(once, truth))
    return [f"{seen:,}", f"{sealed:,}", *(f"{figure:.2f}" for figure in figures)]


def thresholdout(
    gap: Floats, scale: float, threshold: float, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """What is released of the gap (0 where the seen mean is), and whether the sealed mean was."""
    noisy = threshold + rng.laplace(0.0, 2.0 * scale, gap.shape) if scale else np.full(gap.shape, threshold)
    told = gap + (rng.laplace(0.0, 4.0 * scale, gap.shape) if scale else 0.0) > noisy
    return np.where(told, gap + (rng.laplace(0.0, scale, gap.shape) if scale else 0.0), 0.0), told


def probed(n: int, count: int, rng: np.random.Generator, release: Callable[[Floats], Floats]) -> Floats:
    """By how much a system made from 49 releases is better on the sealed questions than on others."""
    better = []
    for _ in range(count):
        effects, hard = rng.normal(0.0, WITHIN, n), rng.normal(0.0, BETWEEN, n).mean()
        ways = rng.choice((-1.0, 1.0), (RELEASES - 1, n))
        told = release(hard + ways @ effects / n)
        votes = (told - told.mean()) @ ways
        better.append(hard + (np.sign(votes) * effects).mean())
    return np.array(better)


def compared(count: int, rng: np.random.Generator) -> list[list[str]]:
    n = 500
    wide, quantiles = error(n, n, drawn=True), levels()[:, 0]
    honest, learning = (seasons(n, n, count, rng, learns=learns) for learns in (False, True))
    allowed = new_a_year(alarms(honest.gap, wide))

    def rounded(means: Floats) -> Floats:
        return np.round(means / ROUNDING) * ROUNDING

    seen = rng.normal(0.0, SD / np.sqrt(n), count)
    attacked = np.abs(seen - probed(n, count, rng, rounded))
    rows = []
    for name, ks in (("spending", quantiles), ("Bonferroni", np.full(LOOKS, ndtri(1.0 - 0.025 / LOOKS)))):
        widths = [f"{100.0 * ks[place - 1] * wide:.1f}" for place in (1, 12, 50, 200)]
        holds = (attacked <= ks[RELEASES - 1] * wide).mean()
        rate = found(alarms(learning.gap, wide), learning.learnt)
        rows.append([name, *widths, f"{allowed:.2f}", f"{rate:.2f}", f"{holds:.2f}"])
    for part in (0.0, 0.25, 1.0):
        scale = part * wide
        grid = np.arange(0.5, 80.0, 0.1) * wide
        threshold = next(one for one in grid if new_a_year(thresholdout(honest.gap, scale, one, rng)[1]) <= allowed)
        told, _ = thresholdout(honest.gap, scale, threshold, rng)
        silent = np.abs(honest.gap - told)  # what the answer is off the sealed mean
        half = float(np.quantile(np.abs(told).max(axis=0), 0.95)) if part else 0.0
        half = max(half, float(np.quantile(silent.max(axis=0), 0.95)))
        _, raised = thresholdout(learning.gap, scale, threshold, rng)

        def noisy(means: Floats, scale: float = scale, threshold: float = threshold) -> Floats:
            gap, _ = thresholdout(-means, scale, threshold, rng)
            return -gap

        holds = (np.abs(seen - probed(n, count, rng, noisy)) <= half).mean()
        rate = found(raised, learning.learnt)
        width = f"{100.0 * half:.1f}"
        rows.append(
            [f"Thresholdout, s = {part:g} errors", *[width] * 4, f"{allowed:.2f}", f"{rate:.2f}", f"{holds:.2f}"]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seasons", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    for drawn in (True, False):
        print(f"\n{'drawn at random from one set: the gap' if drawn else 'not drawn: the growth of the gap'}\n")
        print("| seen | sealed | held | alarms | alarms, any of four | found |\n|---|---|---|---|---|---|")
        for seen, sealed in SIZES:
            print(f"| {' | '.join(row(seen, sealed, given.seasons, rng, drawn=drawn))} |")
            sys.stdout.flush()
    print("\n| way | ± at release 1 | 12 | 50 | 200 | alarms | found | probed |\n|---|---|---|---|---|---|---|---|")
    for cells in compared(given.seasons // 4, rng):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
