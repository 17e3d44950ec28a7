"""How often the gate fails a change, and how often it asks again: healthy changes and losses of several kinds.

    python bench/losses.py                      # the tables of docs/statistics.md
    python bench/losses.py --runs 100 --n 80
    python bench/losses.py --renewed 0 --n 51   # a system that gives the same answers in every run
    python bench/losses.py --tries 5 --kinds 0 5  # a pull request whose job runs five times on the same files

Scores are drawn, and decided by the gate's own function (stats/losses.py) with the shares of gate/confirm.py. In a
season there are four metrics and ten tags, each on a tenth of the samples. A sample's difficulty, Beta(6, 0.6), is
shared by the metrics; an answer makes one to seven statements, and its score in a metric is the share that is judged
good; the judge gets 3 % of the statements wrong; 40 % of the answers are new whenever the system is asked. A loss takes
0.5 from the chance of as many samples as make the mean. The baseline are the scores of the last six runs, or of one.

With tries, a row says in how many of them the pull request was red, and clean, at least once: looked at alone, and with
the answers of up to four tries before, as the gate counts them (evaluation/earlier.py).

One row is the loss that reports call detectable in 4 of 5 runs, as a true loss of the mean score: what is in the column
"fail" should be 0.8.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.earlier import MAX_EARLIER
from ragstone.gate.confirm import ASK, AT_ONCE, FAIL, STILL_SUSPECT, suspect_at
from ragstone.gate.policy import default_policy
from ragstone.gate.sensitivity import number_of_tests
from ragstone.stats.losses import Change, loss_test
from ragstone.stats.score_model import learn
from ragstone.stats.sensitivity import LossRule, model_of_pairs, visible_loss

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHA, MAX_DROP = 0.05, 0.02
METRICS, TAGS, RUNS, MORE = 4, 10, 6, default_policy().gate.confirm_repeats
RENEWED, MISJUDGED, FALL = 0.4, 0.03, 0.5

UNHARMED = Change(np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1, np.bool_), part=True)


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

    It takes `mean` from `metrics` (`tagged`: from samples with the first tag alone; `promised`: as much as is called
    detectable), makes `spoiled` right answers wrong in one metric, and gives a share `reshuffled` another difficulty.
    """

    name: str
    mean: float = 0.0
    metrics: tuple[int, ...] = (0,)
    tagged: bool = False
    promised: bool = False
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
    Kind("one metric, as much as is called detectable", promised=True),
)


@dataclass(frozen=True)
class Outcome:
    """What the gate said of one change; `once` is its verdict if the system can't be asked again."""

    verdict: str
    once: str
    judgings: float


def decide(kind: Kind, n: int, runs: int, renewed: float, seed: Sequence[int]) -> Outcome:
    """One change, looked at as the gate does."""
    system, then, tags = changed_system(kind, n, runs, renewed, seed)
    return looked(system.ask, then, tags)


