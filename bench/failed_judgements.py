"""Verdicts of runs with missing scores: judgements that fail by chance, and those of answers that a change made bad.

    uv run --group bench python bench/failed_judgements.py [--runs 60]

Scores are those of the rag family of `score_families.py`, floors and drops as in its tables: floors 10 points below the
true means, 2 points of drop allowed. A cell is the share of clean passes, and of errors, in percent.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from gate_error_rates import ROOM
from numpy.typing import NDArray
from score_families import FAMILIES

from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Status
from ragstone.metrics.score import Failed
from ragstone.run.scores import MetricScores, RunScores, SampleFacts, SystemFacts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
FAMILY = FAMILIES[0]
METRICS = ("faithfulness", "context_recall", "answer_correctness", "context_precision")
SIZES = (20, 50, 100, 200, 1000)
BEFORE = {"min_coverage": 0.98, "max_failed_judgements": 1.0}
"""The rule before: less than 98 % is an error, and nothing else is asked of missing scores."""

CHANCE = (
    ("none", 0.0, False),
    ("3 % of the samples", 0.03, False),
    ("3 % of the new answers, the others are cached", 0.03, True),
    ("8 % of the samples", 0.08, False),
)
"""Failures by chance in a run where nothing changed: their share, and whether only new answers are judged."""

LOST = (0.05, 0.1)
"""Shares of samples that a change makes bad (all their scores 0), and whose judgement fails for that reason."""


def run_of(scores: Floats, renewed: Bools, missing: Bools) -> RunScores:
    """A run with these scores (n, 4), without those that are missing; renewed answers differ from the baseline's."""
    ids = [f"q{index}" for index in range(len(scores))]
    failed = Failed("judge", "no reply after 5 attempts")
    metrics = {
        name: MetricScores(
            {i: float(x) for i, x, gone in zip(ids, column, lost, strict=True) if not gone},
            failed={i: failed for i, gone in zip(ids, lost, strict=True) if gone},
        )
        for name, column, lost in zip(METRICS, scores.T, missing.T, strict=True)
    }
    answers = {i: ("new" if new else "old",) for i, new in zip(ids, renewed, strict=True)}
    return RunScores("run", metrics, {i: SampleFacts() for i in ids}, SystemFacts(answers=answers))


def verdict(baseline: Floats, current: Floats, renewed: Bools, missing: Bools, gate: dict[str, float]) -> Status:
    """The gate's verdict on `current`, with a baseline that has all scores."""
    means, _ = FAMILY.true_means(0.0)
    rules = {name: {"min": float(mean) - ROOM, "max_drop": 0.02} for name, mean in zip(METRICS, means, strict=True)}
    nothing = np.zeros_like(missing)
    before = run_of(baseline, np.zeros_like(renewed), nothing)
    policy = policy_from_mapping({"gate": gate, "metrics": rules})
    return decide_gate(run_of(current, renewed, missing), before, policy).status


def cell(n: int, runs: int, rate: float, *, cached: bool = False, lost: float = 0.0) -> str:
    """Passes and errors, by the rule before and by the rule now."""
    rng = np.random.Generator(np.random.PCG64([n, int(1000 * rate), cached, int(1000 * lost)]))
    found: dict[str, list[Status]] = {"before": [], "now": []}
    for _ in range(runs):
        drawn, answers, anew = FAMILY.draw_answers(rng, 1, n, 0.0)
        baseline, current, renewed = drawn[0], answers[0][0], anew[0]
        missing = (rng.random(current.shape) < rate) & (renewed[:, None] | (not cached))
        bad = rng.permutation(n) < round(lost * n)
        missing, renewed = missing | bad[:, None], renewed | bad
        for name, gate in (("before", BEFORE), ("now", {})):
            found[name].append(verdict(baseline, current, renewed, missing, gate))
    return " → ".join(f"{_percent(each, Status.PASS)} ({_percent(each, Status.ERROR)})" for each in found.values())


def _percent(found: list[Status], status: Status) -> str:
    return f"{100 * found.count(status) / len(found):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    runs = parser.parse_args().runs
    print(f"Passes (errors) in percent of {runs:,} runs, before → now\n")
    print("| judgements that fail |" + "".join(f" n = {n:,} |" for n in SIZES))
    print("|---|" + "--:|" * len(SIZES))
    for words, rate, cached in CHANCE:
        print(f"| {words} |" + "".join(f" {cell(n, runs, rate, cached=cached)} |" for n in SIZES), flush=True)
    for lost in LOST:
        words = f"of {100 * lost:.0f} % of the answers, which became bad"
        print(f"| {words} |" + "".join(f" {cell(n, runs, 0.0, lost=lost)} |" for n in SIZES), flush=True)


if __name__ == "__main__":
    main()
