"""The level of the main branch: seasons of main runs, what is found, and how soon a false alarm is over.

    python bench/level.py                       # the published table
    python bench/level.py --seasons 40 --sizes 80  # a quick look

Four metrics; a sample's difficulty, Beta(6, .6), is shared by them. An answer makes 1 to 7 statements, and a score is
the share judged good; the judge gets 3 % of them wrong. 40 % of the answers are new in each run. A loss takes .5 from
the chance of as many samples as make the mean. The history is the real one: lines with compact scores. What is measured
here is what the history adds: the drop checks of each run, which find a large loss at once, are left out.

A row says which share of the runs of an unchanged branch is red, counting every red run; how long a false alarm lasts;
in which share of seasons a loss is found within 5 merges, named within one merge, absorbed (half of the level's runs
are after the loss, 15 runs after it, and nothing was said), and said to be over although it is not.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.codes import compact
from ragstone.history.drift import Drift, find_cause, measure_drift
from ragstone.history.file import History
from ragstone.history.level import looks_before, past_of
from ragstone.history.lines import RunLine

Floats = NDArray[np.float64]

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
RENEWED = 0.4
JUDGE_ERROR = 0.03
STATEMENTS = 7
LOST = 0.5
FIRST_RUNS = 20
MERGES_IN_A_SEASON = 60
BETWEEN = timedelta(hours=8.4)


class System:
    """A system under test, with the judge: its scores, run after run."""

    def __init__(self, n: int, rng: np.random.Generator, renewed: float = RENEWED) -> None:
        self.rng, self.renewed = rng, renewed
        self.chance = np.repeat(rng.beta(6.0, 0.6, size=n)[:, None], len(METRICS), axis=1)
        self.scores = self._answers()
        for _ in range(10):
            self.ask()

    def ask(self) -> Floats:
        """The scores (n, 4) of a run."""
        anew = self.rng.random(len(self.chance)) < self.renewed
        self.scores = np.where(anew[:, None], self._answers(), self.scores)
        return self.scores

    def lose(self, mean: float, metrics: Sequence[int]) -> None:
        """Take `mean` from the mean of `metrics`."""
        count = round(mean * len(self.chance) / LOST)
        self._change(self.rng.choice(len(self.chance), count, replace=False), metrics)

    def reshuffle(self, share: float) -> None:
        """Give a share of the samples another difficulty: neither better nor worse."""
        some = self.rng.choice(len(self.chance), round(share * len(self.chance)), replace=False)
        self.chance[some] = self.rng.beta(6.0, 0.6, size=len(some))[:, None]
        self.scores = np.where(np.isin(np.arange(len(self.chance)), some)[:, None], self._answers(), self.scores)

    def _change(self, some: NDArray[np.int64], metrics: Sequence[int]) -> None:
        self.chance[np.ix_(some, np.array(metrics))] -= LOST
        self.scores = np.where(np.isin(np.arange(len(self.chance)), some)[:, None], self._answers(), self.scores)

    def _answers(self) -> Floats:
        count = self.rng.integers(1, STATEMENTS + 1, size=len(self.chance))[:, None]
        chance = np.clip(self.chance, 0.0, 1.0)
        return np.asarray(self.rng.binomial(count, chance + JUDGE_ERROR * (1.0 - 2.0 * chance)) / count)


class Asked(Protocol):
    """What a branch runs: `System`, or that of bench/losses.py."""

    def ask(self) -> Floats: ...
    def lose(self, mean: float, metrics: Sequence[int]) -> None: ...
    def reshuffle(self, share: float) -> None: ...


@dataclass
class Branch:
    """A main branch: each merge adds its run to the history, with what was found."""

    system: Asked
    policy: Policy
    history: History = field(default_factory=History)
    merges: int = 0
    means: list[Floats] = field(default_factory=list)

    def merge(self, *, unlucky: float | None = None) -> Drift:
        """A run of main, and what its checks say.

        `unlucky`: the drop check fails of a metric whose mean is so far below that of the six runs before.
        """
        scores = self.system.ask()
        decided = list[Check]()
        if unlucky is not None:
            falls = scores.mean(axis=0) - np.mean(self.means[-6:], axis=0)
            lowest = int(np.argmin(falls))
            if falls[lowest] <= -unlucky:
                metric, fall = METRICS[lowest], float(falls[lowest])
                failed = Check(
                    f"{metric}.drop", CheckKind.DROP, Status.FAIL, Action.BLOCK, "", metric=metric, estimate=fall
                )
                decided.append(failed)
        return self.add(scores, decided)

    def add(self, scores: Floats, decided: Sequence[Check]) -> Drift:
        """Add main's run of these scores (n, 4), whose drop checks `decided` something, to the history."""
        self.means.append(scores.mean(axis=0))
        names = [f"q{index}" for index in range(len(scores))]
        run = RunScores(
            label="run",
            metrics={
                name: MetricScores(dict(zip(names, scores[:, j].tolist(), strict=True)), version="1")
                for j, name in enumerate(METRICS)
            },
            samples={name: SampleFacts(content_hash=name) for name in names},
        )
        line = RunLine.model_validate(
            {
                "run": f"{self.merges:016x}",
                "time": datetime(2026, 1, 5, tzinfo=UTC) + BETWEEN * self.merges,
                "commit": f"{self.merges:040x}",
                "verdict": "pass",
                "eligible": True,
                "judge": "judge",
                "judge_key": "0" * 16,
                "golden": "golden",
                "metrics": {name: {"mean": 0.9, "low": 0.8, "high": 1.0, "n": len(names)} for name in METRICS},
                "versions": dict.fromkeys(METRICS, "1"),
                "coverage": 1.0,
            }
        )
        codes = compact(run, METRICS)
        found = measure_drift(self.history, line, codes, run, self.policy, decided=decided)
        found = replace(found, checks=(*found.checks, *decided))
        red = any(check.status is not Status.PASS for check in found.checks)
        line = line.model_copy(update={"eligible": not red, "below": found.below})
        self.history = self.history.with_run(line, codes)
        self.merges += 1
        return found


