"""A finished run as a line of the history."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from statistics import median

import numpy as np

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.gate.policy import Policy
from ragstone.history.lines import AcceptedPart, MeanPart, RunLine
from ragstone.judge.protocol import JudgeIdentity
from ragstone.stats.intervals import mean_interval

_DIGITS = 5
_TEXT = 500


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
    """The line of `run`, whose `manifest` holds its verdict, if it has one, without
    per-sample scores.

    Slices are those that `policy` has rules for.
    """
    standing = manifest.standing
    latencies = list(run.system.latencies_s.values())
    return RunLine(
        run=fingerprint,
        time=manifest.created_at,  # type: ignore[arg-type]  # pydantic parses it
        commit=_clipped(manifest.system.commit),
        pull_request=pull_request,
        release=release,
        github_run=github_run,
        event=event,
        verdict=manifest.verdict or "none",
        eligible=standing.eligible and manifest.verdict is not None,
        judge=manifest.judge.label()[:_TEXT],
        judge_key=judge_key(manifest.judge),
        golden=manifest.golden.content_hash[:_TEXT],
        system=_clipped(manifest.system.version),
        part=manifest.system.part,
        metrics=dict(_means(run.metrics)),
        versions={
            name: version
            for name, version in manifest.metrics.items()
            if name in run.metrics
        },
        slices=dict(_slices(run, policy)),
        coverage=_coverage(run),
        latency_p50_s=_median(latencies),
        cost_usd=manifest.cost.usd,
        accepted=tuple(
            AcceptedPart(
                id=entry.id[:_TEXT],
                metric=entry.metric,
                slice=entry.slice,
                drop=entry.drop,
            )
            for entry in standing.accepted
        ),
    )


def _clipped(text: str | None) -> str | None:
    return None if text is None else text[:_TEXT]


def judge_key(judge: JudgeIdentity) -> str:
    """16 hexadecimal digits that identify `judge`; scores of judges with different keys
    may not be compared."""
    body = json.dumps(asdict(judge), sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _means(
    metrics: Mapping[str, MetricScores], only: frozenset[str] | None = None
) -> Iterator[tuple[str, MeanPart]]:
    for name, scores in metrics.items():
        values = tuple(
            value
            for sample, value in scores.values.items()
            if only is None or sample in only
        )
        if values:
            yield name, _mean_part(values)


@lru_cache(
    maxsize=32
)  # a job makes the line of its run before the verdict and after it
def _mean_part(values: tuple[float, ...]) -> MeanPart:
    interval = mean_interval(np.array(values))
    low = math.floor(interval.low * 10**_DIGITS)
    high = math.ceil(interval.high * 10**_DIGITS)
    return MeanPart(
        mean=round(interval.estimate, _DIGITS),
        low=low / 10**_DIGITS,
        high=high / 10**_DIGITS,
        n=interval.n,
    )


def _slices(
    run: RunScores, policy: Policy
) -> Iterator[tuple[str, dict[str, MeanPart]]]:
    for tag in policy.slices:
        members = frozenset(
            sample_id for sample_id, facts in run.samples.items() if tag in facts.tags
        )
        means = dict(_means(run.metrics, members))
        if means:
            yield tag, means


def _coverage(run: RunScores) -> float:
    """The lowest coverage of any metric: the share of the samples it applies to that
    have a score."""
    shares = []
    for scores in run.metrics.values():
        applicable = len(scores.values) + len(scores.failed)
        if applicable:
            shares.append(len(scores.values) / applicable)
    return round(min(shares, default=0.0), _DIGITS)


def _median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return round(median(values), 4)
