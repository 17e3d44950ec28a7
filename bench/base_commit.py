"""A baseline from last night against a base commit that is asked in the same job, when the provider changes in between.

    python bench/base_commit.py              # the figures in docs/github-action.md and bench/README.md
    python bench/base_commit.py --runs 100   # a quick look

**Verdicts.** Scores are those of `score_families.py`. The base is asked last night and again in the job, the change in
the job. While the provider is worse, a share of all answers is bad, whoever asks; a true drop makes a share of the
change's new answers bad. Counted are runs in which a drop check fails (four metrics, `max_drop` 0.02, the gate's own
correction).

**Distance.** The engine evaluates two systems with random answer times side by side: how far apart in time the same
question is asked of both.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from gate_error_rates import drops_shown
from numpy.typing import NDArray
from score_families import BAD, FAMILIES, Family

from ragstone.evaluation.engine import Work, run_samples
from ragstone.evaluation.rounds.base_commit import Pace
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context, Response

Floats = NDArray[np.float64]

ALPHA = 0.05
MAX_DROP = 0.02
NAMES = ("rag", "rag, noise .05", "all anew")


@dataclass(frozen=True, slots=True)
class Case:
    """`then` and `now`: by how much all answers are worse last night and in the job.

    `begins`: the moment of the job (0 to 1) from which on they are, None for a random one. `drop`: by how much the
    change is worse.
    """

    words: str
    then: float = 0.0
    now: float = 0.0
    begins: float | None = 0.0
    drop: float = 0.0


CASES = (
    Case("nothing happens"),
    Case("the provider is 10 points worse than last night", now=0.1),
    Case("it gets 10 points worse during the job", now=0.1, begins=None),
    Case("a true drop of 10 points", drop=0.1),
    Case("a true drop of 10, and the provider is 10 worse", now=0.1, drop=0.1),
    Case("a true drop of 10, and the provider was 10 worse", then=0.1, drop=0.1),
)
BASELINES = ("last night", "same job, one after the other", "same job, in turns")


def drop_fails(before: Floats, now: Floats) -> bool:
    """Whether a drop check of the gate fails on scores (n, 4)."""
    return bool(np.any(drops_shown(before, now, None, MAX_DROP)))


def failed_runs(family: Family, case: Case, rng: np.random.Generator, runs: int, n: int) -> dict[str, float]:
    """The share of runs that fail, by baseline."""
    found = [[drop_fails(before, now) for before, now in pairs] for pairs in _simulated(family, case, rng, runs, n)]
    return dict(zip(BASELINES, np.mean(found, axis=0), strict=True))


def _simulated(
    family: Family, case: Case, rng: np.random.Generator, runs: int, n: int
) -> Iterator[Sequence[tuple[Floats, Floats]]]:
    """Scores (n, 4) before and now, for each of BASELINES."""
    nobody, all_of_them = np.zeros((1, n), dtype=bool), np.ones((1, n), dtype=bool)
    mean = float(np.mean([metric.a / (metric.a + metric.b) for metric in family.metrics]))
    place = np.arange(n) / n
    for _ in range(runs):
        skill = np.stack([rng.beta(metric.a, metric.b, size=(1, n)) for metric in family.metrics], axis=2)
        begins = rng.random() if case.begins is None else case.begins
        new = rng.random((1, n)) < family.renewed
        broken = new & (rng.random((1, n)) < family._share_bad(case.drop))
        base = family._answers(rng, skill, nobody)
        change = np.where(new[..., None], family._answers(rng, skill, broken), base)

        def asked(answers: Floats, worse: float, time: Floats, skill: Floats = skill, begins: float = begins) -> Floats:
            """The answers that are given at these times of the job, when all are worse from a moment on."""
            hit = (rng.random((1, n)) < worse / (mean * (1.0 - BAD))) & (time >= begins)
            bad = family._answers(rng, skill, all_of_them)
            return np.asarray(family._judged(rng, np.where(hit[..., None], bad, answers))[0])

        last_night = asked(base, case.then, place, begins=0.0)
        head = asked(change, case.now, place)
        yield (
            (last_night, head),
            (asked(base, case.now, place / 2), asked(change, case.now, 0.5 + place / 2)),
            (asked(base, case.now, place), head),
        )


# -- distance ----------------------------------------------------------------------------------------------------------


class _Timed:
    """Answers after a random time, and notes when it was asked."""

    entrypoint = "python:bench:answer"
    can_be_asked_again = True

    def __init__(self, rng: random.Random, median_s: float, concurrency: int) -> None:
        self.concurrency = concurrency
        self.asked: dict[str, float] = {}
        self._rng = rng
        self._median_s = median_s

    async def start(self) -> None:
        return None

    async def ask(self, sample: Sample) -> Response:
        self.asked[sample.id] = asyncio.get_running_loop().time()
        await asyncio.sleep(self._median_s * self._rng.lognormvariate(0.0, 0.6))
        return Response(sample.id, "It is so.", (Context("It is so."),))

    async def close(self) -> None:
        return None


async def distances(n: int, medians_s: Sequence[float], concurrency: int, seed: int) -> tuple[list[float], float]:
    """Seconds between the two times at which each question was asked, and the seconds of the whole."""
    golden = GoldenSet(tuple(Sample(f"q{i}", f"Is it so, number {i}?") for i in range(n)))
    rng = random.Random(seed)
    systems = [_Timed(rng, median_s, concurrency) for median_s in medians_s]
    judge = build_judge(JudgeSettings(), golden_set=golden, cache=None, environ={})
    metrics = select_metrics(("faithfulness",))
    pace = Pace(sample.id for sample in golden)
    started = asyncio.get_running_loop().time()

    async def evaluate(system: object) -> None:
        await system.start()  # type: ignore[attr-defined]
        try:
            await run_samples(Work(golden, system=system, judge=judge, metrics=metrics), lambda _: None)  # type: ignore[arg-type]
        finally:
            await system.close()  # type: ignore[attr-defined]

    async with asyncio.TaskGroup() as group:
        for system in pace.systems(systems[0], systems[1]):
            group.create_task(evaluate(system))
    first, second = (system.asked for system in systems)
    return [abs(first[name] - second[name]) for name in first], asyncio.get_running_loop().time() - started


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[60, 200])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    print(f"| family | samples | case | {' | '.join(BASELINES)} |\n|---|---|---|---|---|---|")
    for family in (family for family in FAMILIES if family.name in NAMES):
        for n in given.sizes:
            for index, case in enumerate(CASES):
                rng = np.random.Generator(np.random.PCG64((given.seed, n, index, *family.name.encode())))
                shares = failed_runs(family, case, rng, given.runs, n)
                cells = " | ".join(f"{share:.3f}" for share in shares.values())
                print(f"| {family.name} | {n} | {case.words} | {cells} |", flush=True)
    print(
        "\n| answer times (median) | concurrency | whole | apart: median | 95 % of questions |\n|---|---|---|---|---|"
    )
    for medians_s, concurrency in (((0.2, 0.2), 4), ((0.2, 0.6), 4), ((0.2, 0.2), 16)):
        apart, whole = asyncio.run(distances(200, medians_s, concurrency, given.seed))
        far = statistics.quantiles(apart, n=20)[-1]
        times = " and ".join(f"{median_s:g} s" for median_s in medians_s)
        print(f"| {times} | {concurrency} | {whole:.1f} s | {statistics.median(apart):.2f} s | {far:.2f} s |")


if __name__ == "__main__":
    main()
