"""How many golden samples are needed to detect a drop, and which drop a golden set can
detect."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.policy import Policy
from ragstone.gate.sensitivity import (
    drops_sharing_error_rate,
    expected_rules,
    known_scores,
    loss_rule,
    number_of_tests,
)
from ragstone.gate.verdict import Action
from ragstone.golden.sample import GoldenSize
from ragstone.stats.sensitivity import visible_loss


class PlannedMetric(Struct, frozen=True):
    """One row of the plan: what its golden set must have to detect a drop of a metric.

    The names of the fields are those of `ragstone plan --format json`.
    """

    metric: str
    source: str
    """Which scores the plan is based on, in words."""
    max_drop: float
    """The allowed drop."""
    needed: int | None
    """The number of samples that detect the plan's drop; None if no golden set does,
    because the drop is allowed."""
    n: int
    """The number of samples in the run or in the golden set; 0 if it is unknown."""
    detectable: float | None
    """The drop that `n` samples detect; None if they detect none."""
    key: str = "max_drop"
    """The policy's key for the allowed drop: `max_rise` where less is better."""
    blocks: bool = True
    """Whether a larger drop blocks; otherwise it only warns."""


class SamplePlan(Struct, frozen=True):
    """What is needed to detect `drop` with probability POWER."""

    drop: float
    alpha: float
    """The false-fail rate of all blocking checks together."""
    metrics: tuple[PlannedMetric, ...]

    @property
    def needed(self) -> int | None:
        """The number of samples that detect the drop in every metric that blocks, or in
        every metric if none blocks; None if no number does."""
        rows = [row for row in self.metrics if row.blocks] or self.metrics
        counts = [row.needed for row in rows if row.needed is not None]
        return max(counts) if len(counts) == len(rows) else None


def plan(
    policy: Policy,
    *,
    drop: float,
    run: RunScores | None = None,
    offline: bool = False,
    size: GoldenSize | None = None,
) -> SamplePlan:
    """Plan the size of a golden set, by simulating the test for drops on questions like
    those of `run`.

    Without a run, typical scores are assumed; `offline` then says whether the offline
    judge will score, and `size` is the size of the golden set, if it is known. Raises
    ConfigError for a drop out of range, and if the policy checks nothing that the run
    measured.
    """
    if not 0.0 < drop <= 1.0:
        raise ConfigError(
            f"the drop must be above 0 and at most 1, found {drop:g}.",
            hint="For a drop of 3 points, such as from 0.90 to 0.87, use --drop 0.03.",
        )
    measured: Collection[str] = ()
    if run is not None:
        offline, measured = run.offline, run.metrics
    policy.require_known_metrics(measured)
    rules = expected_rules(policy, run, offline=offline)
    rows = []
    tests = number_of_tests(len(drops_sharing_error_rate(rules)), parts=True)
    for rule in rules:
        if rule.max_drop is None or rule.slice is not None:
            continue
        scores = known_scores(rule, run, size=size)
        if scores is None:
            continue
        loss_test = loss_rule(rule.max_drop, policy, run, tests=tests)
        detectable = None
        if scores.n:
            detectable = visible_loss(scores.model, loss_test)
        rows.append(
            PlannedMetric(
                metric=rule.metric,
                source=scores.source,
                max_drop=rule.max_drop,
                needed=scores.samples_needed(loss_test, drop),
                n=scores.n,
                detectable=detectable,
                key=rule.direction.change_key,
                blocks=rule.drop_action is Action.BLOCK,
            )
        )
    if not rows:
        raise ConfigError(
            "the policy limits no drop of a metric in this run, so there is nothing to plan for.",
            hint="Set max_drop under [metrics.NAME] in thresholds.toml.",
        )
    return SamplePlan(drop, policy.alpha, tuple(rows))
