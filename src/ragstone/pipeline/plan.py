"""How many golden samples are needed to detect a drop, and which drop a golden set can detect."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.comparability import pair_runs, with_ids_of
from ragstone.gate.policy import Policy
from ragstone.gate.resolution import Spread, expected_rules, spread_of, visible_loss, watched_drops
from ragstone.gate.rules import Rule
from ragstone.gate.stability import variance_of, variance_words
from ragstone.gate.verdict import Action
from ragstone.report.templates import render_text_template

MAX_SAMPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class PlannedMetric:
    """One row of the plan.

    `needed` samples detect the drop if `max_drop` is allowed, `needed_strict` if no drop is allowed; None: no golden
    set does (the drop is within the allowed drop). `detectable` is the drop that the `n` samples of the run detect;
    None without a run, or if they detect none. `key` is the policy's key for what is allowed: `max_rise` where less is
    better. `blocks` is False if the rule only warns. `variance` names the sources of the variance of a score, and
    `by_answers` are the samples needed if the system is asked so many times, both if the run has several answers.
    """

    metric: str
    sd: float
    source: str
    max_drop: float
    needed: int | None
    needed_strict: int | None
    n: int
    detectable: float | None
    key: str = "max_drop"
    variance: str = ""
    by_answers: tuple[tuple[int, int | None], ...] = ()
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What is needed to detect `drop` with probability `power`, if `tests` blocking checks share `alpha`.

    `targets` are the metrics with a target, which is no test and so needs no samples.
    """

    drop: float
    power: float
    alpha: float
    tests: int
    metrics: tuple[PlannedMetric, ...]
    targets: tuple[str, ...] = ()

    @property
    def needed(self) -> int | None:
        """Number of samples that detect the drop in every metric (that blocks, if any does); None if one never does."""
        each = [row.needed for row in [row for row in self.metrics if row.blocks] or self.metrics]
        return None if not each or any(one is None for one in each) else max(one for one in each if one is not None)


def plan(
    policy: Policy,
    *,
    drop: float,
    power: float = 0.8,
    run: RunScores | None = None,
    baseline: RunScores | None = None,
    offline: bool = False,
    samples: int = 0,
) -> SamplePlan:
    """Plan the size of a golden set.

    With `run` and `baseline`, the variance comes from their paired differences; with `run` alone, from its scores,
    assuming that a share TYPICAL_CHANGED is regenerated; without a run, from TYPICAL_SD. Without a run, `offline` says
    that the offline judge will score it, and `samples` is the size of the golden set, if known.
    Raises ConfigError for numbers out of range, or if the policy checks nothing that the run measured.
    """
    if not 0.0 < drop <= 1.0 or not 0.0 < power < 1.0:
        raise ConfigError(
            f"need 0 < drop <= 1 and 0 < power < 1, got {drop:g} and {power:g}.",
            hint="Three points are --drop 0.03.",
        )
    policy.require_known_metrics(() if run is None else run.metrics)
    rules = expected_rules(policy, run, offline=offline)
    tests = max(1, sum(_blocking(rule) for rule in rules))
    visible = partial(visible_loss, policy=policy, metrics=len(watched_drops(rules)), power=power)
    if run is not None and baseline is not None:
        baseline, _ = with_ids_of(run, baseline)
    pairing = None if run is None or baseline is None else pair_runs(run, baseline)
    rows = []
    for rule in rules:
        if rule.max_drop is None or rule.slice is not None:
            continue
        spread = spread_of(rule.metric, run, pairing)
        if spread is not None:
            spread = spread if run is not None else replace(spread, n=samples)
            planned = partial(_row, rule, drop=drop, visible=visible)
            rows.append(planned(spread) if run is None else _with_answers(planned, rule.metric, run, spread))
    if not rows:
        raise ConfigError(
            "the policy has no allowed drop for any metric of this run, so there is nothing to plan for.",
            hint="Set max_drop under [metrics.NAME] in thresholds.toml.",
        )
    targets = tuple(rule.title for rule in rules if rule.target is not None)
    return SamplePlan(drop, power, policy.alpha, tests, tuple(rows), targets)


def _blocking(rule: Rule) -> int:
    floor = rule.min is not None and rule.floor_action is Action.BLOCK
    return int(floor) + int(rule.max_drop is not None and rule.drop_action is Action.BLOCK)


def _row(rule: Rule, spread: Spread, drop: float, visible: Callable[..., float | None]) -> PlannedMetric:
    allowed = rule.max_drop or 0.0

    def needed(allowed: float) -> int | None:
        """The smallest number of samples that show a loss of `drop`; more samples never show less."""

        def enough(n: int) -> bool:
            shown = visible(spread, n, allowed=allowed)
            return shown is not None and shown <= drop

        if drop <= allowed or not enough(MAX_SAMPLES):
            return None
        return bisect_left(range(MAX_SAMPLES), True, key=enough)

    return PlannedMetric(
        rule.metric,
        spread.sd,
        spread.source,
        allowed,
        needed(allowed),
        needed(0.0),
        spread.n,
        visible(spread, spread.n, allowed=allowed),
        rule.direction.change_key,
        blocks=rule.drop_action is Action.BLOCK,
    )


ASKED = (1, 3, 5)
"""The numbers of answers for which a plan says how many samples are needed."""


def _with_answers(
    planned: Callable[[Spread], PlannedMetric], metric: str, run: RunScores, spread: Spread
) -> PlannedMetric:
    """The row of `metric`; if the run has several answers, with the sources of variance, and the need for other numbers
    of answers."""
    row, each = planned(spread), answers_per_sample(run)
    parts = variance_of(run.metrics[metric]) if each > 1 else None
    if parts is None:
        return row
    needed = tuple((k, planned(replace(spread, sd=spread.sd * math.sqrt(each / k))).needed) for k in ASKED)
    return replace(row, variance=variance_words(parts), by_answers=needed)


DROPS = (0.05, 0.1, 0.2, 0.3, 0.5)
"""The drops that are planned for if none is asked for."""

_CLEAR = 0.025
"""By how much a drop must exceed what the policy allows to be one of them."""


def usual_drops(policy: Policy) -> tuple[float, ...]:
    """The three smallest `DROPS` that clearly exceed what `policy` allows; else the largest."""
    allowed = [rule.max_drop or rule.max_rise or 0.0 for rule in policy.metrics.values()]
    beyond = [drop for drop in DROPS if drop >= max(allowed, default=0.0) + _CLEAR]
    return tuple(beyond[:3]) or DROPS[-1:]


def plan_text(found: SamplePlan, *larger: SamplePlan) -> str:
    """The plan as lines of text, with those for `larger` drops."""
    plans, size = (found, *larger), max((row.n for row in found.metrics), default=0)
    nearest = next((one for one in reversed(plans) if one.needed is not None and one.needed > size > 0), None)
    values = {"found": found, "plans": plans, "size": size, "nearest": nearest}
    return render_text_template("plan.txt.j2", "ragstone.pipeline", **values)
