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
from ragstone.gate.grouping import mean_of
from ragstone.gate.verdict import Interval, MetricShares, OracleShares
from ragstone.metrics.registry import metric_title


def oracle_shares(
    normal: RunScores,
    oracle: RunScores,
    facts: OracleFacts,
    *,
    confidence: float = 0.95,
) -> OracleShares:
    """The shares of each metric, over the samples with a score in both halves, each
    with an interval at `confidence`.

    `oracle` is empty if no sample was asked again. Pure.
    """
    shares = [
        _shares(metric, normal, oracle, confidence)
        for metric in oracle.metrics
        if metric in normal.metrics
    ]
    failed = len(oracle.system.failures)
    answers = oracle.system.answers.items()
    same = len(answers & normal.system.answers.items())
    return OracleShares(
        tuple(shares),
        asked=facts.asked,
        answered=len(oracle.samples) - failed,
        failed=failed,
        without=facts.without,
        unanswered=facts.unanswered,
        strangers=facts.strangers,
        same=same,
        incomplete=facts.incomplete,
    )


def _shares(
    name: str, normal: RunScores, oracle: RunScores, confidence: float
) -> MetricShares:
    """The shares of one metric, over the samples with a score in both halves."""
    title = metric_title(name)
    values = normal.metrics[name].values
    oracle_values = oracle.metrics[name].values
    scored_in_both = oracle_values.keys() & values.keys()
    scored_in_both &= normal.samples.keys()
    ids = sorted(scored_in_both)
    if not ids:
        return MetricShares(name, title, 0)
    scores = [values[sample_id] for sample_id in ids]
    oracle_scores = [oracle_values[sample_id] for sample_id in ids]
    m = np.array(scores, dtype=np.float64)  # as in the docstring of this module
    o = np.array(oracle_scores, dtype=np.float64)
    bounds = (-1.0, 1.0)
    retrieval = mean_of(normal, ids, o - m, confidence=confidence, bounds=bounds)
    generation = mean_of(normal, ids, 1.0 - o, confidence=confidence)
    missing = float(np.mean(1.0 - m))
    return MetricShares(
        name,
        title,
        len(ids),
        missing=missing,
        retrieval=retrieval.estimate,
        generation=generation.estimate,
        retrieval_interval=Interval.of(retrieval),
        generation_interval=Interval.of(generation),
    )
