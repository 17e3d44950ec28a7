"""The level of the main branch: seasons of main runs, what is found, and how soon a false alarm is over.

    python bench/level.py --seasons 8 --sizes 80   # the table of docs/history.md

The system, its judge and its policy are those of bench/losses.py, with 40 % of the answers new in each run. The history
is the real one: lines with compact scores. Each run is decided as one of main is: drops from the level, asked again
where that helps, and losses that several runs show together.

A row says which share of the runs of an unchanged branch is red, and the longest spell of red runs; in which share of
seasons a loss is red within 5 merges, named within one merge, and absorbed (half of the level's runs are after the
loss, 15 runs after it, and no run was red).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
from losses import METRICS, POLICY, System, confirmed

from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.eligibility import eligibility
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.history.codes import compact_scores
from ragstone.history.drift import find_cause, measure_drift
from ragstone.history.file import History
from ragstone.history.level import at_level, past_of, runs_before
from ragstone.history.lines import RunLine

FIRST_RUNS = 20
MERGES_IN_A_SEASON = 60
BETWEEN = timedelta(hours=8.4)
SEED = 1


@dataclass
class Branch:
    """A main branch: each merge adds its run to the history, with what was found."""

    system: System
    history: History = field(default_factory=History)
    merges: int = 0
    baseline: RunScores | None = None
    """The newest run that may be one."""

    def merge(self) -> GateVerdict:
        """Decide a run of main, and add it to the history."""
        run, decided = confirmed(self.system.ask, self._decide, METRICS)
        eligible, _ = eligibility(decided)
        line, codes = self._line(eligible=eligible), compact_scores(run, METRICS)
        drift = measure_drift(self.history, line, codes, run, POLICY, decided=decided.checks)
        self.history = self.history.with_run(line.model_copy(update={"below": drift.below}), codes)
        if eligible:
            self.baseline = run
        self.merges += 1
        return decided

    def _decide(self, run: RunScores) -> GateVerdict:
        line = self._line(eligible=False)
        drift = measure_drift(self.history, line, compact_scores(run, METRICS), run, POLICY)
        level = self.baseline
        if level is not None:
            runs = runs_before(self.history, line)
            # `past_of` compares versions of metrics that the line has scores for.
            scored = line.model_copy(update={"scores": dict.fromkeys(METRICS, "")})
            level = at_level(
                level, run, {metric: past_of(runs, scored, metric).reference_runs(is_main=True) for metric in METRICS}
            )
        return decide_gate(run, level, POLICY, drift=drift.checks)

    def _line(self, *, eligible: bool) -> RunLine:
        return RunLine.model_validate(
            {
                "run": f"{self.merges:016x}",
                "time": datetime(2026, 1, 5, tzinfo=UTC) + BETWEEN * self.merges,
                "commit": f"{self.merges:040x}",
                "verdict": "pass" if eligible else "fail",
                "eligible": eligible,
                "judge": "judge",
                "judge_key": "0" * 16,
                "golden": "golden",
                "metrics": {},
                "versions": dict.fromkeys(METRICS, "1"),
                "coverage": 1.0,
            }
        )


def unchanged(n: int, seasons: int, seed: int, *, reshuffle: float = 0.0) -> dict[str, float]:
    """The share of red runs of a branch that neither gains nor loses."""
    red, longest = 0, 0
    for season in range(seasons):
        branch = _branch(n, seed, season, 0)
        spell = 0
        for merge in range(MERGES_IN_A_SEASON):
            if reshuffle and merge % 10 == 9:
                branch.system.reshuffle(reshuffle)
            spell = spell + 1 if branch.merge().status is Status.FAIL else 0
            red += spell > 0
            longest = max(longest, spell)
    return {"red": red / (seasons * MERGES_IN_A_SEASON), "longest": longest}


def lost(n: int, seasons: int, seed: int, loss: float, metrics: Sequence[int], *, runs: int = 16) -> dict[str, float]:
    """A merged loss: found after how many merges, named, and absorbed."""
    delays, misses, absorbed = list[int](), list[int](), 0
    for season in range(seasons):
        branch = _branch(n, seed, season, 1)
        for _ in range(FIRST_RUNS):
            branch.merge()
        branch.system.lose(loss, metrics)
        for merge in range(1, runs):
            if branch.merge().status is Status.FAIL:
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
        if runs and past.open_losses:
            named = [int(line.commit or "0", 16) for line in runs]
            chosen.append((len(named), min(abs(one - true) for one in (named[0], named[-1]))))
    return min(chosen)[1] if chosen else 99


def _absorbed(branch: Branch, metric: int) -> bool:
    line = branch.history.runs[-1]
    past = past_of(runs_before(branch.history, line), line, METRICS[metric])
    level = past.reference_runs(is_main=True)
    return sum(int(look.line.commit or "0", 16) >= FIRST_RUNS for look in level) * 2 > len(level)


def _branch(n: int, seed: int, season: int, kind: int) -> Branch:
    rng = np.random.Generator(np.random.PCG64((seed, n, season, kind)))
    system = System(n, rng)
    for _ in range(10):
        system.ask()
    return Branch(system)


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
    options = parser.parse_args(argv)
    for n in options.sizes:
        for name, cell in CELLS.items():
            print(n, name, json.dumps(cell(n, options.seasons, SEED)), flush=True)


if __name__ == "__main__":
    main()
