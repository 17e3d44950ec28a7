"""A season in which many merges lose something: how long main is broken, and how often the gate is red for nothing.

    python bench/season_of_losses.py                # the table of docs/statistics.md
    python bench/season_of_losses.py --merges 200

8 % of the pull requests lose 3, 5 or 10 points in one metric, or 50 points in one metric on a tenth of the samples.
What the gate lets pass is merged. Main is repaired 5 merges after it was red, and 40 merges after it broke in any case.
The system, its judge and the pull requests' checks are those of bench/losses.py, with ten tags; the main branch is that
of bench/level.py, with the real history, where a failed drop check makes a run red as well.

"If main noticed at once": how many merges would have a broken main if main were red in the first run after each loss
that was merged. No rule for main alone can do better with these pull requests.
"""

from __future__ import annotations

import argparse
import copy
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import level
import losses
import numpy as np
from numpy.typing import NDArray

from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.level import looks_before, past_of

Floats = NDArray[np.float64]

LOSSES = {"3 points": 0.03, "5 points": 0.05, "10 points": 0.10, "50 points on a tenth": 0.05}
SHARE, REPAIRED_AFTER_RED, REPAIRED_AFTER, HEALTHY_FIRST = 0.08, 5, 40, 20
PULLS, PULLS_TO_BROKEN, MAIN = "pull requests", "pull requests to a broken main", "main"
STATUS = {"fail": Status.FAIL, "inconclusive": Status.INCONCLUSIVE}


@dataclass
class Tally:
    """What happened in a season."""

    merges: int = 0
    healthy: Counter[str] = field(default_factory=Counter)
    red: Counter[str] = field(default_factory=Counter)
    clean: int = 0
    judgings: float = 0.0
    unproven: int = 0
    broken: int = 0
    broken_at_least: int = 0
    tried: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)


