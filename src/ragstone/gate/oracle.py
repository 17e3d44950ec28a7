"""Divides what is missing from the best score into retrieval and generation, by an oracle half of the run.

On the same samples, let m be the mean score of the answers and o that of the answers from the reference contexts. Then
1 − m is missing, o − m of it is retrieval, since that much comes with the right contexts, and 1 − o is generation.
"""

from __future__ import annotations

import numpy as np

from ragstone.evaluation.manifest import OracleFact
from ragstone.evaluation.scores import RunScores
from ragstone.gate.grouping import group_labels
from ragstone.gate.verdict import Interval, MetricShares, OracleShares
from ragstone.metrics.registry import find_metric
from ragstone.stats.intervals import Floats, Groups, mean_interval


def oracle_shares(
    normal: RunScores, oracle: RunScores | None, fact: OracleFact, *, confidence: float = 0.95
) -> OracleShares:
    """The shares of each metric, over the samples with a score in both halves, with intervals at `confidence` each.

    `oracle` is None if no sample was asked again. Pure; neither half is changed by the other.
    """
    metrics = {} if oracle is None else oracle.metrics
    failures = {} if oracle is None else oracle.system.failures
    then = {} if oracle is None else oracle.system.answers
    same = sum(then.get(name) == said for name, said in normal.system.answers.items())
    shares = []
    for name, found in metrics.items():
        if name not in normal.metrics:
            continue
        before = normal.metrics[name].values
        ids = sorted(name for name in found.values if name in before and name in normal.samples)
        title = known.info.title if (known := find_metric(name)) is not None else name
        groups = group_labels(normal, ids)
        m = np.array([before[sample_id] for sample_id in ids], dtype=np.float64)
        o = np.array([found.values[sample_id] for sample_id in ids], dtype=np.float64)
        shares.append(_shares(name, title, m, o, groups, confidence))
    return OracleShares(
        tuple(shares),
        asked=fact.asked,
        answered=0 if oracle is None else len(oracle.samples) - len(failures),
        failed=len(failures),
        without=fact.without,
        unanswered=fact.unanswered,
        strangers=fact.strangers,
        same=same,
        incomplete=fact.incomplete,
    )


def _shares(
    metric: str, title: str, normal: Floats, oracle: Floats, groups: Groups | None, confidence: float
) -> MetricShares:
    if not normal.size:
        return MetricShares(metric, title, 0)
    missing = mean_interval(1.0 - normal, confidence=confidence, groups=groups)
    retrieval = mean_interval(oracle - normal, confidence=confidence, bounds=(-1.0, 1.0), groups=groups)
    generation = mean_interval(1.0 - oracle, confidence=confidence, groups=groups)
    estimates = (missing.estimate, retrieval.estimate, generation.estimate)
    intervals = (Interval.of(missing), Interval.of(retrieval), Interval.of(generation))
    return MetricShares(metric, title, int(normal.size), *estimates, *intervals)
