"""Error rates, power and cost of `confirm = true`, over the families of `gate_error_rates.py`.

    uv run --group bench python bench/confirm.py             # the published table
    uv run --group bench python bench/confirm.py --runs 50   # a quick look

Writes confirm.md to bench/results/. Each simulated pull request has one baseline answer to each question, a first
answer, and up to three more, which are asked for by the gate's rule (`ragstone.gate.confirm`). No drop is allowed, and
floors are 5 points below the true means, as for "ragstone" in gate_error_rates.md. A question that is answered as
before is not judged again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from score_families import FAMILIES, MORE_FAMILIES, Family

from ragstone.gate.bounds import FLOOR_WEIGHT
from ragstone.gate.confirm import AT_ONCE, DOUBT
from ragstone.stats.family import Hypothesis, adjusted_p_values
from ragstone.stats.signflip import Answers

Floats = NDArray[np.float64]

ALPHA = 0.05
SLACK = 0.05
REPEATS = 3
DROPS = {20: 0.1, 60: 0.05}
NOISY = ("rag", "rag, noise .05", "rag, noise .1")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One pull request: whether it fails without and with confirming, and how often each question was asked.

    `new` is the share of answers that are not the baseline's, and so are judged."""

    without: bool
    confirmed: bool
    asked: int
    new: float


def smallest_p(
    baseline: Floats,
    answers: Sequence[Floats],
    same: NDArray[np.bool_],
    groups: NDArray[np.int64] | None,
    floors: Floats,
) -> float:
    """The smallest adjusted p-value of the family of drops and floors."""
    units = np.arange(len(baseline))
    mean = np.mean(answers, axis=0)
    asked = []
    for j in range(len(floors)):
        several = None
        if len(answers) > 1:
            several = Answers(np.stack([one[:, j] for one in answers], axis=1), baseline[:, j : j + 1], same)
        change = mean[:, j] - baseline[:, j]
        asked.append(Hypothesis(f"drop {j}", change, units, 0.0, (-1.0, 1.0), groups, answers=several))
    asked += [
        Hypothesis(f"floor {j}", mean[:, j], units, floor, (0.0, 1.0), groups, FLOOR_WEIGHT)
        for j, floor in enumerate(floors)
    ]
    _, adjusted = adjusted_p_values(asked)
    return min(float(p) if one.values.mean() < one.bound else 1.0 for one, p in zip(asked, adjusted, strict=True))


def outcomes(family: Family, n: int, drop: float, runs: int, seed: int) -> list[Outcome]:
    rng = np.random.Generator(np.random.PCG64((seed, 6, n, round(drop * 1000), *family.name.encode())))
    floors = family.true_means(0.0)[0] - SLACK
    groups = family.groups(n)
    baselines, answers, renewed = family.draw_answers(rng, runs, n, drop, 1 + REPEATS)
    found = []
    for run in range(runs):
        same = ~renewed[run]

        def p(asked: int, run: int = run, same: NDArray[np.bool_] = same) -> float:
            return smallest_p(baselines[run], [one[run] for one in answers[:asked]], same, groups, floors)

        first = p(1)
        asked, last = 1, first
        if AT_ONCE * ALPHA < first <= DOUBT:
            while asked <= REPEATS and last <= DOUBT:
                asked += 1
                last = p(asked)
        level = AT_ONCE * ALPHA if asked == 1 else (1.0 - AT_ONCE) * ALPHA
        found.append(Outcome(first <= ALPHA, last <= level, asked, float(renewed[run].mean())))
    return found


def row(family: Family, n: int, drop: float, runs: int, seed: int) -> list[str]:
    found = outcomes(family, n, drop, runs, seed)
    figures = [
        np.mean([one.without for one in found]),
        np.mean([one.confirmed for one in found]),
        np.mean([one.asked for one in found]),
    ]
    shares = [f"{share:.3f}".lstrip("0") for share in figures[:2]]
    judged = 1.0 + np.mean([(one.asked - 1) * one.new for one in found])
    return [family.name, str(n), f"{drop * 100:.0f}", *shares, f"{figures[2]:.2f}", f"{judged:.2f}", str(runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=600, help="simulated pull requests without a drop; half with one")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    lines = [
        "# Confirm before red",
        f"Made by `python bench/confirm.py --runs {given.runs} --seed {given.seed}`. Shares of simulated pull requests "
        f"that fail; alpha = {ALPHA}, {AT_ONCE:g} of it at once, a doubt up to p = {DOUBT:g}, up to {REPEATS} more "
        "answers. `asked`: how often each question is asked, on average. `judged`: judge calls on average, where 1 is "
        "to judge each answer once; `--repeats 3` is 3.",
        "| family | n | drop (points) | fails without | fails with confirm | asked | judged | runs |",
    ]
    table = [lines.pop(), "| " + " | ".join(["---"] * 8) + " |"]
    for family in (*FAMILIES, *MORE_FAMILIES):
        for n, drop in DROPS.items():
            for true in (0.0, drop) if family.name in NOISY else (0.0,):
                runs = given.runs if true == 0.0 else given.runs // 2
                table.append("| " + " | ".join(row(family, n, true, runs, given.seed)) + " |")
                print(table[-1], flush=True)
    path = Path(__file__).parent / "results" / "confirm.md"
    path.write_text("\n\n".join([*lines, "\n".join(table)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
