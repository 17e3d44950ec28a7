"""How many golden samples are needed to detect a drop, and which drop a golden set can
detect."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.policy import Policy
from ragstone.gate.sensitivity import (
    expected_rules,
    known_scores,
    loss_rule,
    number_of_tests,
    watched_drops,
)
from ragstone.gate.verdict import Action
from ragstone.golden.sample import GoldenSize
from ragstone.report.templates import render_text_template
from ragstone.stats.sensitivity import POWER, visible_loss


class PlannedMetric(Struct, frozen=True):
    """One row of the plan.

    `needed` samples detect the plan's drop; None: no golden set does (the drop is
    within the allowed `max_drop`). `detectable` is the drop that the `n` samples of the
    run detect; None if they detect none. `key` is the policy's key for what is allowed:
    `max_rise` where less is better. `blocks` is False if the rule only warns.
    """

    metric: str
    source: str
    max_drop: float
    needed: int | None
    n: int
    detectable: float | None
    key: str = "max_drop"
    blocks: bool = True


class SamplePlan(Struct, frozen=True):
    """What is needed to detect `drop` with probability POWER."""

    drop: float
    alpha: float
    """The false-fail rate of all blocking checks together."""
    metrics: tuple[PlannedMetric, ...]

    @property
    def needed(self) -> int | None:
        """How many samples detect the drop in every metric (that blocks, if any does);
        None if one never does."""
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

    Without a run, typical scores are assumed, `offline` says that the offline judge
    will score it, and `size` is that of the golden set, if known. Raises ConfigError
    for numbers out of range, or if the policy checks nothing that the run measured.
    """
    if not 0.0 < drop <= 1.0:
        raise ConfigError(
            f"need 0 < drop <= 1, got {drop:g}.",
            hint="Three points are --drop 0.03.",
        )
    measured: Collection[str] = ()
    if run is not None:
        offline, measured = run.offline, run.metrics
    policy.require_known_metrics(measured)
    rules = expected_rules(policy, run, offline=offline)
    rows = []
    tests = number_of_tests(len(watched_drops(rules)), parts=True)
    for rule in rules:
        if rule.max_drop is None or rule.slice is not None:
            continue
        scores = known_scores(rule, run, size=size)
        if scores is None:
            continue
        looks = loss_rule(rule.max_drop, policy, run, tests=tests)
        rows.append(
            PlannedMetric(
                rule.metric,
                scores.source,
                rule.max_drop,
                scores.samples_needed(looks, drop),
                scores.n,
                visible_loss(scores.model, looks) if scores.n else None,
                rule.direction.change_key,
                blocks=rule.drop_action is Action.BLOCK,
            )
        )
    if not rows:
        raise ConfigError(
            "the policy has no allowed drop for any metric of this run, so there is nothing to plan for.",
            hint="Set max_drop under [metrics.NAME] in thresholds.toml.",
        )
    return SamplePlan(drop, policy.alpha, tuple(rows))


def plan_text(sample_plan: SamplePlan) -> str:
    """The plan as lines of text."""
    return render_text_template(
        "plan.txt.j2", "ragstone.pipeline", plan=sample_plan, power=POWER
    )