class Season:
    """The merges of one repository, one after the other."""

    def __init__(self, n: int, seed: int) -> None:
        self.rng = np.random.default_rng((seed, n))
        self.main = losses.System(n, np.random.default_rng((seed, n, 1)))
        self.tags = [np.sort(self.rng.choice(n, n // losses.TAGS, replace=False)) for _ in range(losses.TAGS)]
        policy = {"metrics": {name: {"max_drop": losses.MAX_DROP} for name in level.METRICS}}
        self.branch = level.Branch(self.main, policy_from_mapping(policy))
        self.scores: list[Floats] = []
        self.tally = Tally()
        self._good: Floats | None = None
        self._broken_since = self._red_since = 0
        self._repaired = True
        self._broken_until = 0

    def merge(self) -> None:
        """One pull request, and main's run if it is merged; a pull request that is stopped is dropped."""
        now = self.tally.merges
        self.tally.merges += 1
        kind = list(LOSSES)[self.rng.integers(4)] if now >= HEALTHY_FIRST and self.rng.random() < SHARE else ""
        head = copy.deepcopy(self.main)
        if kind:
            among = self.tags[self.rng.integers(losses.TAGS)] if "tenth" in kind else None
            head.lose(LOSSES[kind], [int(self.rng.integers(losses.METRICS))], among)
        if self._pull_request(head, kind):
            if kind:
                self._broken_until = max(self._broken_until, now + 1 + REPAIRED_AFTER_RED)
                if self._good is None:
                    self._good, self._broken_since, self._red_since = self.main.chance, now, -1
            self.main = head
        self.tally.broken_at_least += now < self._broken_until
        self._main_run(now)

    def _pull_request(self, head: losses.System, kind: str) -> bool:
        """Whether it is merged."""
        then = self._level(is_main=False)
        if then is None:
            return True
        found = losses.looked(head.ask, then, self.tags)
        failed = found.verdict == "fail"
        if kind:
            self.tally.tried[kind] += 1
            self.tally.stopped[kind] += failed
            return not failed
        where = PULLS if self._good is None else PULLS_TO_BROKEN
        self.tally.healthy[where] += 1
        self.tally.red[where] += failed
        self.tally.clean += found.verdict == "pass"
        self.tally.judgings += found.judgings
        return True

    def _main_run(self, now: int) -> None:
        red = self._run()
        if self._good is None:
            self._repaired |= not red
            self.tally.unproven += not self._repaired
            if self._repaired:  # a repair is to be shown first, which takes some runs
                self.tally.healthy[MAIN] += 1
                self.tally.red[MAIN] += red
                self.tally.clean += not red
                self.tally.judgings += 1.0
            return
        self.tally.broken += 1
        if red and self._red_since < 0:
            self._red_since = now
        waited = self._red_since >= 0 and now - self._red_since >= REPAIRED_AFTER_RED
        if waited or now - self._broken_since >= REPAIRED_AFTER:
            hit = np.any(self.main.chance != self._good, axis=1)
            self.main.chance = self._good
            self.main.renew(hit)
            self._good, self._repaired = None, False

    def _run(self) -> bool:
        """Main's run, with its drop checks and what the history adds: whether it is red."""
        then = self._level(is_main=True)
        given: list[Floats] = []
        decided = []
        if then is not None:
            verdict = losses.looked(partial(_kept, self.main, given), then, self.tags).verdict
            if verdict in STATUS:
                falls = np.mean(given, axis=0).mean(axis=0) - then.mean(axis=2).mean(axis=0)
                lowest = int(np.argmin(falls))
                metric, fall = level.METRICS[lowest], float(falls[lowest])
                decided.append(
                    Check(
                        f"{metric}.drop",
                        CheckKind.DROP,
                        STATUS[verdict],
                        Action.BLOCK,
                        "",
                        metric=metric,
                        estimate=fall,
                    )
                )
        scores = np.mean(given or [self.main.ask()], axis=0)
        self.scores.append(scores)
        return level.is_red(self.branch.add(scores, decided))

    def _level(self, *, is_main: bool) -> Floats | None:
        """The scores (n, metrics, runs) of the runs that are main's level, as many as all metrics have."""
        history = self.branch.history
        if not history.runs:
            return None
        newest = history.runs[-1]
        line = newest.model_copy(update={"run": "f" * 16, "commit": "f" * 40, "time": newest.time + level.BETWEEN})
        looks = looks_before(history, line)
        runs = [
            [int(look.line.run, 16) for look in past_of(looks, line, metric).level(main=is_main)]
            for metric in level.METRICS
        ]
        count = min(map(len, runs))
        if not count:
            return None
        return np.stack(
            [np.stack([self.scores[run][:, j] for run in of[-count:]], axis=1) for j, of in enumerate(runs)], axis=1
        )


def _kept(system: losses.System, given: list[Floats]) -> Floats:
    given.append(system.ask())
    return given[-1]


def simulate(merges: int, n: int, seed: int) -> Tally:
    """One season."""
    season = Season(n, seed)
    for _ in range(merges):
        season.merge()
    return season.tally


def added(tallies: list[Tally]) -> Tally:
    """The sums over `tallies`."""
    total = Tally()
    for one in tallies:
        for name, value in vars(one).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def table(n: int, found: Tally) -> str:
    """The rows of one size of golden set."""

    def share(part: float, of: int) -> str:
        return f"{part:,.0f} of {of:,} ({part / max(1, of):.3f})"

    red = ", ".join(f"{kind}: {found.red[kind]:,} of {found.healthy[kind]:,}" for kind in found.healthy)
    healthy = found.healthy.total()
    stopped = ", ".join(f"{kind}: {found.stopped[kind]} of {found.tried[kind]}" for kind in LOSSES)
    rows = {
        "red runs of a healthy system": f"{share(found.red.total(), healthy)}; {red}",
        "clean passes of a healthy system": share(found.clean, healthy),
        "judgings an answer, healthy": f"{found.judgings / max(1, healthy):.2f}",
        "losses that fail their pull request": f"{share(found.stopped.total(), found.tried.total())}; {stopped}",
        "red runs after a repair, until it is shown": share(found.unproven, found.merges),
        "merges with a broken main": share(found.broken, found.merges),
        "… if main noticed at once": share(found.broken_at_least, found.merges),
    }
    return "\n".join([f"| {n} samples | |", "|:--|:--|", *(f"| {name} | {value} |" for name, value in rows.items())])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--merges", type=int, default=1000)
    parser.add_argument("--seasons", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[80, 200])
    parser.add_argument("--processes", type=int, default=None)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        for n in options.sizes:
            print(table(n, added(list(pool.map(partial(simulate, options.merges, n), range(options.seasons))))))
            print(flush=True)


if __name__ == "__main__":
    main()
