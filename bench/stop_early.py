"""Early stopping with a history: how much of the golden set healthy runs ask, and how often the verdict is another one.

Four metrics with the default rules. Of the questions, 60 % have the same answer in every run; the others are answered
anew in some runs, each at a rate of its own, and score differently then. A loss takes half of what some questions are
worth: of any, or only of those that never moved. The history is right, shuffled among the questions, or there is only
a baseline. Each run is decided twice by the gate's own functions: as it stopped, and on all questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.gate.decide import decide_gate
from ragstone.gate.early import EarlyStop, draw_samples
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import Status
from ragstone.history.level import LEVEL_RUNS, noise
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Scored
from ragstone.run.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.run.scores import MetricScores, RunScores, SampleFacts

Floats = NDArray[np.float64]

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
DEAD = 0.6
MANIFEST = Manifest(
    ragstone_version="0",
    state="finished",
    created_at="2026-01-01T00:00:00+00:00",
    golden=GoldenManifest(files=("g.jsonl",), content_hash="0", samples=0),
    judge=JudgeIdentity(provider="scripted", model="script", version="1"),
    system=SystemManifest(entrypoint="python:x:y"),
    metrics=dict.fromkeys(METRICS, "1"),
)


@dataclass(frozen=True, slots=True)
class Questions:
    """Per question: the chance that a statement of its answer is good, how often it is answered anew, its usual score.

    `chance` and `usual` are (n, 4), `anew` is (n,).
    """

    chance: Floats
    anew: Floats
    usual: Floats

    @classmethod
    def drawn(cls, rng: np.random.Generator, n: int) -> Questions:
        dead = rng.random(n) < DEAD
        chance = np.where(dead, rng.random(n) >= 0.03, rng.beta(4, 1, n))[:, None].repeat(len(METRICS), axis=1)
        anew = np.where(dead, 0.0, rng.beta(0.6, 0.8, n))
        return cls(chance, anew, rng.binomial(4, chance) / 4)

    def answered(self, rng: np.random.Generator, lost: NDArray[np.bool_] | None = None) -> Floats:
        """The scores (n, 4) of a run in which the questions that are `lost` (n, 4) have half of their chance."""
        chance = self.chance if lost is None else np.where(lost, 0.5 * self.chance, self.chance)
        renewed = (rng.random(len(self.anew)) < self.anew)[:, None]
        again = renewed if lost is None else renewed | lost
        return np.where(again, rng.binomial(4, chance) / 4, self.usual)

    def losing(self, rng: np.random.Generator, points: float, *, dead: bool, metrics: int) -> NDArray[np.bool_]:
        """Which questions lose half in which metrics, so that the mean of each of these falls by about `points`."""
        able = np.flatnonzero((self.chance[:, 0] > 0.0) & ((self.anew == 0.0) | (not dead)))
        count = round(2.0 * points * len(self.anew) / float(self.chance[able, 0].mean()))
        lost = np.zeros(self.chance.shape, dtype=np.bool_)
        lost[np.ix_(rng.permutation(able)[:count], np.arange(metrics))] = True
        return lost


def scores_of(values: Floats, runs: Floats | None = None) -> RunScores:
    ids = [f"q{at}" for at in range(len(values))]
    metrics = {}
    for place, name in enumerate(METRICS):
        answers = {} if runs is None else dict(zip(ids, map(tuple, runs[:, :, place].T.tolist()), strict=True))
        metrics[name] = MetricScores(
            dict(zip(ids, values[:, place].tolist(), strict=True)), version="1", answers=answers
        )
    return RunScores("run", metrics, {name: SampleFacts() for name in ids}, manifest=MANIFEST)


@dataclass(frozen=True, slots=True)
class Outcome:
    share: float
    stopped: Status
    whole: Status
    estimate_error: float


def run_once(
    rng: np.random.Generator, n: int, runs: int, how: str, lost: dict[str, Any] | None, policy: Policy
) -> Outcome:
    """One run, stopped early and whole. `how`: the history is ``right``, ``shuffled``, ``hostile`` or ``none``."""
    questions = Questions.drawn(rng, n)
    history = np.stack([questions.answered(rng) for _ in range(runs)])
    losing = None if lost is None else questions.losing(rng, **lost)
    now = questions.answered(rng, losing)
    latest = history[-LEVEL_RUNS:]
    before = scores_of(latest.mean(axis=0), latest)
    current = scores_of(now)
    told = history
    if how == "shuffled":
        told = history[:, rng.permutation(n)]
    ids = sorted(before.samples)
    place = [int(name[1:]) for name in ids]
    known = np.stack([noise(told[:, :, metric]) for metric in range(len(METRICS))], axis=1)
    if how == "hostile" and losing is not None:  # what is lost seems to be what never moves, and all else to move
        known = np.where(np.asarray(losing.any(axis=1))[:, None], 1e-4, 1.0)
    levels = told[-LEVEL_RUNS:].mean(axis=0)
    if how == "none":
        drawn = draw_samples(before.samples, int(rng.integers(2**31)))
    else:
        drawn = draw_samples(before.samples, int(rng.integers(2**31)), levels=levels[place], noise=known[place])
    early = EarlyStop(drawn, current.samples, policy, MANIFEST, before)
    for name in drawn.ids:
        if early.enough():
            break
        early.add(name, {metric: Scored(current.metrics[metric].values[name]) for metric in METRICS})
    asked = early.prefix
    part = replace(
        current,
        samples={name: current.samples[name] for name in asked},
        metrics={
            metric: replace(scores, values={name: scores.values[name] for name in asked})
            for metric, scores in current.metrics.items()
        },
        manifest=MANIFEST.model_copy(update={"drawn": drawn}),
    )
    found = decide_gate(part, before, policy)
    drop = next(check for check in found.checks if check.name == "faithfulness.drop")
    truth = float((now - latest.mean(axis=0))[:, 0].mean())
    return Outcome(
        len(asked) / n, found.status, decide_gate(current, before, policy).status, (drop.estimate or 0.0) - truth
    )


def cells() -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """Name, history, loss."""
    yield "healthy", "right", None
    yield "healthy, history of other questions", "shuffled", None
    yield "healthy, only a baseline", "none", None
    for points in (0.03, 0.05, 0.1):
        yield f"-{100 * points:.0f} points in one metric", "right", {"points": points, "dead": False, "metrics": 1}
    for points in (0.03, 0.05, 0.1):
        yield f"-{100 * points:.0f} points in all four", "right", {"points": points, "dead": False, "metrics": 4}
    yield "-10 in one, of questions that never moved", "right", {"points": 0.1, "dead": True, "metrics": 1}
    yield "-10 in one, hostile history", "hostile", {"points": 0.1, "dead": True, "metrics": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="*", default=[80, 200, 500])
    parser.add_argument("--history", type=int, nargs="*", default=[10, 30])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--cells", type=int, nargs="*", default=None)
    parser.add_argument("--drops-only", action="store_true", help="no floors")
    given = parser.parse_args()
    policy = default_policy()
    if given.drops_only:
        policy = policy_from_mapping({"metrics": {name: {"max_drop": 0.02} for name in METRICS}})
    heads = ("n", "history", "runs of", "asked, p50", "p90", "at most .4", "same verdict", "red, stopped / whole")
    print(f"| {' | '.join((*heads, 'not red of these'))} |\n|{' --- |' * 9}")
    for n in given.n:
        for history in given.history:
            for number, (name, how, lost) in enumerate(cells()):
                if given.cells is not None and number not in given.cells:
                    continue
                rng = np.random.Generator(np.random.PCG64((n, history, number)))
                found = [run_once(rng, n, history, how, lost, policy) for _ in range(given.runs)]
                shares = np.array([one.share for one in found])
                whole = [one.whole is Status.FAIL for one in found]
                red = [one.stopped is Status.FAIL for one in found]
                missed = [one.stopped is not Status.FAIL for one in found if one.whole is Status.FAIL]
                print(
                    f"| {n} | {history} | {name} | {np.median(shares):.2f} | {np.quantile(shares, 0.9):.2f} "
                    f"| {np.mean(shares <= 0.4):.2f} | {np.mean([one.stopped is one.whole for one in found]):.3f} "
                    f"| {np.mean(red):.3f} / {np.mean(whole):.3f} | {sum(missed)} of {len(missed)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
