"""A finished run as a line of the history."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Set
from dataclasses import asdict
from functools import lru_cache
from statistics import median

import numpy as np

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.policy import Policy
from ragstone.history.lines import MeanPart, RunLine
from ragstone.judge.protocol import JudgeIdentity
from ragstone.stats.intervals import mean_interval

_SCORE_DIGITS = 5
_LATENCY_DIGITS = 4


def run_line(
    run: RunScores,
    manifest: Manifest,
    policy: Policy,
    *,
    fingerprint: str,
    pull_request: int | None = None,
    github_run: int | None = None,
    event: str | None = None,
    release: str | None = None,
) -> RunLine:
    """The line of `run`, without per-sample scores, with the verdict in `manifest`, if
    any.

    It has the means of the slices that `policy` has rules for.
    """
    eligibility = manifest.standing
    slices = {}
    for tag in policy.slices:
        members = {name for name, facts in run.samples.items() if tag in facts.tags}
        means = _means(run.metrics, members)
        if means:
            slices[tag] = means
    # The history shows one coverage of a run: that of its worst metric.
    coverages = [
        len(scores.values) / len(scores.applies_to)
        for scores in run.metrics.values()
        if scores.applies_to
    ]
    latencies = run.system.latencies_s.values()
    return RunLine(
        run=fingerprint,
        time=manifest.created_at,  # type: ignore[arg-type]  # pydantic parses it
        commit=manifest.system.commit,
        pull_request=pull_request,
        release=release,
        github_run=github_run,
        event=event,
        verdict=manifest.verdict or "none",
        eligible=eligibility.eligible and manifest.verdict is not None,
        judge=manifest.judge.label(),
        judge_key=judge_key(manifest.judge),
        golden=manifest.golden.content_hash,
        system=manifest.system.version,
        part=manifest.system.part,
        metrics=_means(run.metrics, run.samples.keys()),
        versions={
            name: version
            for name, version in manifest.metrics.items()
            if name in run.metrics
        },
        slices=slices,
        coverage=round(min(coverages, default=0.0), _SCORE_DIGITS),
        latency_p50_s=round(median(latencies), _LATENCY_DIGITS) if latencies else None,
        cost_usd=manifest.cost.usd,
        accepted=eligibility.accepted,
    )


def judge_key(judge: JudgeIdentity) -> str:
    """16 hexadecimal digits that identify `judge`; scores of judges with different keys
    can't be compared."""
    body = json.dumps(asdict(judge), sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _means(
    metrics: Mapping[str, MetricScores], sample_ids: Set[str]
) -> dict[str, MeanPart]:
    """The mean of each metric over these samples; metrics that none of them has a score
    of are left out."""
    means = {}
    for name, scores in metrics.items():
        values = [
            value
            for sample_id, value in scores.values.items()
            if sample_id in sample_ids
        ]
        if values:
            means[name] = _mean_with_interval(tuple(values))
    return means


@lru_cache(maxsize=32)  # a job makes the line of its run before and after the verdict
def _mean_with_interval(values: tuple[float, ...]) -> MeanPart:
    interval = mean_interval(np.array(values))
    scale = 10**_SCORE_DIGITS
    # Rounding must not make the interval narrower.
    return MeanPart(
        mean=round(interval.estimate, _SCORE_DIGITS),
        low=math.floor(interval.low * scale) / scale,
        high=math.ceil(interval.high * scale) / scale,
        n=interval.n,
    )
