"""How many golden samples it takes to see a drop, and which drop a golden set can show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import ConfigError
from ragstone.gate.comparability import Pairing, pair_runs
from ragstone.gate.figures import counted
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import Action
from ragstone.run.scores import MetricScores, RunScores, SampleFacts
from ragstone.stats.power import detectable_drop, samples_for_drop
from ragstone.stats.variance import variance_components

TYPICAL_SD = 0.25
"""Standard deviation of one score where no run tells: that of scores heaped at 1 with a tail below."""

TYPICAL_CHANGED = 0.4
"""Share of the answers that a change of the system generates anew, where no two runs tell."""

MOST_SAMPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class Spread:
    """How one metric's paired differences vary. `n` pairs are at hand; `source` says where `sd` was taken from."""

    metric: str
    sd: float
    source: str
    n: int
    group_size: float = 1.0
    correlation: float = 0.0


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
class Plan:
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
) -> Plan:
    """Plan the size of a golden set.

    With `run` and `baseline`, the paired differences of the two tell how scores vary; with `run` alone its scores,
    of which a share `changed` is taken to be drawn anew; without a run `sd` (of one score, else TYPICAL_SD).
    Raises ConfigError for numbers out of range or when the policy checks nothing that the run measured.
    """
    if not 0.0 < drop <= 1.0 or not 0.0 < power < 1.0 or not 0.0 < changed <= 1.0:
        raise ConfigError(
            f"need 0 < drop <= 1, 0 < power < 1 and 0 < changed <= 1, got {drop:g}, {power:g} and {changed:g}.",
            mend="Three points are --drop 0.03.",
        )
    if sd is not None and not 0.0 < sd <= 0.5:
        raise ConfigError(f"the standard deviation of scores in [0, 1] is in (0, 0.5], got {sd:g}.")
    policy.require_known_metrics(() if run is None else run.metrics)
    measured = run if run is not None else _imagined(policy)
    rules = [rule for rule in resolve_rules(policy, measured).rules if rule.metric in measured.metrics]
    tests = max(1, sum(_blocking(rule) for rule in rules))
    pairing = None if run is None or baseline is None else pair_runs(run, baseline)
    rows = []
    for rule in rules:
        if rule.max_drop is None or rule.slice is not None:
            continue
        spread = _spread(rule.metric, run, baseline, pairing, sd, changed)
        if spread is not None:
            rows.append(_row(rule, spread, drop, power, policy.alpha, tests))
    if not rows:
        raise ConfigError(
            "the policy allows no metric of this run a drop, so there is none to plan for.",
            mend="Set max_drop under [metrics.NAME] in thresholds.toml.",
        )
    return Plan(drop, power, policy.alpha, tests, tuple(rows))


def _imagined(policy: Policy) -> RunScores:
    """A run that measured what the policy names, for resolving its rules."""
    one = MetricScores({"sample": 1.0})
    metrics = {name: one for name, rule in policy.metrics.items() if policy.names_metrics or rule.min is not None}
    return RunScores("plan", metrics, {"sample": SampleFacts(tags=tuple(policy.slices))})


def _blocking(rule: Rule) -> int:
    floor = rule.min is not None and rule.floor_action is Action.BLOCK
    return int(floor) + int(rule.max_drop is not None and rule.drop_action is Action.BLOCK)


def _spread(
    metric: str,
    run: RunScores | None,
    baseline: RunScores | None,
    pairing: Pairing | None,
    sd: float | None,
    changed: float,
) -> Spread | None:
    assumed = math.sqrt(2.0 * changed)
    if run is None:
        return Spread(metric, assumed * (sd or TYPICAL_SD), "assumed", 0)
    found: Spread | None = None
    if baseline is not None and pairing is not None:
        found = _from_pairs(metric, run, baseline, pairing)
    if found is None or found.sd == 0.0:  # two runs that do not differ tell nothing
        found = _from_scores(metric, run, assumed, f"{changed:.0%} taken to change") or found
    if found is not None and found.sd == 0.0:
        found = replace(found, sd=assumed * TYPICAL_SD, source="no score differs, so assumed")
    return found


