"""The judge's noise: the same recorded answers, judged twice."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ragstone.config import Settings
from ragstone.errors import ConfigError
from ragstone.gate.bounds import group_labels
from ragstone.gate.comparability import is_judged
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.protocol import Judge, Ledger
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import select_metrics
from ragstone.run.directory import RunDirectory
from ragstone.run.engine import run_samples
from ragstone.run.record import SampleRecord
from ragstone.run.scores import RunScores
from ragstone.stats.variance import NoiseFloor, noise_floor
from ragstone.system.response import Response
from ragstone.usecases.run import Surroundings

DEFAULT_LIMIT = 100
"""Answers that are judged twice: enough to know a standard deviation to about a tenth."""


@dataclass(frozen=True, slots=True)
class MetricNoise:
    """What judging twice shows of one metric.

    `found` is of the answers judged; `floor` is the fall of the mean that the judge's noise alone exceeds in 5 of 100
    comparisons of two freshly judged runs of the whole golden set (`n_run` samples). `max_drop` is what the policy
    allows; `too_fine` says that this is less than `floor`.
    """

    metric: str
    found: NoiseFloor
    floor: float
    n_run: int
    max_drop: float | None

    @property
    def too_fine(self) -> bool:
        return self.max_drop is not None and self.max_drop < self.floor


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a judge, by metric. `judged` answers took `ledger`."""

    judge: str
    judged: int
    metrics: tuple[MetricNoise, ...]
    not_measured: Mapping[str, str]
    ledger: Ledger


class Replay:
    """The `System` that gives the answers of a finished run again."""

    concurrency = 4

    def __init__(self, entrypoint: str, responses: Mapping[str, Response]) -> None:
        self.entrypoint = entrypoint
        self._responses = responses

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        return self._responses[sample.id]

    async def close(self) -> None: ...


async def measure_noise(
    run: RunDirectory,
    policy: Policy,
    settings: Settings,
    around: Surroundings,
    *,
    limit: int = DEFAULT_LIMIT,
    judge: Judge | None = None,
) -> Noise:
    """Judge at most `limit` answers of `run`, drawn at random, twice, and compare the two.

    The judge is the one in `settings` (or `judge`, left open); no judgement is taken from a cache. Answers that the
    system failed to give are left out. Raises ConfigError when the run holds nothing to judge.
    """
    metrics = [metric for metric in select_metrics(run.manifest.metrics) if is_judged(metric.info.name)]
    if not metrics:
        raise ConfigError("no judge takes part in the metrics of this run.", where=str(run.path))
    scores = run.scores()
    drawn = _draw(scores, limit, settings.run.seed)
    records = run.find(drawn)
    golden = GoldenSet(tuple(records[sample_id].sample for sample_id in drawn))
    if len(golden) < 2:
        raise ConfigError(
            f"noise needs at least two answers to judge, the run holds {len(golden)}.", where=str(run.path)
        )
    system = Replay(run.manifest.system.entrypoint, {i: record.response for i, record in records.items()})
    judging = judge or build_judge(settings.judge, golden_set=golden, cache=None, environ=around.environ)
    again: list[SampleRecord] = []
    around.progress.start(len(golden))
    try:
        await run_samples(
            golden,
            system=system,
            judge=judging,
            metrics=metrics,
            sink=again.append,
            repeats=2,
            progress=around.progress,
        )
    finally:
        around.progress.finish()
        if judge is None:
            await judging.close()
    return _report(again, metrics, scores, policy, judging.identity.label())


def _draw(scores: RunScores, limit: int, seed: int) -> list[str]:
    answered = sorted(scores.samples.keys() - scores.system.failures.keys())
    if limit < 2:
        raise ConfigError(f"--limit must be at least 2, got {limit}.")
    return sorted(random.Random(seed).sample(answered, min(limit, len(answered))))  # noqa: S311 - fair, not secret


def _report(
    again: Sequence[SampleRecord], metrics: Sequence[Metric], scores: RunScores, policy: Policy, label: str
) -> Noise:
    ledger = Ledger()
    for record in again:
        ledger.add(record.ledger)
    allowed = {rule.metric: rule.max_drop for rule in resolve_rules(policy, scores).rules if rule.slice is None}
    rows, missing = [], {}
    for metric in metrics:
        name = metric.info.name
        pairs = {
            record.sample.id: values
            for record in sorted(again, key=lambda one: one.sample.id)
            if len(values := record.repeat_scores.get(name, ())) == 2
        }
        if len(pairs) < 2:
            missing[name] = f"only {len(pairs)} answers were scored twice"
            continue
        rows.append(_row(name, pairs, scores, allowed.get(name)))
    return Noise(label, len(again), tuple(rows), missing, ledger)


def _row(name: str, pairs: Mapping[str, tuple[float, ...]], scores: RunScores, max_drop: float | None) -> MetricNoise:
    first, second = np.array(list(pairs.values()), dtype=np.float64).T
    groups = group_labels(scores, {sample_id: index for index, sample_id in enumerate(pairs)})
    found = noise_floor(first, second, groups=groups)
    n_run = max(len(scores.metrics[name].values), len(pairs))
    floor = float(ndtri(1.0 - found.alpha)) * found.sd * math.sqrt(2.0 / n_run)
    return MetricNoise(name, found, floor, n_run, max_drop)


def noise_lines(noise: Noise) -> Iterator[str]:
    """The report as a few sentences for a reader."""
    yield f"{noise.judge}, {noise.judged} answers judged twice, {_cost(noise.ledger)}:"
    for row in noise.metrics:
        found = row.found
        if found.changed == 0.0:
            yield f"  {row.metric}: no score changed on {found.n} answers"
            continue
        trust = "" if found.reliability is None else f", {found.reliability:.0%} of the variance is not noise"
        yield (
            f"  {row.metric}: {found.changed:.0%} of {found.n} scores changed, sd {found.sd:.3f}{trust}; on "
            f"{row.n_run:,} samples noise alone moves the mean by more than {row.floor:.3f} in 5 of 100 comparisons"
        )
    for row in noise.metrics:
        if row.too_fine:
            yield (
                f"  warning: max_drop = {row.max_drop:g} of {row.metric} is below this noise; allow more, judge each "
                "answer more than once (--repeats), or take more samples"
            )
    for name, why in noise.not_measured.items():
        yield f"  {name}: not measured, {why}"


def _cost(ledger: Ledger) -> str:
    if not ledger.calls:
        return "no paid call"
    return f"{ledger.calls} calls" + ("" if ledger.cost_usd is None else f", ${ledger.cost_usd:.4f}")
