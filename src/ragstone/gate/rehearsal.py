"""The gate on a run that went as well as it can: what is still wrong is wrong with the
setup."""

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
    """The scores of a finished run in which every metric has its best score wherever it
    applies to a sample.

    Its answers report the latency and the tokens that `response` does: no time, and the
    tokens of that answer.
    """
    samples = {sample.id: SampleFacts.of(sample) for sample in golden.counted_samples()}
    scores = {
        metric.info.name: _best(metric, golden, manifest.answers) for metric in metrics
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


def _best(metric: Metric, golden: GoldenSet, answers: int) -> MetricScores:
    best = 0.0 if metric.info.lower_is_better else 1.0
    values = {}
    excused = {}
    for sample in golden.counted_samples():
        excuse = metric.why_not_applicable(sample)
        if answers == 1 and compares_answers(metric):
            excused[sample.id] = "it compares answers, and each question is asked once"
        elif excuse is not None:
            excused[sample.id] = excuse.reason
        else:
            values[sample.id] = best
    return MetricScores(values, excused, version=metric.info.version)
