"""How often the gate fails a change of real systems that answer a little differently in each run.

    python bench/real_runs.py                # the table of docs/statistics.md
    python bench/real_runs.py --n 20 --draws 480

The data are whole runs of language models at temperature 0 that were repeated with nothing changed (six systems, 100 to
282 questions, right or wrong; `../shared/data/README.md`). Each draw takes some of a system's questions, and its runs
in random order: the first four are the history, the others are what the changed system answers. A loss takes half of
their right answers from twice as many questions as make the mean; a reshuffle gives questions the answers of others.
There is one metric, decided as in bench/losses.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from losses import Answers, Floats, level_of, verdict

from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Status

METRICS = ("right",)
"""A metric of a project: what the gate knows of its own ones, such as how many answers may be wrong, does not count."""
POLICY = policy_from_mapping({"metrics": {"right": {"max_drop": 0.02}}})
RUNS = 4  # before the change
DATA = Path(__file__).parents[2] / "shared" / "data" / "repeated_runs.json.gz"


@dataclass(frozen=True)
class Kind:
    """A change: the points that the mean loses, the share of questions with another one's answers, and how many right
    answers go wrong."""

    name: str
    points: float = 0.0
    reshuffled: float = 0.0
    broken: int = 0


KINDS = (
    Kind("none"),
    Kind("20 % reshuffled", reshuffled=0.2),
    Kind("three always right, now wrong", broken=3),
    Kind("−5 points", points=0.05),
    Kind("−10", points=0.10),
)


class ChangedSystem:
    """`history` (n, runs) are scores before the change; `ask` gives those of one run after it."""

    def __init__(self, scores: Floats, kind: Kind, n: int, runs: int, rng: np.random.Generator) -> None:
        questions = rng.choice(len(scores), min(n, len(scores)), replace=False)
        drawn = scores[np.ix_(questions, rng.permutation(scores.shape[1]))]
        self.history, self._later = drawn[:, :runs], drawn[:, runs:]
        self._rng, self._asked = rng, 0
        size = len(questions)
        self._answers_of = np.arange(size)
        moved = rng.choice(size, round(kind.reshuffled * size), replace=False)
        self._answers_of[moved] = rng.permutation(moved)
        self._share_lost = np.zeros(size)
        self._share_lost[rng.choice(size, round(2.0 * kind.points * size), replace=False)] = 0.5
        always_right = np.flatnonzero(drawn.min(axis=1) == 1.0)
        self._share_lost[rng.permutation(always_right)[: kind.broken]] = 1.0

    def ask(self) -> Answers:
        """One run."""
        answers = self._later[self._answers_of, self._asked % self._later.shape[1]]
        self._asked += 1
        return answers_of(np.where(self._rng.random(len(answers)) < self._share_lost, 0.0, answers))


def answers_of(marks: Floats) -> Answers:
    """A run of answers (n,) of which only right or wrong is known: all right ones have one text."""
    return Answers(marks[:, None], marks.astype(np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=240, help="changes of each kind")
    parser.add_argument("--n", type=int, default=80, help="questions")
    options = parser.parse_args()
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        systems = [_scores(system["runs"]) for system in json.load(file)]
    systems = [scores for scores in systems if scores.shape[1] > RUNS]
    print("| change | fail | inconclusive |\n| --- | --- | --- |")
    for kind in KINDS:
        verdicts = []
        for draw in range(options.draws):
            rng = np.random.default_rng((draw, options.n, RUNS))
            scores = systems[rng.integers(len(systems))]
            system = ChangedSystem(scores, kind, options.n, RUNS, rng)
            level = level_of([answers_of(run) for run in system.history.T], METRICS)
            verdicts.append(verdict(system.ask, level, METRICS, policy=POLICY).status)
        fails, doubts = (verdicts.count(status) / options.draws for status in (Status.FAIL, Status.INCONCLUSIVE))
        print(f"| {kind.name} | {fails:.3f} | {doubts:.3f} |", flush=True)


def _scores(runs: Sequence[dict[str, str]]) -> Floats:
    """(questions, runs): 1 where an answer is right."""
    return np.array([[float(mark) for mark in run["correct"]] for run in runs]).T


if __name__ == "__main__":
    main()
