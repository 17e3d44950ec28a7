"""The level of the main branch: seasons of main runs, what is found, and how soon a false alarm is over.

    python bench/level.py --seasons 8 --sizes 80   # the table of docs/history.md

The system is that of bench/losses.py, with 40 % of the answers new in each run. The history is the real one: lines with
compact scores. What is measured here is what the history adds: the drop checks of each run, which find a large loss at
once, are left out.

A row says which share of the runs of an unchanged branch is red, counting every red run; in which share of seasons a
loss is found within 5 merges, named within one merge, and absorbed (half of the level's runs are after the loss, 15
runs after it, and nothing was said).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
from losses import System

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import Status
from ragstone.history.codes import compact
from ragstone.history.drift import Drift, find_cause, measure_drift
from ragstone.history.file import History
from ragstone.history.level import looks_before, past_of
from ragstone.history.lines import RunLine

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
FIRST_RUNS = 20
MERGES_IN_A_SEASON = 60
BETWEEN = timedelta(hours=8.4)


@dataclass
class Branch:
    """A main branch: each merge adds its run to the history, with what was found."""

    system: System
    policy: Policy
    history: History = field(default_factory=History)
    merges: int = 0

    def merge(self) -> Drift:
        """Add a run of main to the history. Returns what its checks say."""
        scores = self.system.ask()
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
        found = measure_drift(self.history, line, codes, run, self.policy)
        red = any(check.status is not Status.PASS for check in found.checks)
        line = line.model_copy(update={"eligible": not red, "below": found.below})
        self.history = self.history.with_run(line, codes)
        self.merges += 1
        return found


def is_red(found: Drift) -> bool:
    return any(check.status is Status.FAIL for check in found.checks)


def unchanged(n: int, seasons: int, seed: int, *, reshuffle: float = 0.0) -> dict[str, float]:
    """The share of red runs of a branch that neither gains nor loses."""
    red = 0
    for season in range(seasons):
        branch = _branch(n, seed, season, 0)
        for merge in range(MERGES_IN_A_SEASON):
            if reshuffle and merge % 10 == 9:
                branch.system.reshuffle(reshuffle)
            red += is_red(branch.merge())
    return {"red": red / (seasons * MERGES_IN_A_SEASON)}


def lost(n: int, seasons: int, seed: int, loss: float, metrics: Sequence[int], *, runs: int = 16) -> dict[str, float]:
    """A merged loss: found after how many merges, named, and absorbed."""
    delays, misses, absorbed = list[int](), list[int](), 0
    for season in range(seasons):
        branch = _branch(n, seed, season, 1)
        for _ in range(FIRST_RUNS):
            branch.merge()
        branch.system.lose(loss, metrics)
        for merge in range(1, runs):
            if is_red(branch.merge()):
                delays.append(merge)
                misses.append(_named(branch, FIRST_RUNS))
                break
        else:
            absorbed += _absorbed(branch, metrics[0])
    return {
        "within 5": sum(delay <= 5 for delay in delays) / seasons,
        "within 15": len(delays) / seasons,
        "named": sum(miss <= 1 for miss in misses) / max(1, len(misses)),
        "absorbed": absorbed / seasons,
    }


def _named(branch: Branch, true: int) -> int:
    """By how many merges the likeliest cause is off, in the metric with the surest one."""
    chosen = []
    for part in branch.history.runs[-1].below:
        past, runs = find_cause(branch.history, part.metric, lower_is_better=False)
        if runs and past.open:
            named = [int(line.commit or "0", 16) for line in runs]
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
    system = System(n, rng)
    for _ in range(10):
        system.ask()
    return Branch(system, policy)


CELLS: dict[str, Callable[[int, int, int], dict[str, float]]] = {
    "nothing changes": unchanged,
    "20 % reshuffled every 10 merges": partial(unchanged, reshuffle=0.2),
    "one metric −10 points": partial(lost, loss=0.1, metrics=(0,)),
    "one metric −5 points": partial(lost, loss=0.05, metrics=(0,)),
    "all four −5 points": partial(lost, loss=0.05, metrics=(0, 1, 2, 3)),
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
