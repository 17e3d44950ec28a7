"""`ragstone noise`: how much scores vary when nothing changed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
from scipy.special import ndtri

from ragstone.commands.context import run_context, run_to_end
from ragstone.commands.options import CONFIG, FORMAT, PATH, option, setting, settings_from
from ragstone.commands.output import show
from ragstone.errors import ConfigError
from ragstone.gate.comparability import is_judged, pair_runs
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.gate.stability import variance_of, variance_words
from ragstone.golden.sample import GoldenSet
from ragstone.judge.protocol import Judge, Ledger
from ragstone.metrics.metric import Metric, compares_answers
from ragstone.metrics.registry import find_metric, lower_is_better
from ragstone.metrics.score import Scored
from ragstone.project.gate import read_policy
from ragstone.project.plan import project_metrics
from ragstone.report.templates import render_text_template
from ragstone.rounds.context import RunContext
from ragstone.rounds.project_metrics import ProjectMetrics
from ragstone.rounds.sources import JudgeSource
from ragstone.run.directory import RunDirectory
from ragstone.run.engine import Work, run_samples
from ragstone.run.record import SampleRecord
from ragstone.run.scores import MetricScores, RunScores
from ragstone.run.stored import StoredAnswers
from ragstone.stats.variance import NoiseFloor, VarianceComponents, noise_floor

DEFAULT_LIMIT = 100
"""Number of answers to judge twice: enough to estimate a standard deviation to about a tenth."""

Readings = Mapping[str, tuple[tuple[float, ...], ...]]
"""The scores of all judging rounds of each answer, by sample id."""


@dataclass(frozen=True, slots=True)
class MetricNoise:
    """The noise of one metric.

    `found` covers the judged answers; `floor` is the drop in the mean that the judge's noise alone exceeds in 5 of 100
    comparisons of two freshly judged runs of the whole golden set (`n_run` samples). `parts` splits the variance of a
    score into samples, system (with a second run or several answers) and judge. `max_drop` is the policy's allowed
    drop; `too_fine` says that it is less than `floor`.
    """

    metric: str
    found: NoiseFloor
    parts: VarianceComponents
    floor: float
    n_run: int
    max_drop: float | None

    @property
    def too_fine(self) -> bool:
        return self.max_drop is not None and self.max_drop < self.floor


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a judge, by metric. `ledger` is the cost of `judged` answers; both are 0 for recorded repeats.

    `asked_again`: every answer was judged once, so the noise is that of asking the system again and judging its answer.
    """

    judge: str
    judged: int
    metrics: tuple[MetricNoise, ...]
    not_measured: Mapping[str, str]
    ledger: Ledger
    asked_again: bool = False

    def json(self) -> dict[str, object]:
        return {**asdict(self), "metrics": [{**asdict(row), "too_fine": row.too_fine} for row in self.metrics]}

    def text(self) -> str:
        rising = {row.metric for row in self.metrics if lower_is_better(row.metric)}
        values = {"noise": self, "rising": rising, "variance_words": variance_words}
        return render_text_template("noise.txt.j2", __package__, **values)


async def measure_noise(
    run: RunDirectory,
    policy: Policy,
    project: ProjectMetrics,
    judging: JudgeSource,
    context: RunContext,
    *,
    seed: int = 0,
    again: RunDirectory | None = None,
    limit: int = DEFAULT_LIMIT,
    judge: Judge | None = None,
) -> Noise:
    """Judge at most `limit` answers of `run`, drawn at random, twice, and compare the two.

    `again` is a second run of the same version of the system: its answers to the same samples are judged too, to
    measure how much the system itself varies. The judge is what `judging` builds (or `judge`, which is not closed); the
    cache is not used. Samples that the system failed to answer are left out. Raises ConfigError if the runs have
    nothing to judge.
    """
    metrics = _judged_metrics(run, project)
    scores = run.scores()
    drawn = _draw(run, scores, again, limit, seed)
    sides = [StoredAnswers.of(side) for side in (run, again) if side is not None]
    samples = {sample.id: sample for sample in sides[0].golden}
    golden = GoldenSet(tuple(samples[sample_id] for sample_id in drawn))
    asked = judge or judging.build(golden, None, context)
    measures = project.measures(metrics, context)
    judged: list[list[SampleRecord]] = []
    context.progress.start(len(golden) * len(sides))
    try:
        for side in sides:
            judged.append([])
            await run_samples(
                Work(
                    golden,
                    system=side,
                    judge=asked,
                    metrics=metrics,
                    custom=measures.by_name,
                    repeats=2,
                    progress=context.progress,
                ),
                judged[-1].append,
            )
    finally:
        context.progress.finish()
        for side in sides:
            await side.close()
        if judge is None:
            await asked.close()
    ledger = Ledger()
    for record in (one for side in judged for one in side):
        ledger.add(record.ledger)
    rows, missing = _rows(judged, [metric.info.name for metric in metrics], scores, policy)
    return Noise(asked.identity.label(), sum(map(len, judged)), rows, missing, ledger)


