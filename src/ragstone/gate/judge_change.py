"""A baseline by another judge: which drops it leaves unguarded, and how far the two
judges agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import change, counted, interval_words, score
from ragstone.gate.comparability import outdated
from ragstone.gate.grouping import mean_of
from ragstone.gate.observed_judge import observed_difference
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule
from ragstone.stats.estimate import Estimate

CONFIDENCE = 0.95


def to_rejudge(
    current: RunScores, baseline: RunScores, rules: Sequence[Rule], policy: Policy
) -> dict[str, str]:
    """The metrics with an allowed drop for which the baseline is to be judged again,
    each with the reason."""
    if policy.gate.on_judge_change != "rejudge":
        return {}
    # A model that was replaced behind its name has the same identity, so its judgements
    # can't be told apart.
    moved = observed_difference(current, baseline)
    return {
        name: why
        for name, why in scored_otherwise(current, baseline, rules).items()
        if why != moved
    }


def scored_otherwise(
    current: RunScores, baseline: RunScores, rules: Sequence[Rule]
) -> dict[str, str]:
    """The metrics with an allowed drop that `baseline` scored in another way, each with
    the reason as a clause."""
    drops = {rule.metric for rule in rules if rule.max_drop is not None}
    return {
        name: why for name, why in outdated(current, baseline).items() if name in drops
    }


@dataclass(frozen=True, slots=True)
class JudgesCompared:
    """One metric on the same answers, as two judges score it."""

    metric: str
    n: int
    then: float
    """The mean by the judge of the baseline."""
    now: float
    """The mean by the judge of this run."""
    difference: Estimate
    """Now minus then."""

    def sentence(self) -> str:
        """The comparison for a report."""
        difference = self.difference
        span = interval_words(
            difference.low, difference.high, difference.confidence, change
        )
        return (
            f"{self.metric} on {counted(self.n, 'answer')} of the baseline: {score(self.now)} now and "
            f"{score(self.then)} before (difference {change(difference.estimate)}, {span})."
        )


def compare_judges(
    then: RunScores, now: RunScores, metrics: Sequence[str]
) -> tuple[JudgesCompared, ...]:
    """Compare the scores of the same answers by two judges, on the samples that both
    scored."""
    compared = []
    for metric in metrics:
        values_then = then.scores_of(metric).values
        values_now = now.metrics[metric].values
        ids = sorted(values_then.keys() & values_now.keys())
        if not ids:
            continue
        scores_then = np.array(
            [values_then[sample_id] for sample_id in ids], dtype=np.float64
        )
        scores_now = np.array(
            [values_now[sample_id] for sample_id in ids], dtype=np.float64
        )
        mean_then = float(scores_then.mean())
        mean_now = float(scores_now.mean())
        difference = mean_of(
            now,
            ids,
            scores_now - scores_then,
            confidence=CONFIDENCE,
            bounds=(-1.0, 1.0),
        )
        compared.append(
            JudgesCompared(metric, len(ids), mean_then, mean_now, difference)
        )
    return tuple(compared)
