"""Slow drift: false alarms over a season of merges, and how soon a loss of half a point per merge is found.

    python bench/drift.py --seasons 240                         # the published tables
    python bench/drift.py --seasons 50 --families rag --sizes 60 # a quick look
    python bench/drift.py --render                              # tables again from the stored JSON

The families of `score_families.py` become seasons: at each merge a share of the answers is regenerated, the others
stay. A loss makes some of the new answers bad, and they stay bad. The detector is compared with a rolling baseline
alone: each run against the previous one, failing on a drop of more than 2 points. Writes drift.json and drift.md to
bench/results/. Every cell has its own seed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from score_families import BAD, FAMILIES, Family

from ragstone.stats.drift import find_losses
from ragstone.stats.family import Hypothesis, adjusted_p_values

Floats = NDArray[np.float64]

SIZES = (20, 60, 200)
PUBLISHED = ("rag", "rag, noise .05", "rag, noise .1", "all anew", "few anew", "pass/fail", "near perfect", "grouped")
MAX_DRIFT = 0.05
RUNS = 40
STEP = 0.005
ROLLING_SEASONS = 60


def season(
    family: Family,
    rng: np.random.Generator,
    n: int,
    runs: int,
    *,
    losses: Sequence[float] = (),
    only: int | None = None,
) -> Floats:
    """Scores (runs, n, 4). `losses` (runs,) are the points lost by each run; `only`: in that metric alone."""
    metrics = family.metrics if only is None else (family.metrics[only],)
    mean = float(np.mean([metric.a / (metric.a + metric.b) for metric in metrics]))
    skill = np.stack([rng.beta(metric.a, metric.b, size=n) for metric in family.metrics], axis=1)[None]
    shares = np.asarray(losses or [0.0] * runs) / (mean * (1.0 - BAD))
    bad = np.zeros((1, n), dtype=bool)
    answers = family._answers(rng, skill, bad)
    scores = np.empty((runs, n, len(family.metrics)))
    scores[0] = family._judged(rng, answers)[0]
    for run in range(1, runs):
        renewed = family._by_group(rng.random((1, n))) < family.renewed
        more, before = shares[run] - shares[run - 1], shares[run - 1]
        if more > 0.0:
            bad = bad | (renewed & (rng.random((1, n)) < more / (family.renewed * (1.0 - before))))
        elif more < 0.0:  # a revert: the good answers come back at once
            renewed = renewed | bad
            bad = bad & (rng.random((1, n)) < shares[run] / before)
        new = family._answers(rng, skill, bad)
        if only is not None:
            new[:, :, [j for j in range(new.shape[2]) if j != only]] = family._answers(rng, skill, np.zeros_like(bad))[
                :, :, [j for j in range(new.shape[2]) if j != only]
            ]
        answers = np.where(renewed[..., None], new, answers)
        scores[run] = family._judged(rng, answers)[0]
    return scores


def alarms(
    scores: Floats, family: Family, *, sound: NDArray[np.bool_] | None = None, until_first: bool = False
) -> list[int]:
    """The runs at which the detector alarms."""
    groups = family.groups(scores.shape[1])
    shift = np.full(scores.shape[2], MAX_DRIFT)
    found = []
    for run in range(1, len(scores)):
        if not _may_alarm(scores[: run + 1]):
            continue
        losses = find_losses(
            scores[: run + 1], shift=shift, groups=groups, sound=None if sound is None else sound[: run + 1]
        )
        if any(loss.found for loss in losses):
            found.append(run)
            if until_first:
                break
    return found


def _may_alarm(scores: Floats) -> bool:
    """Whether any mean is half the allowed loss below any possible anchor average; a cheap pre-check."""
    means = scores.mean(axis=1)
    means = np.column_stack([means, means.mean(axis=1)])
    firsts = np.cumsum(means[:8], axis=0) / np.arange(1, len(means[:8]) + 1)[:, None]
    return bool(np.any(means[-1] <= firsts.max(axis=0) - MAX_DRIFT / 2.0))


def rolling(scores: Floats, family: Family) -> int | None:
    """The run at which the rolling baseline alone fails."""
    groups, units = family.groups(scores.shape[1]), np.arange(scores.shape[1])
    for run in range(1, len(scores)):
        change = scores[run] - scores[run - 1]
        asked = [Hypothesis(f"{j}", d, units, -0.02, (-1.0, 1.0), groups) for j, d in enumerate(change.T)]
        if np.any(adjusted_p_values(asked)[1] <= 0.05):
            return run
    return None


def unchanged_cell(family: Family, n: int, seasons: int, seed: int) -> dict[str, Any]:
    rng = _rng(seed, family, n, 1)
    counts = np.array([len(alarms(season(family, rng, n, RUNS), family)) for _ in range(seasons)])
    return {"false": _per_thousand(counts, RUNS - 1), "seasons_with": float(np.mean(counts > 0))}


def broken_week_cell(family: Family, n: int, seasons: int, seed: int) -> dict[str, Any]:
    """A broken week of five runs that lose 10 points and fail, reverted: false alarms in the 15 runs after it."""
    rng = _rng(seed, family, n, 2)
    losses = [0.0] * 10 + [0.1] * 5 + [0.0] * 15
    sound = np.array([loss == 0.0 for loss in losses])
    counts, first = [], []
    for _ in range(seasons):
        found = alarms(season(family, rng, n, len(losses), losses=losses), family, sound=sound)
        counts.append(sum(run >= 15 for run in found))
        first.append(15 in found)
    return {"false": _per_thousand(np.array(counts), 15), "first_run_after": float(np.mean(first))}


def loss_cell(family: Family, n: int, seasons: int, seed: int, only: int | None, step: float) -> dict[str, Any]:
    """The share of seasons that alarm before 5 points (8 below n = 200) are lost, and the mean loss at the alarm."""
    rng = _rng(seed, family, n, 3 + (0 if only is None else 1 + only) + round(step * 1e5))
    limit = 0.05 if n >= 200 else 0.08
    runs = round(limit / step) + 1
    losses = [step * run for run in range(runs)]
    at, alone = [], []
    for index in range(seasons):
        scores = season(family, rng, n, runs, losses=losses, only=only)
        at += alarms(scores, family, until_first=True)[:1]
        if index < ROLLING_SEASONS and only is None and step == STEP:
            alone.append(rolling(scores, family) is not None)
    return {
        "limit": limit,
        "found": len(at) / seasons,
        "loss_at_alarm": float(np.mean(at) * step) if at else None,
        "rolling": float(np.mean(alone)) if alone else None,
    }


def _per_thousand(counts: NDArray[np.int64], looks: int) -> tuple[float, float]:
    """False alarms in 1,000 runs, with the standard error over seasons (alarms within a season are dependent)."""
    rates = 1000.0 * counts / looks
    return float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(len(rates)))


def _rng(seed: int, family: Family, n: int, kind: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64((seed, kind, n, *family.name.encode())))


def write_tables(document: dict[str, Any], path: Path) -> None:
    cells = document["cells"]
    sizes = sorted({cell["n"] for cell in cells})
    families = list(dict.fromkeys(cell["family"] for cell in cells))

    def table(kind: str, read: Any) -> str:
        rows = []
        for name in families:
            found = {cell["n"]: cell for cell in cells if (cell["family"], cell["kind"]) == (name, kind)}
            rows.append([name, *(read(found[n]) if n in found else "" for n in sizes)])
        head = ["family", *(f"n = {n}" for n in sizes)]
        return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])

    def false(cell: dict[str, Any]) -> str:
        rate, error = cell["false"]
        return f"{rate:.2f} ± {error:.2f}"

    def found(cell: dict[str, Any]) -> str:
        at = cell["loss_at_alarm"]
        return f"{cell['found']:.2f}" + ("" if at is None else f" (at {100 * at:.1f})")

    parts = [
        "# Slow drift",
        "Written by `python bench/drift.py`: see there.",
        f"{document['seasons']} seasons of {RUNS} runs a cell where nothing changed, "
        f"{document['seasons'] // 4} seasons elsewhere.",
        "## False alarms in 1,000 runs where nothing changed, ± standard error",
        table("unchanged", false),
        "## False alarms in 1,000 runs after a broken week was reverted, ± standard error",
        table("broken week", false),
        "## Half a point lost a merge in all metrics: seasons that alarm before 5 points are lost (8 below n = 200), "
        "and the mean loss at the alarm in points",
        table("all", found),
        "## The same by the rolling baseline alone (max_drop 0.02)",
        table("all", lambda cell: "" if cell["rolling"] is None else f"{cell['rolling']:.2f}"),
        "## Half a point lost a merge in one metric alone, heaped at 0 and 1",
        table("one heaped", found),
        "## Half a point lost a merge in one metric alone, smooth in the rag families",
        table("one smooth", found),
        "## A fifth of a point lost a merge in all metrics",
        table("slow", found),
    ]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seasons", type=int, default=400, help="where nothing changed; a quarter of it elsewhere")
    parser.add_argument("--families", nargs="*", default=list(PUBLISHED))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--render", action="store_true", help="tables again from the stored JSON")
    options = parser.parse_args(argv)
    target = options.out / "drift.json"
    if not options.render:
        cells = []
        for family in (family for family in FAMILIES if family.name in options.families):
            for n in options.sizes:
                fewer = max(2, options.seasons // 4)
                work = {
                    "unchanged": lambda f=family, n=n: unchanged_cell(f, n, options.seasons, options.seed),
                    "broken week": lambda f=family, n=n, k=fewer: broken_week_cell(f, n, k, options.seed),
                    "all": lambda f=family, n=n, k=fewer: loss_cell(f, n, k, options.seed, None, STEP),
                    "one heaped": lambda f=family, n=n, k=fewer: loss_cell(f, n, k, options.seed, 0, STEP),
                    "one smooth": lambda f=family, n=n, k=fewer: loss_cell(f, n, k, options.seed, 1, STEP),
                    "slow": lambda f=family, n=n, k=fewer: loss_cell(f, n, k, options.seed, None, 0.002),
                }
                for kind, run in work.items():
                    started = time.perf_counter()
                    cell = {"family": family.name, "n": n, "kind": kind, **run()}
                    cells.append({**cell, "seconds": round(time.perf_counter() - started, 1)})
                    print(json.dumps(cells[-1]), flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        document = {"seed": options.seed, "seasons": options.seasons, "cells": cells}
        target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    write_tables(json.loads(target.read_text(encoding="utf-8")), options.out / "drift.md")


if __name__ == "__main__":
    main()
