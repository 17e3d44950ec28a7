"""How many golden samples it takes to see a drop, and which drop a golden set can show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.errors import ConfigError
from ragstone.formatting import counted, percent, score
from ragstone.gate.comparability import pair_runs
from ragstone.gate.policy import Policy
from ragstone.gate.resolution import TYPICAL_CHANGED, Spread, imagined_run, share_of_error, spread_of
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import Action
from ragstone.run.scores import RunScores
from ragstone.stats.family import LOSS
from ragstone.stats.power import detectable_drop, samples_for_drop

MOST_SAMPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class PlannedMetric:
    """One row of the plan.

    `needed` samples see the drop when `max_drop` is allowed, `needed_strict` when no drop is allowed; None: no golden
    set does (the drop lies within what is allowed). `detectable` is the drop that the `n` samples at hand see; None
    without a run, or where they see none.
    """

    metric: str
    sd: float
    source: str
    max_drop: float
    needed: int | None
    needed_strict: int | None
    n: int
    detectable: float | None


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What it takes to see `drop` with chance `power`, when `tests` blocking checks share `alpha`."""

    drop: float
    power: float
    alpha: float
    tests: int
    metrics: tuple[PlannedMetric, ...]

    @property
    def needed(self) -> int | None:
        """Samples that see the drop in every metric; None where one of them never does."""
        each = [row.needed for row in self.metrics]
        return None if not each or any(one is None for one in each) else max(one for one in each if one is not None)


def plan(
    policy: Policy,
    *,
    drop: float,
    power: float = 0.8,
    run: RunScores | None = None,
    baseline: RunScores | None = None,
    sd: float | None = None,
    changed: float = TYPICAL_CHANGED,
) -> SamplePlan:
    """Plan the size of a golden set.

    With `run` and `baseline`, the paired differences of the two tell how scores vary; with `run` alone its scores,
    of which a share `changed` is taken to be drawn anew; without a run `sd` (of one score, else TYPICAL_SD).
    Raises ConfigError for numbers out of range or when the policy checks nothing that the run measured.
    """
    if not 0.0 < drop <= 1.0 or not 0.0 < power < 1.0 or not 0.0 < changed <= 1.0:
        raise ConfigError(
            f"need 0 < drop <= 1, 0 < power < 1 and 0 < changed <= 1, got {drop:g}, {power:g} and {changed:g}.",
            hint="Three points are --drop 0.03.",
        )
    if sd is not None and not 0.0 < sd <= 0.5:
        raise ConfigError(f"the standard deviation of scores in [0, 1] is in (0, 0.5], got {sd:g}.")
    policy.require_known_metrics(() if run is None else run.metrics)
    measured = run if run is not None else imagined_run(policy)
    rules = [rule for rule in resolve_rules(policy, measured).rules if rule.metric in measured.metrics]
    tests = max(1, sum(_blocking(rule) for rule in rules))
    shares = share_of_error(rules)
    pairing = None if run is None or baseline is None else pair_runs(run, baseline)
    rows = []
    for rule in rules:
        if rule.max_drop is None or rule.slice is not None:
            continue
        spread = spread_of(rule.metric, run, baseline, pairing, sd, changed)
        if spread is not None:
            rows.append(_row(rule, spread, drop, power, policy.alpha, shares))
    if not rows:
        raise ConfigError(
            "the policy allows no metric of this run a drop, so there is none to plan for.",
            hint="Set max_drop under [metrics.NAME] in thresholds.toml.",
        )
    return SamplePlan(drop, power, policy.alpha, tests, tuple(rows))


def _blocking(rule: Rule) -> int:
    floor = rule.min is not None and rule.floor_action is Action.BLOCK
    return int(floor) + int(rule.max_drop is not None and rule.drop_action is Action.BLOCK)


def _row(rule: Rule, spread: Spread, drop: float, power: float, alpha: float, tests: float) -> PlannedMetric:
    allowed = rule.max_drop or 0.0
    design = {
        "tests": tests,
        "group_size": spread.group_size,
        "correlation": spread.correlation,
        "allowed": allowed,
        "loss": LOSS,
    }

    def needed(shortfall: float, allowed: float = allowed) -> int | None:
        if shortfall <= 1e-9:
            return None
        count = samples_for_drop(spread.sd, shortfall, power, alpha, **{**design, "allowed": allowed})
        return count if count <= MOST_SAMPLES else None

    detectable = None
    if spread.n:
        shortfall = detectable_drop(spread.sd, spread.n, power, alpha, **design)
        detectable = allowed + shortfall if math.isfinite(shortfall) and allowed + shortfall <= 1.0 else None
    return PlannedMetric(
        rule.metric, spread.sd, spread.source, allowed, needed(drop - allowed), needed(drop, 0.0), spread.n, detectable
    )


def plan_lines(found: SamplePlan) -> Iterator[str]:
    """The plan as a few sentences for a reader."""
    checks = "one blocking check" if found.tests == 1 else f"{found.tests} blocking checks"
    yield (
        f"To see a drop of {found.drop:g} in {percent(found.power)} of the runs, at a false-fail rate of "
        f"{percent(found.alpha)} over {checks}:"
    )
    for row in found.metrics:
        needed = "no number of samples" if row.needed is None else counted(row.needed, "sample")
        strict = (
            "" if row.max_drop == 0.0 or row.needed_strict is None else f" ({row.needed_strict:,} with max_drop = 0)"
        )
        spread = f"sd of a difference {score(row.sd)}, {row.source}"
        yield f"  {row.metric}: {needed} with max_drop = {row.max_drop:g}{strict}; {spread}"
    for row in found.metrics:
        if row.n and row.detectable is not None:
            yield f"  {row.metric}: {row.n:,} samples, as now, see a drop of {score(row.detectable)}"
        elif row.n:
            yield f"  {row.metric}: {row.n:,} samples, as now, see no drop reliably"
    if any(row.needed is None for row in found.metrics):
        yield "A drop within max_drop never fails the gate: allow less, or plan for a larger drop."
