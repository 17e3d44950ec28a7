"""A run that goes as well as it can. What the gate still finds wrong with it is wrong
with the setup."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric, compares_answers
from ragstone.system.response import Response


def perfect_run(
    golden: GoldenSet, metrics: Sequence[Metric], manifest: Manifest, response: Response
) -> RunScores:
    """A finished run in which every metric has its best score on each sample that it
    applies to.

    If `response` has a latency, all latencies are 0; if it has tokens, all answers have
    as many.
    """
    samples = {sample.id: SampleFacts.of(sample) for sample in golden.counted_samples()}
    scores = {
        metric.info.name: _best_scores(metric, golden, manifest.answers)
        for metric in metrics
    }
    latencies_s = {}
    if response.latency_s is not None:
        latencies_s = dict.fromkeys(samples, 0.0)
    usage = {}
    if response.usage is not None:
        usage = dict.fromkeys(samples, response.usage)
    return RunScores(
        label="this run",
        metrics=scores,
        samples=samples,
        manifest=manifest.model_copy(update={"state": "finished"}),
        system=SystemFacts(latencies_s=latencies_s, usage=usage),
    )


def _best_scores(
    metric: Metric, golden: GoldenSet, answers_per_sample: int
) -> MetricScores:
    """The best scores of a metric, where it applies."""
    best = 0.0 if metric.info.lower_is_better else 1.0
    values = {}
    excused = {}
    for sample in golden.counted_samples():
        excuse = metric.why_not_applicable(sample)
        if answers_per_sample == 1 and compares_answers(metric):
            excused[sample.id] = "it compares answers, and each question is asked once"
        elif excuse is not None:
            excused[sample.id] = excuse.reason
        else:
            values[sample.id] = best
    return MetricScores(values, excused, version=metric.info.version)