def is_red(found: Drift) -> bool:
    return any(check.status is Status.FAIL for check in found.checks)


def unchanged(n: int, seasons: int, seed: int, *, reshuffle: float = 0.0) -> dict[str, Any]:
    """Red runs of a branch that neither gains nor loses, and how many runs it takes until an alarm is over."""
    red, alarms, lasted = 0, 0, list[int]()
    for season in range(seasons):
        branch = _branch(n, seed, season, 0)
        since: int | None = None
        for merge in range(MERGES_IN_A_SEASON):
            if reshuffle and merge % 10 == 9:
                branch.system.reshuffle(reshuffle)
            now = is_red(branch.merge())
            red += now
            if now and since is None:
                since, alarms = merge, alarms + 1
            elif not now and since is not None:
                lasted.append(merge - since)
                since = None
        lasted += [MERGES_IN_A_SEASON - since] if since is not None else []
    runs = seasons * MERGES_IN_A_SEASON
    return {"red": red / runs, "alarms": alarms / runs, "lasted": sorted(lasted)}


def false_alarm(n: int, seasons: int, seed: int) -> dict[str, Any]:
    """How many runs are red after a drop check that failed by chance: of a mean 3 points (at n = 80) too low."""
    lasted = []
    for season in range(seasons):
        branch = _branch(n, seed, season, 3)
        for _ in range(FIRST_RUNS):
            branch.merge()
        for _ in range(200):
            if is_red(branch.merge(unlucky=0.03 * math.sqrt(80 / n))):
                lasted.append(next((runs for runs in range(1, 40) if not is_red(branch.merge())), 40))
                break
    return {"median": float(np.median(lasted)), "95 %": float(np.quantile(lasted, 0.95)), "lasted": sorted(lasted)}


