"""Error rates of gates: false fails, missed drops, and coverage of intervals, over families of scores.

    uv run --group bench python bench/gate_error_rates.py            # the published tables
    uv run --group bench python bench/gate_error_rates.py --runs 100 # a quick look
    uv run --group bench python bench/gate_error_rates.py --kinds verdicts  # rerun one kind of cell, keep the others

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gate_error_tables import write_plots, write_tables
from numpy.typing import NDArray
from rival_gates import available
from score_families import BAD, FAMILIES, MORE_FAMILIES, Family

from ragstone.gate.bounds import FLOOR_WEIGHT, LEAN
from ragstone.stats.bounded_mean import blocks_of, p_mean_at_least, p_mean_at_most
from ragstone.stats.family import Hypothesis, adjusted_p_values, decide
from ragstone.stats.intervals import mean_interval, reached
from ragstone.stats.sequential import watch

Floats = NDArray[np.float64]
Groups = NDArray[np.int64] | None

SIZES = (10, 20, 30, 50, 60, 100, 200, 300, 1000)
VERDICT_SIZES = (20, 60, 200, 1000)
VERDICT_RUNS = 400
SLICES = 10
WIDTHS = 15
PUBLISHED = (60, 200)
"""Sizes at which figures of other gates are published, for the first family only."""
DROPS = (0.0, 0.02, 0.05, 0.1)
ALPHA = 0.05
ROOM = 0.1
"""Distance of a floor below the true mean where whole verdicts are counted."""
SLACK = 0.05
"""Distance of a floor below the true mean in runs that should pass easily."""


def hypotheses(current: Floats, change: Floats, groups: Groups, floors: Floats, max_drop: float) -> list[Hypothesis]:
    """The checks of a policy with a floor and an allowed drop on each of the four metrics, as the gate weighs them."""
    units = np.arange(len(current))
    return [
        *(Hypothesis(f"drop {j}", d, units, -max_drop, (-1.0, 1.0), groups) for j, d in enumerate(change.T)),
        *(
            Hypothesis(f"floor {j}", x, units, floor, (0.0, 1.0), groups, FLOOR_WEIGHT)
            for j, (x, floor) in enumerate(zip(current.T, floors, strict=True))
        ),
    ]


def ragstone(baseline: Floats, current: Floats, groups: Groups, means: Floats, *, everything: bool) -> dict[str, bool]:
    """Whether Ragstone fails the run: no drop allowed, or 2 points; floors with slack, or exactly at the true mean."""
    change = current - baseline
    failed = {}
    for name, max_drop, slack in (
        ("ragstone", 0.0, SLACK),
        ("ragstone, tight floors", 0.0, 0.0),
        ("ragstone, max_drop .02", 0.02, SLACK),
    )[: 3 if everything else 2]:
        _, adjusted = adjusted_p_values(hypotheses(current, change, groups, means - slack, max_drop))
        failed[name] = bool(np.any(adjusted <= ALPHA))
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


def watching_cell(family: Family, n: int, drop: float, runs: int, seed: int) -> dict[str, Any]:
    """Early stopping, as the gate does it: the share of runs ever failed while looking after every sample, and the
    share of samples used until every check was decided."""
    rng = np.random.Generator(np.random.PCG64(_seed(seed, family, n, drop, 3)))
    means, _ = family.true_means(0.0)
    failed, used = [], []
    for baseline, current in _pairs(family, rng, runs, n, drop):
        level = ALPHA / (2 * len(means))
        asked = [(x, floor - SLACK, (0.0, 1.0)) for x, floor in zip(current.T, means, strict=True)]
        asked += [(d, -0.02, (-1.0, 1.0)) for d in (current - baseline).T]
        states = [
            watch(values, bound, alpha_below=level, alpha_above=level, bounds=bounds) for values, bound, bounds in asked
        ]
        failed.append(any(state.decision == "below" for state in states))
        used.append(max(n if state.at is None else state.at for state in states))
    return {"kind": "watching", "failed": float(np.mean(failed)), "used": float(np.mean(used)) / n, "runs": runs}


def verdicts_cell(family: Family, n: int, drop: float, runs: int, seed: int, *, slices: int = 0) -> dict[str, Any]:
    """Verdicts of the whole gate as shares of runs: floors 10 points below the true means, 2 points of drop allowed.

    `slices` > 0: as many slices of n / slices samples each have the same floors, and a `max_drop` of 0.05.
    `literal`: runs with a mean of the whole set below its floor.
    """
    rng = np.random.Generator(np.random.PCG64(_seed(seed, family, n, drop, 5 + slices)))
    means, _ = family.true_means(0.0)
    groups = family.groups(n)
    parts = [np.arange(n), *(np.arange(k, n, slices) for k in range(slices))]
    found: dict[str, list[bool]] = defaultdict(list)
    for baseline, current in _pairs(family, rng, runs, n, drop):
        status = verdict_of(baseline, current, groups, means - ROOM, parts)
        for name in ("pass", "inconclusive", "fail"):
            found[name].append(status == name)
        found["literal"].append(bool(np.any(current.mean(axis=0) < means - ROOM)))
    shares = {name: float(np.mean(given)) for name, given in found.items()}
    return {"kind": "verdicts", "slices": slices, "runs": runs, **shares}


def verdict_of(
    baseline: Floats, current: Floats, groups: Groups, floors: Floats, parts: Sequence[NDArray[np.int64]]
) -> str:
    """The gate's verdict, as in `ragstone.gate.bounds`, without intervals and reasons, which take most of its time.

    `parts` are the whole set and its slices.
    """
    drops, held = [], []
    for index, rows in enumerate(parts):
        allowed, weight = (0.02, 1.0) if index == 0 else (0.05, 1.0 / (len(parts) - 1))
        lean = LEAN if index == 0 else LEAN / ((len(parts) - 1) * len(floors))
        within = None if groups is None else groups[rows]
        for j, floor in enumerate(floors):
            change = current[rows, j] - baseline[rows, j]
            drops.append(Hypothesis(f"drop {index} {j}", change, rows, -allowed, (-1.0, 1.0), within, weight))
            held.append(
                (
                    Hypothesis(
                        f"floor {index} {j}", current[rows, j], rows, floor, (0.0, 1.0), within, weight * FLOOR_WEIGHT
                    ),
                    lean,
                )
            )
    _, adjusted = adjusted_p_values([*drops, *(floor for floor, _ in held)])
    if np.any(adjusted <= ALPHA):
        return "fail"
    for one, lean in held:
        low = one.values.mean() < one.bound
        if low and p_mean_at_least(blocks_of(one.values, one.groups), one.bound, one.bounds) <= lean:
            return "inconclusive"
    _, adjusted = adjusted_p_values([replace(one, bound=0.0) for one in drops])
    for one, p in zip(drops, adjusted, strict=True):
        if p <= ALPHA and one.values.mean() < 0.0:
            blocks, reach = blocks_of(one.values, one.groups), reached(one.values, one.bounds)
            if p_mean_at_most(blocks, one.bound, reach) > ALPHA / 2.0:
                return "inconclusive"
    return "pass"


def sight_cell(family: Family, n: int, runs: int, seed: int) -> dict[str, Any]:
    """Check the drop that reports say is seen in 4 of 5 runs: its size, and the share of metrics that fail on it.

    The size is taken from unchanged runs, as a reader would; then runs with a true drop of that size are decided.
    """
    rng = np.random.Generator(np.random.PCG64(_seed(seed, family, n, 0.0, 90)))
    means, _ = family.true_means(0.0)
    groups = family.groups(n)
    sizes = []
    for baseline, current in _pairs(family, rng, 12, n, 0.0):
        asked = hypotheses(current, current - baseline, groups, means - ROOM, 0.02)
        found = [one.detectable for one in decide(asked)[: len(means)]]
        sizes += [math.inf if one is None else 0.02 + one for one in found]
    size = float(np.median(sizes))
    most = 0.6 * family.renewed * (1.0 - BAD)
    if size > most:  # too few answers change for such a drop
        return {"kind": "sight", "size": size if size < 1.0 else None, "seen": None, "runs": 0}
    seen = []
    for baseline, current in _pairs(family, rng, runs, n, size):
        _, adjusted = adjusted_p_values(hypotheses(current, current - baseline, groups, means - ROOM, 0.02))
        seen.append(float(np.mean(adjusted[: len(means)] <= ALPHA)))
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
            asked = [Hypothesis(name, d, np.arange(n), 0.0, (-1.0, 1.0)) for d in change.T]
            _, adjusted = adjusted_p_values(asked)
            failed[name].append(bool(np.any(adjusted <= ALPHA)))
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
        "watching": watching_cell,
        "verdicts": verdicts_cell,
        "sliced verdicts": partial(verdicts_cell, slices=SLICES),
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
            if n in (100, 300, 1000) and not name.startswith("grouped"):
                for drop in (0.0, 0.1):
                    planned.append(("watching", name, n, drop, max(40, int(runs * fewer / 4)), seed))
    for family in (*FAMILIES, *MORE_FAMILIES):
        for n in VERDICT_SIZES:
            count = max(40, int(VERDICT_RUNS * runs / 1200 * (1.0 if n <= 200 else 0.5)))
            planned.append(("verdicts", family.name, n, 0.0, count, seed))
    for n in VERDICT_SIZES[:3]:
        planned.append(("sliced verdicts", FAMILIES[0].name, n, 0.0, max(40, runs // 8), seed))
    planned += [
        ("sight", family.name, n, 0.0, max(40, runs // 12), seed) for family in FAMILIES for n in VERDICT_SIZES[:3]
    ]
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
