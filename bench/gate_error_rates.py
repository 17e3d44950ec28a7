"""How often a gate that asks once fails where nothing changed, and where all four metrics lost 5 points.

    python bench/gate_error_rates.py                                # the published table
    python bench/gate_error_rates.py --runs 100 --sizes 20 60       # a quick look
    python bench/gate_error_rates.py --families grouped low         # other families of score_families.py

Prints the share of simulated runs that fail, for a gate that compares plain means, one with a tolerance of 0.02, and
Ragstone's drops, with and without an allowed drop of 0.02. Every cell has its own seed, so cells run alone give the
same figures.
"""

from __future__ import annotations

import os

# One thread: the matrices are small, and timings of a shared machine should not depend on its other cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numpy.typing import NDArray
from score_families import FAMILIES, MORE_FAMILIES, Family

from ragstone.gate.confirm import ONCE
from ragstone.stats.losses import Change, loss_test

Floats = NDArray[np.float64]
Groups = NDArray[np.int64] | None
Job = tuple[str, int, float, int, int]

SIZES = (20, 60, 200)
DROPS = (0.0, 0.05)
ALPHA = 0.05
TOLERANCE = 0.02


def drops_shown(baseline: Floats, current: Floats, groups: Groups, max_drop: float) -> NDArray[np.bool_]:
    """(m + 1,): whether the gate fails the drop of each metric, and of their mean, with one answer on either side."""
    n, rows = len(current), np.arange(len(current))
    alike = np.zeros(n, dtype=np.bool_)
    changes = [Change(rows, x[:, None], y[:, None], alike) for x, y in zip(current.T, baseline.T, strict=True)]
    tested = loss_test(changes, groups=groups)
    fell = np.mean(current - baseline, axis=0)
    shown = (tested.p_values <= ONCE.fail * ALPHA) & (fell < -max_drop)
    mean_shown = tested.mean_p_value <= ONCE.fail * ALPHA and fell.mean() < -max_drop
    return np.append(shown, mean_shown)


def failures(baseline: Floats, current: Floats, groups: Groups) -> dict[str, bool]:
    """Whether each gate fails the run."""
    change = (current - baseline).mean(axis=0)
    return {
        "bare mean": bool(np.any(change < -1e-12)),
        "tolerance .02": bool(np.any(change < -TOLERANCE - 1e-12)),
        "ragstone": bool(np.any(drops_shown(baseline, current, groups, 0.0))),
        "ragstone, max_drop .02": bool(np.any(drops_shown(baseline, current, groups, TOLERANCE))),
    }


def cell(job: Job) -> dict[str, float]:
    """The share of runs that each gate fails."""
    name, n, drop, runs, seed = job
    family = next(family for family in (*FAMILIES, *MORE_FAMILIES) if family.name == name)
    rng = np.random.Generator(np.random.PCG64((seed, 1, n, round(drop * 1000), *name.encode())))
    groups = family.groups(n)
    counts: dict[str, list[bool]] = defaultdict(list)
    for baseline, current in _pairs(family, rng, runs, n, drop):
        for gate, failed in failures(baseline, current, groups).items():
            counts[gate].append(failed)
    return {gate: float(np.mean(failed)) for gate, failed in counts.items()}


def _pairs(family: Family, rng: np.random.Generator, runs: int, n: int, drop: float) -> Iterable[tuple[Floats, Floats]]:
    left = runs
    while left > 0:
        size = min(left, max(1, 200_000 // n))
        yield from zip(*family.draw(rng, size, n, drop), strict=True)
        left -= size


def planned_runs(n: int, drop: float, runs: int) -> int:
    """More runs where nothing changed, since shares are small there; fewer where runs are large."""
    if drop == 0.0:
        return max(40, int(runs * (1.0 if n <= 60 else 0.5 if n <= 300 else 1 / 3)))
    return max(40, int(runs / 4 * (1.0 if n <= 60 else 0.5 if n <= 100 else 0.25)))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1200, help="simulated runs where nothing changed, at small n")
    parser.add_argument("--families", nargs="*", default=[FAMILIES[0].name])
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(argv)
    columns = [(drop, n) for drop in DROPS for n in options.sizes]
    titles = [f"{'unchanged' if drop == 0.0 else f'{100 * drop:.0f} points'}, n = {n}" for drop, n in columns]
    with ProcessPoolExecutor(options.workers) as pool:
        for family in options.families:
            planned = [(family, n, drop, planned_runs(n, drop, options.runs), options.seed) for drop, n in columns]
            cells = list(pool.map(cell, planned))
            print(f"| {family} | {' | '.join(titles)} |")
            print(f"|---|{'---|' * len(titles)}")
            for gate in cells[0]:
                print(f"| {gate} | {' | '.join(f'{shares[gate]:.3f}' for shares in cells)} |", flush=True)


if __name__ == "__main__":
    main()