def lost(n: int, seasons: int, seed: int, loss: float, metrics: Sequence[int], *, runs: int = 16) -> dict[str, Any]:
    """A merged loss: found after how many merges, named, absorbed, and said to be over although it is not."""
    found, named, red, absorbed, over = list[int](), list[int](), list[bool](), 0, 0
    for season in range(seasons):
        branch = _branch(n, seed, season, 1)
        for _ in range(FIRST_RUNS):
            branch.merge()
        branch.system.lose(loss, metrics)
        at: int | None = None
        for merge in range(1, runs):
            drift = branch.merge()
            if at is None and is_red(drift):
                at = merge
                found.append(at)
                named.append(_named(branch, FIRST_RUNS))
            elif at is not None:
                red.append(is_red(drift))
            if at is not None and metrics[0] not in {
                METRICS.index(part.metric) for part in drift.below if not part.until
            }:
                over += 1
                break
        absorbed += at is None and _absorbed(branch, metrics[0])
    return {
        "within 5": sum(at <= 5 for at in found) / seasons,
        "within 15": len(found) / seasons,
        "named": sum(off <= 1 for off in named) / max(1, len(named)),
        "absorbed": absorbed / seasons,
        "red since": float(np.mean(red)) if red else None,
        "over": over / max(1, len(found)),
    }


def slow(n: int, seasons: int, seed: int, step: float, metrics: Sequence[int]) -> dict[str, Any]:
    """A loss of `step` at each merge, in so many metrics: how much was lost when it was found, at most 12 points."""
    at = []
    for season in range(seasons):
        branch = _branch(n, seed, season, 2)
        for _ in range(FIRST_RUNS):
            branch.merge()
        carried = 0.0
        for merge in range(1, round(0.12 / step) + 1):
            carried += step
            if round(carried * n / LOST) >= 1:
                branch.system.lose(carried, metrics)
                carried -= round(carried * n / LOST) * LOST / n
            if is_red(branch.merge()):
                at.append(step * merge)
                break
    return {"found": len(at) / seasons, "lost": float(np.mean(at)) if at else None}


def _named(branch: Branch, true: int) -> int:
    """By how many merges the likeliest cause is off, in the metric with the surest one."""
    chosen = []
    for part in branch.history.runs[-1].below:
        past, cause = find_cause(branch.history, part.metric, lower_is_better=False)
        if cause is not None and past.open:
            named = [int(line.commit or "0", 16) for line in cause.lines]
            chosen.append((len(named), min(abs(one - true) for one in (named[0], named[-1]))))
    return min(chosen)[1] if chosen else 99


def _absorbed(branch: Branch, metric: int) -> bool:
    line = branch.history.runs[-1]
    past = past_of(looks_before(branch.history, line), line, METRICS[metric])
    level = past.level(main=True)
    return sum(int(look.line.commit or "0", 16) >= FIRST_RUNS for look in level) * 2 > len(level)


def _branch(n: int, seed: int, season: int, kind: int) -> Branch:
    rng = np.random.Generator(np.random.PCG64((seed, n, season, kind)))
    policy = policy_from_mapping({"metrics": {name: {"max_drop": 0.02} for name in METRICS}})
    return Branch(System(n, rng), policy)


CELLS: dict[str, Callable[[int, int, int], dict[str, Any]]] = {
    "nothing changes": unchanged,
    "20 % reshuffled every 10 merges": partial(unchanged, reshuffle=0.2),
    "a drop check failed by chance": false_alarm,
    "one metric −10 points": partial(lost, loss=0.1, metrics=(0,)),
    "one metric −5 points": partial(lost, loss=0.05, metrics=(0,)),
    "all four −5 points": partial(lost, loss=0.05, metrics=(0, 1, 2, 3)),
    "one metric −0.5 a merge": partial(slow, step=0.005, metrics=(0,)),
    "all four −0.5 a merge": partial(slow, step=0.005, metrics=(0, 1, 2, 3)),
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seasons", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", default=[80, 200])
    parser.add_argument("--only", default="", help="only the rows that begin with this")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    for n in options.sizes:
        for name, cell in CELLS.items():
            if name.startswith(options.only):
                print(n, name, json.dumps(cell(n, options.seasons, options.seed)), flush=True)


if __name__ == "__main__":
    main()