def recorded_noise(run: RunDirectory, policy: Policy, *, again: RunDirectory | None = None) -> Noise:
    """The noise in what the runs recorded (``--repeats 2`` or ``--answers 2``, or more); nothing is judged again.

    If every answer was judged once, the noise is that of several answers. Raises ConfigError for a run with one answer
    to each question, judged once.
    """
    for side in (run, again):
        if side is not None and side.manifest.repeats < 2 and run.manifest.answers < 2:
            raise ConfigError(
                "the answers of this run were judged once.",
                where=str(side.path),
                hint="Evaluate with --repeats 2 or --answers 2, or remove --recorded to judge them again.",
            )
    names = _judged_names(run)
    records = [list(side.records()) for side in (run, again) if side is not None]
    rows, missing = _rows(records, names, run.scores(), policy)
    return Noise(run.manifest.judge.label(), 0, rows, missing, Ledger(), asked_again=run.manifest.repeats < 2)


def _judged_names(run: RunDirectory) -> list[str]:
    names = [
        name
        for name, version in run.manifest.metrics.items()
        if is_judged(name, version) and not compares_answers(find_metric(name))
    ]
    if not names:
        raise ConfigError("no metric of this run uses a judge.", where=str(run.path))
    return names


def _judged_metrics(run: RunDirectory, project: ProjectMetrics) -> tuple[Metric, ...]:
    """The judged metrics of `run`, without rubrics that have changed since."""
    now = {metric.info.name: metric.info.version for metric in project.own()}
    then = run.manifest.metrics
    return project.select(
        names=[name for name in _judged_names(run) if find_metric(name) or now.get(name) == then[name]]
    )


def _draw(run: RunDirectory, scores: RunScores, again: RunDirectory | None, limit: int, seed: int) -> list[str]:
    if limit < 2:
        raise ConfigError(f"--answers must be at least 2, got {limit}.")
    answered = scores.samples.keys() - scores.system.failures.keys()
    if again is not None:
        others = again.scores()
        answered &= set(pair_runs(scores, others).samples) - others.system.failures.keys()
    if len(answered) < 2:
        raise ConfigError(f"noise needs at least two answers to judge, found {len(answered)}.", where=str(run.path))
    return sorted(random.Random(seed).sample(sorted(answered), min(limit, len(answered))))  # noqa: S311 - fair


def _rows(
    judged: Sequence[Sequence[SampleRecord]], names: Sequence[str], scores: RunScores, policy: Policy
) -> tuple[tuple[MetricNoise, ...], dict[str, str]]:
    allowed = {rule.metric: rule.max_drop for rule in resolve_rules(policy, scores).rules if rule.slice is None}
    rows, missing = [], {}
    for name in names:
        readings = _readings(judged, name)
        pairs = _pairs(readings)
        if len(pairs) < 2:
            missing[name] = f"{'only one' if pairs else 'no'} answer was scored twice"
            continue
        first, second = np.array(list(pairs.values()), dtype=np.float64).T
        found = noise_floor(first, second, groups=group_labels(scores, list(pairs)))
        n_run = max(len(scores.metrics[name].values), len(pairs))
        floor = float(ndtri(1.0 - found.alpha)) * found.sd * math.sqrt(2.0 / n_run)
        parts = variance_of(MetricScores({}, readings=readings))
        assert parts is not None  # noqa: S101 - at least two samples have several readings
        rows.append(MetricNoise(name, found, parts, floor, n_run, allowed.get(name)))
    return tuple(rows), missing


def _readings(judged: Sequence[Sequence[SampleRecord]], name: str) -> Readings:
    found: dict[str, tuple[tuple[float, ...], ...]] = {}
    for record in sorted((one for records in judged for one in records), key=lambda one: one.sample.id):
        for answer in record.answers:
            score = answer.scores.get(name)
            rounds = answer.repeat_scores.get(name) or ((score.value,) if isinstance(score, Scored) else ())
            if rounds:
                found[record.sample.id] = (*found.get(record.sample.id, ()), tuple(rounds))
    return found


def _pairs(readings: Readings) -> dict[str, tuple[float, ...]]:
    """Two scores of each sample: of the same answer, if it was judged twice, else of two answers."""
    twice = {sample_id: answers[0][:2] for sample_id, answers in readings.items() if len(answers[0]) >= 2}
    return twice or {i: (answers[0][0], answers[1][0]) for i, answers in readings.items() if len(answers) > 1}


@click.command(name="noise")
@click.argument("run", type=PATH)
@option("--again", value="RUN", help="A second run of the same version, to measure the system's own variance.")
@option("--recorded", is_flag=True, help="Use recorded repeats (--repeats 2 or more); make no new judgements.")
@setting("judge")
@setting("judge_base_url")
@setting("max_cost_usd")
@option("--answers", type=int, default=100, help="Number of answers to sample.")
@setting("seed")
@setting("thresholds", help="Policy file, to warn about a max_drop below the noise")
@FORMAT
@CONFIG
def command(run: Path, again: Path | None, recorded: bool, answers: int, form: str, **flags: object) -> int:
    """Judge the answers of RUN twice, and report how much the results differ.

    The judgement cache is not used, so a paid judge costs money: about 8 calls per answer for the four headline
    metrics. Reports how much of the variance of a score comes from the samples, the judge and, with --again, the
    system. Warns if a max_drop in the policy is smaller than the noise.
    """
    settings = settings_from(flags)
    policy = read_policy(settings)
    one = RunDirectory.open(run)
    other = None if again is None else RunDirectory.open(again)
    if recorded:
        found = recorded_noise(one, policy, again=other)
    else:
        project, judge = project_metrics(settings), JudgeSource(settings.judge)
        with run_context(settings) as context:
            found = run_to_end(
                measure_noise(one, policy, project, judge, context, seed=settings.run.seed, again=other, limit=answers)
            )
    show(form, found.json, found.text)
    return 0