def changed_system(
    kind: Kind, n: int, runs: int, renewed: float, seed: Sequence[int]
) -> tuple[System, Floats, list[Ints]]:
    """A system after the change, its scores in the runs before it, and the samples of each tag."""
    rng = np.random.default_rng(seed)
    system = System(n, rng, renewed)
    tags = [np.sort(rng.choice(n, n // TAGS, replace=False)) for _ in range(TAGS)]
    for _ in range(10):
        system.ask()
    then = np.stack([system.ask() for _ in range(runs)], axis=2)
    system.lose(kind.mean, kind.metrics, tags[0] if kind.tagged else None)
    system.spoil(kind.spoiled)
    system.reshuffle(kind.reshuffled)
    return system, then, tags


def decide_tries(
    kind: Kind, n: int, runs: int, renewed: float, tries: int, pooled: bool, seed: Sequence[int]
) -> list[str]:
    """The verdicts on one change whose job runs several times."""
    system, then, tags = changed_system(kind, n, runs, renewed, seed)
    earlier: list[list[Floats]] = []
    verdicts = []
    for _ in range(tries):
        counted = [scores for run in earlier[:MAX_EARLIER] for scores in run] if pooled else []
        own: list[Floats] = []

        def ask(own: list[Floats] = own) -> Floats:
            own.append(system.ask())
            return own[-1]

        verdicts.append(looked(ask, then, tags, earlier=counted).verdict)
        earlier.insert(0, own)
    return verdicts


def looked(
    ask: Callable[[], Floats],
    then: Floats,
    tags: Sequence[Ints],
    earlier: Sequence[Floats] = (),
) -> Outcome:
    """The verdict on the scores that `ask` gives and those of `earlier` runs, beside `then` (n, metrics, runs)."""
    now = [ask()]
    p = smallest([*now, *earlier], then, tags)
    suspect = suspect_at(bool(earlier))
    once = "fail" if p <= FAIL * ALPHA else "inconclusive" if p <= suspect * ALPHA else "pass"
    if not AT_ONCE * ALPHA < p <= ASK * ALPHA:
        return Outcome("fail" if p <= AT_ONCE * ALPHA else "pass", once, 1.0)
    before, judged = now[0], 1.0
    for _ in range(MORE):
        now.append(ask())
        judged += float(np.mean(np.any(now[-1] != before, axis=1)))
        before = now[-1]
        if all(np.array_equal(one, now[0]) for one in (*now, *earlier)):
            return Outcome(once, once, judged)
        p = smallest([*now, *earlier], then, tags)
        if not AT_ONCE * ALPHA < p <= ASK * ALPHA:
            break
    verdict = "fail" if p <= FAIL * ALPHA else "inconclusive" if p <= STILL_SUSPECT * ALPHA else "pass"
    return Outcome(verdict, once, judged)


def smallest(now: Sequence[Floats], then: Floats, tags: Sequence[Ints]) -> float:
    """The smallest p-value of a drop that is estimated beyond what is allowed."""
    n = len(then)
    scores = np.stack(now, axis=2)
    alike = np.full(n, len(now) > 1) & np.all(scores == scores[:, :, :1], axis=(1, 2))
    whole = [Change(np.arange(n), scores[:, j], then[:, j], alike) for j in range(METRICS)]
    lost = np.stack([one.values for one in whole])
    # What is not estimated beyond counts among the parts, but needs no p-value.
    parts = [
        replace(one, units=tag, now=one.now[tag], then=one.then[tag], alike=alike[tag], part=True, whole=one)
        if lost[j, tag].mean() < -MAX_DROP
        else UNHARMED
        for tag in tags
        for j, one in enumerate(whole)
    ]
    p_values, of_mean = loss_test([*whole, *parts])
    p_values[:METRICS][lost.mean(axis=1) >= -MAX_DROP] = 1.0
    if lost.mean() >= -MAX_DROP:
        of_mean = 1.0
    return float(min(p_values.min(), of_mean))


def detectable(n: int, runs: int, renewed: float) -> float:
    """The loss that a report of an unchanged system calls detectable: the median of a few."""
    tests = number_of_tests(METRICS, parts=True)
    rule = LossRule(FAIL * ALPHA / tests, ASK * ALPHA / tests, 1 + MORE, MAX_DROP, runs)
    found = []
    for seed in range(12):
        system = System(n, np.random.default_rng((seed, n)), renewed)
        then = np.stack([system.ask() for _ in range(runs)], axis=2)
        now = system.ask()
        for metric in range(METRICS):
            before = then[:, metric]
            model = learn(before) if runs > 1 else model_of_pairs(before[:, 0], now[:, metric])
            loss = visible_loss(model, rule)
            found.append(1.0 if loss is None else loss)
    return float(np.median(found))


def fall_of_scores() -> float:
    """By how much a mean score falls where a loss of chances by `FALL` is taken from every sample."""
    chance = np.random.default_rng(0).beta(6.0, 0.6, size=100_000)
    return float(np.minimum(chance, FALL).mean()) * (1.0 - 2.0 * MISJUDGED)


def row(kind: Kind, n: int, runs: int, renewed: float, draws: int) -> str:
    """One row of a table."""
    order = KINDS.index(kind)
    if kind.promised:
        size = detectable(n, runs, renewed)
        kind = replace(kind, name=f"{kind.name}: −{100 * size:.1f}", mean=size * FALL / fall_of_scores())
    return cells(kind.name, [decide(kind, n, runs, renewed, (seed, n, order)) for seed in range(draws)])


def row_of_tries(kind: Kind, n: int, runs: int, renewed: float, tries: int, draws: int) -> str:
    """One row of the table of tries."""
    shares = [kind.name]
    for pooled in (False, True):
        found = [
            decide_tries(kind, n, runs, renewed, tries, pooled, (seed, n, KINDS.index(kind))) for seed in range(draws)
        ]
        for verdict in ("fail", "pass"):
            share = np.mean([verdict in verdicts for verdicts in found])
            shares.append(f"{share:.3f}".replace("0.", ".", 1))
    return "| " + " | ".join(shares) + " |"


def cells(name: str, found: Sequence[Outcome]) -> str:
    """A row of shares."""

    def share(verdict: str, of: str = "verdict") -> str:
        return f"{np.mean([getattr(one, of) == verdict for one in found]):.3f}".replace("0.", ".", 1)

    cost = np.mean([one.judgings for one in found])
    shares = [name, share("fail"), share("inconclusive"), share("pass"), f"{cost:.2f}"]
    return "| " + " | ".join([*shares, share("fail", "once"), share("pass", "once")]) + " |"


COLUMNS = ("fail", "inconclusive", "pass", "judgings an answer", "fail, asked once", "pass, asked once")
COLUMNS_OF_TRIES = ("alone: red once", "alone: clean once", "pooled: red once", "pooled: clean once")


def print_head(title: str, columns: Sequence[str] = COLUMNS) -> None:
    """The head of a table."""
    print(f"\n{title}\n")
    print("| " + " | ".join(("change", *columns)) + " |")
    print("| " + " | ".join(["---"] * (1 + len(columns))) + " |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="changes a row")
    parser.add_argument("--n", type=int, nargs="+", default=[80, 200])
    parser.add_argument("--history", type=int, nargs="+", default=[RUNS, 1], help="runs that the baseline is made of")
    parser.add_argument("--renewed", type=float, default=RENEWED, help="share of the answers that are new in a run")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--kinds", type=int, nargs="+", default=range(len(KINDS)), help="rows, counted from 0")
    parser.add_argument("--tries", type=int, default=1, help="how often the job of a change runs on the same files")
    options = parser.parse_args()
    # What is detectable is told from the noise of runs; answers that are never new have none, and stay wrong for sure.
    left_out = ("spoiled", "promised")[options.renewed == 0.0]
    asked = [kind for kind in map(KINDS.__getitem__, options.kinds) if not getattr(kind, left_out)]
    with ProcessPoolExecutor(options.processes) as pool:
        for n in options.n:
            for runs in options.history:
                title = f"n = {n}, baseline of {runs} run{'s' if runs > 1 else ''}, {options.runs} changes a row"
                one = partial(row, n=n, runs=runs, renewed=options.renewed, draws=options.runs)
                if options.tries > 1:
                    print_head(f"{title}, {options.tries} tries", COLUMNS_OF_TRIES)
                    one = partial(row_of_tries, n=n, runs=runs, renewed=options.renewed, tries=options.tries)
                    one = partial(one, draws=options.runs)
                else:
                    print_head(title)
                for line in pool.map(one, asked):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
