"""How often the gate fails a change: healthy changes and losses of several kinds.

    python bench/losses.py --runs 100 --n 80
    python bench/losses.py --renewed 0 --n 51   # a system that gives the same answers in every run

Scores are drawn, and decided by the gate's own function (stats/losses.py) with the shares of gate/confirm.py. In a
season there are four metrics and ten tags, each on a tenth of the samples. A sample's difficulty, Beta(6, 0.6), is
shared by the metrics; an answer makes one to seven statements, and its score in a metric is the share that is judged
good; the judge gets 3 % of the statements wrong; 40 % of the answers are new whenever the system is asked. A loss takes
0.5 from the chance of as many samples as make the mean. The baseline are the scores of the last six runs, or of one.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.confirm import ASK, AT_ONCE, FAIL, STILL_SUSPECT, SUSPECT
from ragstone.gate.policy import default_policy
from ragstone.stats.losses import Change, loss_test

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHA, MAX_DROP = 0.05, 0.02
METRICS, TAGS, RUNS, MORE = 4, 10, 6, default_policy().gate.confirm_repeats
RENEWED, MISJUDGED, FALL = 0.4, 0.03, 0.5

UNHARMED = Change(np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros((1, 1)), part=True)


class System:
    """A system under test and its judge: `ask` gives the scores (n, metrics) of one run, `change` changes it."""

    def __init__(self, n: int, rng: np.random.Generator, renewed: float = RENEWED) -> None:
        self.n, self.rng, self.renewed = n, rng, renewed
        self.chance = np.repeat(self._difficulty(n)[:, None], METRICS, axis=1)
        self.scores = self._answers()

    def ask(self) -> Floats:
        """A run: a share of the answers is new, the others are as they were."""
        self.renew(self.rng.random(self.n) < self.renewed)
        return self.scores.copy()

    def lose(self, mean: float, metrics: Sequence[int], among: Ints | None = None) -> None:
        """Take as much from some samples (of `among`) as lowers the mean score by `mean`."""
        pool = np.arange(self.n) if among is None else among
        hit = self.rng.choice(pool, min(len(pool), round(mean * self.n / FALL)), replace=False)
        self.chance[np.ix_(hit, np.array(metrics))] -= FALL
        self.renew(np.isin(np.arange(self.n), hit))

    def spoil(self, count: int) -> None:
        """Make the answers to `count` samples wrong in the first metric, whose score there is 1."""
        hit = np.flatnonzero(self.scores[:, 0] == 1.0)[:count]
        self.chance[hit, 0] = self.scores[hit, 0] = 0.0

    def reshuffle(self, share: float) -> None:
        """Give a share of the samples another difficulty: some get better, some worse, none on average."""
        hit = self.rng.choice(self.n, round(share * self.n), replace=False)
        self.chance[hit] = self._difficulty(len(hit))[:, None]
        self.renew(np.isin(np.arange(self.n), hit))

    def _difficulty(self, n: int) -> Floats:
        return self.rng.beta(6.0, 0.6, size=n)

    def _answers(self) -> Floats:
        statements = self.rng.integers(1, 8, size=(self.n, 1))
        chance = np.clip(self.chance, 0.0, 1.0)
        judged = chance * (1.0 - MISJUDGED) + (1.0 - chance) * MISJUDGED
        return np.asarray(self.rng.binomial(statements, judged) / statements, dtype=np.float64)

    def renew(self, which: NDArray[np.bool_]) -> None:
        """Answer `which` of the samples anew."""
        self.scores = np.where(which[:, None], self._answers(), self.scores)


@dataclass(frozen=True)
class Kind:
    """A change: its name, and what it does.

    It takes `mean` from `metrics` (`tagged`: from samples with the first tag alone), makes `spoiled` right answers
    wrong in one metric, and gives a share `reshuffled` another difficulty.
    """

    name: str
    mean: float = 0.0
    metrics: tuple[int, ...] = (0,)
    tagged: bool = False
    spoiled: int = 0
    reshuffled: float = 0.0


EVERY = tuple(range(METRICS))
KINDS = (
    Kind("none"),
    Kind("neutral: 20 % of the samples reshuffled", reshuffled=0.2),
    Kind("neutral: 50 % reshuffled", reshuffled=0.5),
    Kind("one metric −5 points", 0.05),
    Kind("one metric −10", 0.10),
    Kind("all four −5", 0.05, EVERY),
    Kind("a tag on 10 % −50, one metric", 0.05, tagged=True),
    Kind("6 right answers wrong, none better, one metric", spoiled=6),
)


def decide(kind: Kind, n: int, runs: int, renewed: float, seed: Sequence[int]) -> str:
    """The verdict on one change, looked at as the gate does."""
    rng = np.random.default_rng(seed)
    system = System(n, rng, renewed)
    tags = [np.sort(rng.choice(n, n // TAGS, replace=False)) for _ in range(TAGS)]
    for _ in range(10):
        system.ask()
    then = np.stack([system.ask() for _ in range(runs)], axis=2)
    system.lose(kind.mean, kind.metrics, tags[0] if kind.tagged else None)
    system.spoil(kind.spoiled)
    system.reshuffle(kind.reshuffled)
    return verdict(system.ask, then, tags)


def verdict(ask: Callable[[], Floats], then: Floats, tags: Sequence[Ints] = ()) -> str:
    """The verdict on the scores (n, metrics) that `ask` gives for each run, beside `then` (n, metrics, runs)."""
    now = [ask()]
    p = smallest(now, then, tags)
    if p <= AT_ONCE * ALPHA:
        return "fail"
    if p > ASK * ALPHA:
        return "pass"
    suspect = STILL_SUSPECT
    for _ in range(MORE):
        now.append(ask())
        if all(np.array_equal(scores, now[0]) for scores in now):
            suspect = SUSPECT
            break
        p = smallest(now, then, tags)
        if not AT_ONCE * ALPHA < p <= ASK * ALPHA:
            break
    if p <= FAIL * ALPHA:
        return "fail"
    return "inconclusive" if p <= suspect * ALPHA else "pass"


def smallest(now: Sequence[Floats], then: Floats, tags: Sequence[Ints]) -> float:
    """The smallest p-value of a drop that is estimated beyond what is allowed."""
    n = len(then)
    scores = np.stack(now, axis=2)
    whole = [Change(np.arange(n), scores[:, j], then[:, j]) for j in range(then.shape[1])]
    lost = np.stack([one.values for one in whole])
    # What is not estimated beyond counts among the parts, but needs no p-value.
    parts = [
        replace(one, units=tag, now=one.now[tag], then=one.then[tag], part=True, whole=one)
        if lost[j, tag].mean() < -MAX_DROP
        else UNHARMED
        for tag in tags
        for j, one in enumerate(whole)
    ]
    p_values, of_mean = loss_test([*whole, *parts])
    p_values[: len(whole)][lost.mean(axis=1) >= -MAX_DROP] = 1.0
    if lost.mean() >= -MAX_DROP:
        of_mean = 1.0
    return float(min(p_values.min(), of_mean))


def row(kind: Kind, n: int, runs: int, renewed: float, draws: int) -> str:
    """One row of a table."""
    verdicts = [decide(kind, n, runs, renewed, (seed, n, KINDS.index(kind))) for seed in range(draws)]
    shares = [f"{verdicts.count(name) / draws:.3f}" for name in ("fail", "inconclusive", "pass")]
    return f"| {kind.name} | {' | '.join(shares)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="changes a row")
    parser.add_argument("--n", type=int, nargs="+", default=[80, 200])
    parser.add_argument("--history", type=int, nargs="+", default=[RUNS, 1], help="runs that the baseline is made of")
    parser.add_argument("--renewed", type=float, default=RENEWED, help="share of the answers that are new in a run")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--kinds", type=int, nargs="+", default=range(len(KINDS)), help="rows, counted from 0")
    options = parser.parse_args()
    # Right answers that are never new stay wrong for sure.
    kinds = [KINDS[index] for index in options.kinds if options.renewed > 0.0 or not KINDS[index].spoiled]
    with ProcessPoolExecutor(options.processes) as pool:
        for n, runs in itertools.product(options.n, options.history):
            print(f"\nn = {n}, runs before: {runs}, changes a row: {options.runs}\n")
            print("| change | fail | inconclusive | pass |\n| --- | --- | --- | --- |")
            for line in pool.map(partial(row, n=n, runs=runs, renewed=options.renewed, draws=options.runs), kinds):
                print(line, flush=True)


if __name__ == "__main__":
    main()
