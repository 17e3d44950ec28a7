"""How often the gate fails a change: healthy changes and losses of several kinds, with scores of two kinds.

    python bench/losses.py --runs 100 --n 80
    python bench/losses.py --renewed 0 --n 51   # a system that gives the same answers in every run

Scores are drawn, and decided by the gate as a run is: drops, floors, broken questions, tags, and up to five more
answers to every question (gate/decide.py, gate/confirm.py). There are four metrics with a floor at .75, and ten tags,
each on a tenth of the samples. The metrics share a sample's difficulty. A score is the share of an answer's one to
seven statements that are judged good ("graded", with the difficulty Beta(6, 0.6)), or right or wrong (Beta(12, 0.6));
the judge gets 3 % of the statements wrong; 40 % of the answers are new whenever the system is asked. A loss takes 0.5
from the chance of as many samples as make the mean. The baseline are the scores of the last six runs, or of one.

The last column says how many of the runs that fail for a loss name a metric that lost nothing.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ragstone.evaluation.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.gate.confirm import doubtful_checks, is_settled
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.judge.protocol import JudgeIdentity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
POLICY = policy_from_mapping({"metrics": {name: {"min": 0.75, "max_drop": 0.02} for name in METRICS}})
TAGS, RUNS = 10, 6
RENEWED, MISJUDGED, FALL = 0.4, 0.03, 0.5


@dataclass(frozen=True)
class Scores:
    """A kind of scores: the largest number of statements of an answer, and Beta's first parameter of its difficulty."""

    statements: int
    ease: float


SCORES = {"right or wrong": Scores(1, 12.0), "graded": Scores(7, 6.0)}
"""With right or wrong alone, a system like the graded one would have a quarter of its answers broken, which the gate
doubts whatever changes."""


@dataclass(frozen=True)
class Answers:
    """One run: the scores (n, metrics), and a number (n,) for each text."""

    scores: Floats
    texts: Ints


class System:
    """A system under test and its judge: `ask` gives the answers of one run, `change` changes it."""

    def __init__(
        self, n: int, rng: np.random.Generator, renewed: float = RENEWED, kind: Scores = SCORES["graded"]
    ) -> None:
        self.n, self.rng, self.renewed, self._kind = n, rng, renewed, kind
        self.chance = np.repeat(self._difficulty(n)[:, None], len(METRICS), axis=1)
        self.scores = self._answers()
        self._texts = np.arange(n)

    def ask(self) -> Answers:
        """A run: a share of the answers is new, the others are as they were."""
        self.renew(self.rng.random(self.n) < self.renewed)
        return Answers(self.scores.copy(), self._texts.copy())

    def change(self, kind: Kind, tagged: Ints | None = None) -> None:
        """Change the system; `tagged` are the samples with the first tag."""
        self.lose(kind.mean, kind.metrics, tagged if kind.tagged else None)
        self.spoil(kind.spoiled)
        self.reshuffle(kind.reshuffled)

    def lose(self, mean: float, metrics: Sequence[int], among: Ints | None = None) -> None:
        """Take as much from some samples (of `among`) as lowers the mean score by `mean`."""
        pool = np.arange(self.n) if among is None else among
        hit = self.rng.choice(pool, min(len(pool), round(mean * self.n / FALL)), replace=False)
        self.chance[np.ix_(hit, np.array(metrics))] -= FALL
        self.renew(np.isin(np.arange(self.n), hit))

    def spoil(self, count: int) -> None:
        """Make the answers to `count` samples wrong in the first metric, whose score there is 1."""
        hit = np.flatnonzero(self.scores[:, 0] == 1.0)[:count]
        self.chance[hit, 0] = self.scores[hit, 0] = 0.0

    def reshuffle(self, share: float) -> None:
        """Give a share of the samples another difficulty: some get better, some worse, none on average."""
        hit = self.rng.choice(self.n, round(share * self.n), replace=False)
        self.chance[hit] = self._difficulty(len(hit))[:, None]
        self.renew(np.isin(np.arange(self.n), hit))

    def renew(self, which: NDArray[np.bool_]) -> None:
        """Answer `which` of the samples anew."""
        self.scores = np.where(which[:, None], self._answers(), self.scores)
        self._texts = np.where(which, self._texts + self.n, self._texts)

    def _difficulty(self, n: int) -> Floats:
        return self.rng.beta(self._kind.ease, 0.6, size=n)

    def _answers(self) -> Floats:
        statements = self.rng.integers(1, self._kind.statements, size=(self.n, 1), endpoint=True)
        chance = np.clip(self.chance, 0.0, 1.0)
        judged = chance * (1.0 - MISJUDGED) + (1.0 - chance) * MISJUDGED
        return np.asarray(self.rng.binomial(statements, judged) / statements, dtype=np.float64)