def _from_pairs(metric: str, run: RunScores, baseline: RunScores, pairing: Pairing) -> Spread | None:
    ids = pairing.pairs(metric, run, baseline)
    if len(ids) < 2:
        return None
    now, then = run.metrics[metric].values, baseline.metrics[metric].values
    values = np.array([now[i] - then[i] for i in ids], dtype=np.float64)
    return _measured(metric, values, ids, run, 1.0, f"{len(ids)} paired samples")


def _from_scores(metric: str, run: RunScores, factor: float, how: str) -> Spread | None:
    scores = run.metrics.get(metric)
    if scores is None or len(scores.values) < 2:
        return None
    ids = tuple(sorted(scores.values))
    values = np.array([scores.values[i] for i in ids], dtype=np.float64)
    return _measured(metric, values, ids, run, factor, f"{len(ids)} scores, {how}")


def _measured(
    metric: str, values: NDArray[np.float64], ids: Sequence[str], run: RunScores, factor: float, source: str
) -> Spread:
    deviation = factor * float(np.std(values, ddof=1))
    labels = group_labels(run, {sample_id: index for index, sample_id in enumerate(ids)})
    if labels is None or len(np.unique(labels)) < 2:
        return Spread(metric, deviation, source, len(ids))
    parts = variance_components(values, labels)
    sizes = np.unique(labels, return_counts=True)[1].astype(np.float64)
    size = float(np.sum(sizes**2) / np.sum(sizes))
    return Spread(metric, deviation, source, len(ids), size, parts.share(parts.units) or 0.0)


def _row(rule: Rule, spread: Spread, drop: float, power: float, alpha: float, tests: int) -> PlannedMetric:
    allowed = rule.max_drop or 0.0
    design = {"tests": tests, "group_size": spread.group_size, "correlation": spread.correlation}

    def needed(shortfall: float) -> int | None:
        if shortfall <= 1e-9:
            return None
        count = samples_for_drop(spread.sd, shortfall, power, alpha, **design)  # type: ignore[arg-type]
        return count if count <= MOST_SAMPLES else None

    detectable = None
    if spread.n:
        shortfall = detectable_drop(spread.sd, spread.n, power, alpha, **design)  # type: ignore[arg-type]
        detectable = allowed + shortfall if math.isfinite(shortfall) and allowed + shortfall <= 1.0 else None
    return PlannedMetric(
        rule.metric, spread.sd, spread.source, allowed, needed(drop - allowed), needed(drop), spread.n, detectable
    )


def plan_lines(found: Plan) -> Iterator[str]:
    """The plan as a few sentences for a reader."""
    checks = "one blocking check" if found.tests == 1 else f"{found.tests} blocking checks"
    yield (
        f"To see a drop of {found.drop:g} in {found.power:.0%} of the runs, at a false-fail rate of {found.alpha:.0%} "
        f"over {checks}:"
    )
    for row in found.metrics:
        needed = "no number of samples" if row.needed is None else counted(row.needed, "sample")
        strict = (
            "" if row.max_drop == 0.0 or row.needed_strict is None else f" ({row.needed_strict:,} with max_drop = 0)"
        )
        spread = f"sd of a difference {row.sd:.2f}, {row.source}"
        yield f"  {row.metric}: {needed} with max_drop = {row.max_drop:g}{strict}; {spread}"
    for row in found.metrics:
        if row.n and row.detectable is not None:
            yield f"  {row.metric}: {row.n:,} samples, as now, see a drop of {row.detectable:.2f}"
        elif row.n:
            yield f"  {row.metric}: {row.n:,} samples, as now, see no drop reliably"
    if any(row.needed is None for row in found.metrics):
        yield "A drop within max_drop never fails the gate: allow less, or plan for a larger drop."
