"""How often a run of few questions fails, is yellow, or is asked again: healthy systems, and some that broke questions.

    python bench/broken_questions.py                 # the table of bench/README.md
    python bench/broken_questions.py --runs 60

Answers are right or wrong, in three metrics. A question is right with a chance drawn from Beta(4, 1); of a share of
the questions every answer is drawn anew, the others always get the same one. A broken question is wrong in one metric
from now on. Each run is decided by the gate with its defaults, and asked again as it asks for.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.confirm import doubts, settled
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.judge.protocol import JudgeIdentity

Floats = NDArray[np.float64]

METRICS = ("first", "second", "third")
POLICY = policy_from_mapping(
    {"gate": {"only_named": True}, "metrics": {metric: {"max_drop": 0.02} for metric in METRICS}}
)


@dataclass(frozen=True, slots=True)
class Case:
    """`questions`, of which `broken` break; a share `vary` of them; the baseline has `runs` runs."""

    questions: int
    broken: int
    vary: float
    runs: int = 1


CASES = (
    *(Case(n, 0, vary) for n in (15, 40, 80) for vary in (0.0, 0.15, 0.4)),
    Case(80, 0, 0.4, runs=6),
    Case(15, 3, 0.0),
    Case(15, 3, 0.15),
    Case(15, 5, 0.4),
    Case(40, 4, 0.15),
    Case(80, 8, 0.4),
    Case(80, 8, 0.4, runs=6),
)


def scores(by_metric: dict[str, Floats], answers: int, *, asked_again: bool, steady: bool) -> RunScores:
    """A run with these scores (questions, answers) of each metric."""
    manifest = Manifest(
        ragstone_version="0",
        state="finished",
        created_at="2026-01-01T00:00:00Z",
        golden=GoldenManifest(files=("golden.jsonl",), content_hash="0", samples=1),
        judge=JudgeIdentity(provider="openai", model="judge", version="1", embeddings=None),
        system=SystemManifest(entrypoint="python:app:answer"),
        metrics=dict.fromkeys(by_metric, "1"),
        answers=answers,
    )
    metrics = {}
    for name, table in by_metric.items():
        rows = {f"q{number}": tuple(row) for number, row in enumerate(table.tolist())}
        means = {name: sum(row) / len(row) for name, row in rows.items()}
        metrics[name] = MetricScores(means, answers=rows if table.shape[1] > 1 else {})
    samples = {name: SampleFacts() for name in metrics[METRICS[0]].values}
    confirm = ConfirmFacts(asked_again=asked_again, steady=steady)
    return RunScores("run", metrics, samples, manifest=manifest, rounds=RoundFacts(confirm=confirm))


def decided(before: dict[str, Floats], now: dict[str, Floats], policy: Policy) -> tuple[str, int]:
    """The verdict, and how often each question was asked again."""
    baseline = scores(before, 1, asked_again=False, steady=False)
    most = policy.gate.confirm_repeats
    for again in range(most + 1):
        same = again > 0 and all(bool((table[:, : again + 1] == table[:, :1]).all()) for table in now.values())
        asked = 0 if same else again
        current = scores(
            {name: table[:, : asked + 1] for name, table in now.items()}, asked + 1, asked_again=asked > 0, steady=same
        )
        verdict = decide_gate(current, baseline, policy)
        doubtful = doubts(verdict, policy.alpha)
        if not doubtful or settled(verdict, policy.alpha) or same:
            return verdict.status.value, again
    return verdict.status.value, most


def drawn(case: Case, rng: np.random.Generator, answers: int) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The scores before (questions, runs) and now (questions, answers) of each metric."""
    before, now = {}, {}
    varies = rng.random(case.questions) < case.vary
    for number, metric in enumerate(METRICS):
        skill = rng.beta(4.0, 1.0, case.questions)
        fixed = rng.random(case.questions) < skill
        chance = np.where(varies, skill, fixed)[:, None]
        before[metric] = (rng.random((case.questions, case.runs)) < chance).astype(float)
        if number == 0:
            right = np.flatnonzero(before[metric].all(axis=1))
            chance = chance.copy()
            chance[rng.permutation(right)[: case.broken]] = 0.0
        now[metric] = (rng.random((case.questions, answers)) < chance).astype(float)
    return before, now


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    print("| questions | broken | vary | runs before | fail | inconclusive | asked again, times |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        rng = np.random.default_rng((options.seed, case.questions, case.broken, round(100 * case.vary), case.runs))
        counts, again = Counter[str](), 0
        for _ in range(options.runs):
            status, times = decided(*drawn(case, rng, 1 + POLICY.gate.confirm_repeats), POLICY)
            counts[status] += 1
            again += times
        fails, yellow = counts["fail"] / options.runs, counts["inconclusive"] / options.runs
        row = (case.questions, case.broken, f"{case.vary:.0%}", case.runs, f"{fails:.3f}", f"{yellow:.3f}")
        print(f"| {' | '.join(map(str, row))} | {again / options.runs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