@dataclass(frozen=True)
class Kind:
    """A change: its name, and what it does.

    It takes `mean` from `metrics` (`tagged`: from samples with the first tag alone), makes `spoiled` right answers
    wrong in one metric, and gives a share `reshuffled` another difficulty.
    """

    name: str
    mean: float = 0.0
    metrics: tuple[int, ...] = (0,)
    tagged: bool = False
    spoiled: int = 0
    reshuffled: float = 0.0


EVERY = tuple(range(len(METRICS)))
KINDS = (
    Kind("none"),
    Kind("20 % reshuffled", reshuffled=0.2),
    Kind("50 % reshuffled", reshuffled=0.5),
    Kind("one metric −5", 0.05),
    Kind("one metric −10", 0.10),
    Kind("all four −5", 0.05, EVERY),
    Kind("a tag on 10 % −50, one metric", 0.05, tagged=True),
    Kind("6 right answers wrong, none better, one metric", spoiled=6),
    Kind("one metric −20", 0.20),
    Kind("all four −20", 0.20, EVERY),
)


def decide(kind: Kind, n: int, runs: int, renewed: float, scores: str, seed: Sequence[int]) -> GateVerdict:
    """The verdict on one change."""
    rng = np.random.default_rng(seed)
    system = System(n, rng, renewed, SCORES[scores])
    tags = [np.sort(rng.choice(n, n // TAGS, replace=False)) for _ in range(TAGS)]
    for _ in range(10):
        system.ask()
    then = [system.ask() for _ in range(runs)]
    system.change(kind, tags[0])
    return verdict(system.ask, level_of(then, METRICS, tags), METRICS, tags)


def verdict(
    ask: Callable[[], Answers],
    level: RunScores,
    metrics: Sequence[str],
    tags: Sequence[Ints] = (),
    policy: Policy = POLICY,
) -> GateVerdict:
    """The verdict on what `ask` gives for each run, beside `level`."""
    return confirmed(ask, lambda run: decide_gate(run, level, policy), metrics, tags, policy)[1]


def confirmed(
    ask: Callable[[], Answers],
    decide_run: Callable[[RunScores], GateVerdict],
    metrics: Sequence[str],
    tags: Sequence[Ints] = (),
    policy: Policy = POLICY,
) -> tuple[RunScores, GateVerdict]:
    """The run with all answers, and the verdict on it: asked again as the gate does."""
    asked = [ask()]
    run = run_of(asked, metrics, tags)
    decided = decide_run(run)
    for _ in range(policy.gate.confirm_repeats):
        all_alike = len(asked) > 1 and all(np.array_equal(answers.texts, asked[0].texts) for answers in asked)
        if all_alike or not doubtful_checks(decided, policy.alpha) or is_settled(decided, policy.alpha):
            break
        asked.append(ask())
        run = run_of(asked, metrics, tags)
        decided = decide_run(run)
    return run, decided


def level_of(runs: Sequence[Answers], metrics: Sequence[str], tags: Sequence[Ints] = ()) -> RunScores:
    """The level of several runs with one answer to each question."""
    level = run_of(runs, metrics, tags)
    return replace(level, system=SystemFacts(answers=_texts(runs[-1:])), manifest=_manifest(1))


def run_of(asked: Sequence[Answers], metrics: Sequence[str], tags: Sequence[Ints] = ()) -> RunScores:
    """A run in which the system was asked each question as often as there are `asked`."""
    scores = np.stack([answers.scores for answers in asked], axis=2)
    names = [f"q{number}" for number in range(len(scores))]
    tags_of: list[tuple[str, ...]] = [() for _ in names]
    for number, tag in enumerate(tags):
        for sample in tag:
            tags_of[sample] += (f"tag {number}",)
    by_metric = {}
    for place, metric in enumerate(metrics):
        table = scores[:, place].tolist()
        by_metric[metric] = MetricScores(
            values={name: float(np.mean(row)) for name, row in zip(names, table, strict=True)},
            answers={name: tuple(row) for name, row in zip(names, table, strict=True)} if len(asked) > 1 else {},
            version="1",
        )
    return RunScores(
        label="run",
        metrics=by_metric,
        samples={name: SampleFacts(content_hash=name, tags=tags) for name, tags in zip(names, tags_of, strict=True)},
        system=SystemFacts(answers=_texts(asked)),
        manifest=_manifest(len(asked)),
        rounds=RoundFacts(confirm=ConfirmFacts(asked_again=len(asked) > 1)),
    )


def _texts(asked: Sequence[Answers]) -> dict[str, tuple[str, ...]]:
    table = np.stack([answers.texts for answers in asked], axis=1).tolist()
    return {f"q{number}": tuple(map(str, texts)) for number, texts in enumerate(table)}


def _manifest(answers: int) -> Manifest:
    return Manifest(
        ragstone_version="1",
        state="finished",
        created_at="2026-01-01T00:00:00Z",
        golden=GoldenManifest(files=("golden.jsonl",), content_hash="0", samples=1),
        judge=JudgeIdentity(provider="openai", model="judge", version="1"),
        system=SystemManifest(entrypoint="app:answer"),
        metrics=dict.fromkeys(METRICS, "1"),
        repeats=1,
        answers=answers,
    )


def names_an_innocent(decided: GateVerdict, kind: Kind) -> bool:
    """Whether a check fails for a metric that lost nothing."""
    lost = {METRICS[index] for index in kind.metrics}
    return any(check.failed and check.metric is not None and check.metric not in lost for check in decided.checks)


def row(kind: Kind, n: int, runs: int, renewed: float, scores: str, draws: int) -> str:
    """One row of a table."""
    decided = [decide(kind, n, runs, renewed, scores, (seed, n, KINDS.index(kind))) for seed in range(draws)]
    statuses = [verdict.status for verdict in decided]
    shares = [f"{statuses.count(status) / draws:.3f}" for status in (Status.FAIL, Status.INCONCLUSIVE, Status.PASS)]
    reds = [verdict for verdict in decided if verdict.status is Status.FAIL]
    innocents = sum(names_an_innocent(verdict, kind) for verdict in reds)
    is_loss = kind.mean > 0.0 or kind.spoiled > 0
    shares.append(f"{innocents} of {len(reds)}" if is_loss else "")
    return f"| {n} | {scores} | {kind.name} | {' | '.join(shares)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="changes a row")
    parser.add_argument("--n", type=int, nargs="+", default=[80, 200])
    parser.add_argument("--history", type=int, nargs="+", default=[RUNS, 1], help="runs that the baseline is made of")
    parser.add_argument("--renewed", type=float, default=RENEWED, help="share of the answers that are new in a run")
    parser.add_argument("--scores", nargs="+", choices=tuple(SCORES), default=["graded"])
    parser.add_argument("--kinds", type=int, nargs="+", default=range(len(KINDS)), help="rows, counted from 0")
    options = parser.parse_args()
    # Right answers that are never new stay wrong for sure.
    kinds = [KINDS[index] for index in options.kinds if options.renewed > 0.0 or not KINDS[index].spoiled]
    with ProcessPoolExecutor() as pool:
        for runs in options.history:
            print(f"\nruns before: {runs}, changes a row: {options.runs}\n")
            print("| n | scores | change | fail | inconclusive | pass | name an innocent metric |")
            print("| --- | --- | --- | --- | --- | --- | --- |")
            rows = [
                pool.submit(row, kind, n, runs, options.renewed, scores, options.runs)
                for n, scores, kind in itertools.product(options.n, options.scores, kinds)
            ]
            for line in rows:
                print(line.result(), flush=True)


if __name__ == "__main__":
    main()
