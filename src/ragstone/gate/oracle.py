"""Divides what is missing from the best score into retrieval and generation, by an
oracle half of the run.

On the same samples, let m be the mean score of the answers and o that of the answers
from the reference contexts. Then 1 − m is missing, o − m of it is retrieval, since that
much comes with the right contexts, and 1 − o is generation.
"""

from __future__ import annotations

import numpy as np

from ragstone.evaluation.round_facts import OracleFacts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.grouping import group_labels
from ragstone.gate.verdict import Interval, MetricShares, OracleShares
from ragstone.metrics.registry import find_metric
from ragstone.stats.intervals import mean_interval


def oracle_shares(
    normal: RunScores,
    oracle: RunScores | None,
    fact: OracleFacts,
    *,
    confidence: float = 0.95,
) -> OracleShares:
    """The shares of each metric, over the samples with a score in both halves, with
    intervals at `confidence` each.

    `oracle` is None if no sample was asked again. Pure; neither half is changed by the
    other.
    """
    shares: list[MetricShares] = []
    answered = 0
    failed = 0
    same = 0
    if oracle is not None:
        shares = [
            _shares(metric, normal, oracle, confidence)
            for metric in oracle.metrics
            if metric in normal.metrics
        ]
        failed = len(oracle.system.failures)
        answered = len(oracle.samples) - failed
        answers = oracle.system.answers
        same = sum(
            answers.get(sample_id) == answer
            for sample_id, answer in normal.system.answers.items()
        )
    return OracleShares(
        tuple(shares),
        asked=fact.asked,
        answered=answered,
        failed=failed,
        without=fact.without,
        unanswered=fact.unanswered,
        strangers=fact.strangers,
        same=same,
        incomplete=fact.incomplete,
    )


def _shares(
    name: str, normal: RunScores, oracle: RunScores, confidence: float
) -> MetricShares:
    metric = find_metric(name)
    title = name if metric is None else metric.info.title
    values = normal.metrics[name].values
    oracle_values = oracle.metrics[name].values
    scored_in_both = oracle_values.keys() & values.keys() & normal.samples.keys()
    ids = sorted(scored_in_both)
    if not ids:
        return MetricShares(name, title, 0)
    groups = group_labels(normal, ids)
    m = np.array([values[sample_id] for sample_id in ids], dtype=np.float64)
    o = np.array([oracle_values[sample_id] for sample_id in ids], dtype=np.float64)
    missing, retrieval, generation = (
        mean_interval(share, confidence=confidence, bounds=(lowest, 1.0), groups=groups)
        for share, lowest in ((1.0 - m, 0.0), (o - m, -1.0), (1.0 - o, 0.0))
    )
    return MetricShares(
        name,
        title,
        len(ids),
        missing=missing.estimate,
        retrieval=retrieval.estimate,
        generation=generation.estimate,
        missing_interval=Interval.of(missing),
        retrieval_interval=Interval.of(retrieval),
        generation_interval=Interval.of(generation),
    )
