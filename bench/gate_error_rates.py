"""Error rates of gates: false fails, missed drops, and coverage of intervals, over families of scores.

    uv run --group bench python bench/gate_error_rates.py            # the published tables
    uv run --group bench python bench/gate_error_rates.py --runs 100 # a quick look
    uv run --group bench python bench/gate_error_rates.py --kinds sight     # rerun one kind of cell, keep the others

Writes gate_error_rates.json, .md and the plots to bench/results/. Every cell has its own seed, so cells run alone give
the same figures.
"""

from __future__ import annotations

import os
from collections.abc import Callable

# One thread: the matrices are small, and timings of a shared machine should not depend on its other cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gate_error_tables import write_plots, write_tables
from numpy.typing import NDArray
from rival_gates import available
from score_families import BAD, FAMILIES, MORE_FAMILIES, Family

from ragstone.gate.confirm import FLOORS, ONCE
from ragstone.gate.policy import default_policy
from ragstone.gate.policy_table import GateRules
from ragstone.gate.resolution import Spread, visible_loss
from ragstone.stats.bounded_mean import blocks_of, p_mean_at_least, p_mean_at_most
from ragstone.stats.family import Hypothesis, adjusted_p_values, deviation_of
from ragstone.stats.intervals import mean_interval, reached
from ragstone.stats.losses import Change, p_values

Floats = NDArray[np.float64]
Groups = NDArray[np.int64] | None

SIZES = (10, 20, 30, 50, 60, 100, 200, 300, 1000)
SIGHT_SIZES = (20, 60, 200)
WIDTHS = 15
PUBLISHED = (60, 200)
"""Sizes at which figures of other gates are published, for the first family only."""
DROPS = (0.0, 0.02, 0.05, 0.1)
ALPHA = 0.05
ROOM = 0.1
"""Distance of a floor below the true mean where whole verdicts are counted."""
SLACK = 0.05
"""Distance of a floor below the true mean in runs that should pass easily."""


def drops_shown(baseline: Floats, current: Floats, groups: Groups, max_drop: float) -> NDArray[np.bool_]:
    """(m,): whether the gate fails the drop of each metric, with one answer to each question on either side."""
    n, rows = len(current), np.arange(len(current))
    alike = np.zeros(n, dtype=np.bool_)
    changes = [Change(rows, x[:, None], y[:, None], alike) for x, y in zip(current.T, baseline.T, strict=True)]
    shown = p_values(changes, groups=groups) <= ONCE.fail * ALPHA
    return np.asarray(shown & (np.mean(current - baseline, axis=0) < -max_drop))


def floors_missed(current: Floats, groups: Groups, floors: Floats) -> NDArray[np.bool_]:
    """(m,): whether the gate fails the floor of each metric, beside its drop."""
    _, adjusted = adjusted_p_values(_floors(current, groups, floors))
    return np.asarray(adjusted <= FLOORS * ALPHA)


def _floors(current: Floats, groups: Groups, floors: Floats) -> list[Hypothesis]:
    units = np.arange(len(current))
    return [
        Hypothesis(f"floor {j}", x, units, floor, (0.0, 1.0), groups)
        for j, (x, floor) in enumerate(zip(current.T, floors, strict=True))
    ]


def ragstone(baseline: Floats, current: Floats, groups: Groups, means: Floats, *, everything: bool) -> dict[str, bool]:
    """Whether Ragstone fails the run: no drop allowed, or 2 points; floors with slack, or exactly at the true mean."""
    failed = {}
    for name, max_drop, slack in (
        ("ragstone", 0.0, SLACK),
        ("ragstone, tight floors", 0.0, 0.0),
        ("ragstone, max_drop .02", 0.02, SLACK),
    )[: 3 if everything else 2]:
        drops = drops_shown(baseline, current, groups, max_drop)
        failed[name] = bool(np.any(drops) or np.any(floors_missed(current, groups, means - slack)))
    return failed


def gates_cell(family: Family, n: int, drop: float, runs: int, seed: int) -> dict[str, Any]:
    """The share of runs that each gate fails. Slow rivals that resample get fewer runs."""
    rng = np.random.Generator(np.random.PCG64(_seed(seed, family, n, drop, 1)))
    means, _ = family.true_means(0.0)
    rivals = available()
    # Resampling whole groups one by one is slow.
    rival_runs = min(runs, 300 if n <= 100 and family.group == 1 else 60)
    counts: dict[str, list[bool]] = defaultdict(list)
    groups = family.groups(n)
    for index, (baseline, current) in enumerate(_pairs(family, rng, runs, n, drop)):
        results = [ragstone(baseline, current, groups, means, everything=family.name == FAMILIES[0].name)]
        results += [
            rival(baseline, current, groups)
            for name, rival in rivals.items()
            if name == "bare_mean" or index < rival_runs
        ]
        for result in results:
            for name, failed in result.items():
                counts[name].append(failed)
    shares = {name: float(np.mean(failed)) for name, failed in counts.items()}
    return {"kind": "gates", "fails": shares, "runs": {name: len(failed) for name, failed in counts.items()}}


def intervals_cell(family: Family, n: int, drop: float, runs: int, seed: int) -> dict[str, Any]:
    """Coverage and mean width of 95 % intervals, pooled over the metrics, for means and for paired differences.

    Coverage is computed from the two p-values at the true value, which is equivalent to using the limits and cheaper.
    Widths come from the first runs.
    """
    rng = np.random.Generator(np.random.PCG64(_seed(seed, family, n, drop, 2)))
    means, changes = family.true_means(drop)
    groups = family.groups(n)
    inside: dict[str, list[bool]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    for index, (baseline, current) in enumerate(_pairs(family, rng, runs, n, drop)):
        for j, (mean, change) in enumerate(zip(means, changes, strict=True)):
            for name, values, truth, bounds in (
                ("mean", current[:, j], mean, (0.0, 1.0)),
                ("difference", current[:, j] - baseline[:, j], change, (-1.0, 1.0)),
            ):
                inside[name].append(_covers(values, truth, bounds, groups))
                if index < WIDTHS:
                    interval = mean_interval(values, bounds=bounds, groups=groups)
                    widths[name].append(interval.high - interval.low)
    return {
        "kind": "intervals",
        "coverage": {name: float(np.mean(found)) for name, found in inside.items()},
        "width": {name: float(np.mean(found)) for name, found in widths.items()},
        "intervals": {name: len(found) for name, found in inside.items()},
    }


def _covers(values: Floats, truth: float, bounds: tuple[float, float], groups: Groups) -> bool:
    if bounds[0] < 0.0 and not np.any(values):
        return truth == 0.0
    blocks, reach = blocks_of(values, groups), reached(values, bounds)
    return min(p_mean_at_least(blocks, truth, reach), p_mean_at_most(blocks, truth, reach)) >= ALPHA / 2.0


def sight_cell(family: Family, n: int, runs: int, seed: int) -> dict[str, Any]:
    """Check the drop that reports say is seen in 4 of 5 runs: its size, and the share of metrics that fail on it.

    The size is taken from unchanged runs, as a reader would; then runs with a true drop of that size are decided.
    """
    rng = np.random.Generator(np.random.PCG64(_seed(seed, family, n, 0.0, 90)))
    means, _ = family.true_means(0.0)
    groups = family.groups(n)
    policy = default_policy()
    once = replace(policy, table=policy.table.model_copy(update={"gate": GateRules(confirm=False)}))
    sizes = []
    for baseline, current in _pairs(family, rng, 12, n, 0.0):
        for change in (current - baseline).T:
            one = Hypothesis("drop", change, np.arange(n), 0.0, (-1.0, 1.0), groups)
            blocks = n if groups is None else len(np.unique(groups))
            spread = Spread("drop", deviation_of(one), "", n, n / blocks)
            found = visible_loss(spread, n, allowed=0.02, policy=once, metrics=len(means), parts=False)
            sizes.append(math.inf if found is None else found)
    size = float(np.median(sizes))
    most = 0.6 * family.renewed * (1.0 - BAD)
    if size > most:  # too few answers change for such a drop
        return {"kind": "sight", "size": size if size < 1.0 else None, "seen": None, "runs": 0}
    seen = [
        float(np.mean(drops_shown(baseline, current, groups, 0.02)))
        for baseline, current in _pairs(family, rng, runs, n, size)
    ]
    return {"kind": "sight", "size": size, "seen": float(np.mean(seen)), "runs": runs}


def asymmetric_cell(n: int, runs: int, seed: int) -> dict[str, Any]:
    """False fails where differences have mean 0 but are not symmetric, so that sign flips are not exact.

    Rare gains: nine in ten answers lose 5 points, one gains 45. Rare losses: the mirror image. Four metrics.
    """
    rng = np.random.Generator(np.random.PCG64((seed, 4, n)))
    failed: dict[str, list[bool]] = defaultdict(list)
    for _ in range(runs):
        gains = np.where(rng.random((n, 4)) < 0.1, 0.45, -0.05)
        for name, change in (("rare gains", gains), ("rare losses", -gains)):
            failed[name].append(bool(np.any(drops_shown(np.zeros_like(change), change, None, 0.0))))
    return {"kind": "asymmetric", "fails": {name: float(np.mean(found)) for name, found in failed.items()}}


def _pairs(family: Family, rng: np.random.Generator, runs: int, n: int, drop: float) -> Iterable[tuple[Floats, Floats]]:
    left = runs
    while left > 0:
        size = min(left, max(1, 200_000 // n))
        yield from zip(*family.draw(rng, size, n, drop), strict=True)
        left -= size


def _seed(seed: int, family: Family, n: int, drop: float, kind: int) -> Sequence[int]:
    return (seed, kind, n, round(drop * 1000), *family.name.encode())


def _cell(job: tuple[str, str, int, float, int, int]) -> dict[str, Any]:
    kind, name, n, drop, runs, seed = job
    if kind == "asymmetric":
        return {"family": "", "n": n, "drop": 0.0, **asymmetric_cell(n, runs, seed)}
    family = next(family for family in (*FAMILIES, *MORE_FAMILIES) if family.name == name)
    started = time.perf_counter()
    if kind == "sight":
        return {"family": name, "n": n, "drop": 0.0, **sight_cell(family, n, runs, seed)}
    work: dict[str, Callable[..., dict[str, Any]]] = {
        "gates": gates_cell,
        "intervals": intervals_cell,
    }
    result = work[kind](family, n, drop, runs, seed)
    return {"family": name, "n": n, "drop": drop, **result, "seconds": round(time.perf_counter() - started, 1)}


def jobs(
    families: Sequence[str], sizes: Sequence[int], runs: int, seed: int
) -> list[tuple[str, str, int, float, int, int]]:
    """The cells: more runs where nothing changed, since shares are small there; fewer where runs are large."""
    planned = []
    for name in families:
        for n in sizes:
            if n in PUBLISHED and name != FAMILIES[0].name:
                continue
            fewer = 1.0 if n <= 60 else 0.5 if n <= 100 else 0.25 if n <= 300 else 0.1
            for drop in DROPS if name == FAMILIES[0].name else (0.0, 0.05, 0.1):
                count = runs * fewer / 4
                if drop == 0.0:
                    count = runs * (1.0 if n <= 60 else 0.5 if n <= 300 else 1 / 3)
                planned.append(("gates", name, n, drop, max(40, int(count)), seed))
            for drop in (0.0, 0.05):
                planned.append(("intervals", name, n, drop, max(40, int(runs / (8 if n <= 60 else 6))), seed))
    planned += [("sight", family.name, n, 0.0, max(40, runs // 12), seed) for family in FAMILIES for n in SIGHT_SIZES]
    planned += [("asymmetric", "", n, 0.0, max(100, runs // 4), seed) for n in sizes if n not in PUBLISHED]
    return sorted(planned, key=lambda job: job[2])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1200, help="simulated runs where nothing changed, at small n")
    parser.add_argument("--families", nargs="*", default=[family.name for family in FAMILIES])
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", help="only these kinds of cells; the others stay as they are stored")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--render", action="store_true", help="tables and plots again from the stored JSON")
    options = parser.parse_args(argv)
    target = options.out / "gate_error_rates.json"
    if not options.render:
        planned = jobs(options.families, options.sizes, options.runs, options.seed)
        cells = []
        if options.kinds:
            planned = [job for job in planned if job[0] in options.kinds]
            stored = json.loads(target.read_text(encoding="utf-8"))["cells"] if target.exists() else []
            cells = [cell for cell in stored if cell["kind"] not in {kind.split()[-1] for kind in options.kinds}]
        with ProcessPoolExecutor(options.workers) as pool:
            for cell in pool.map(_cell, planned):
                cells.append(cell)
                print(json.dumps(cell), flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        document = {
            "alpha": ALPHA,
            "seed": options.seed,
            "runs": options.runs,
            "families": {family.name: family.words for family in (*FAMILIES, *MORE_FAMILIES)},
            "cells": cells,
        }
        target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    document = json.loads(target.read_text(encoding="utf-8"))
    write_tables(document, options.out / "gate_error_rates.md")
    write_plots(document, options.out)


if __name__ == "__main__":
    main()
