"""Which drop a golden set can detect in 4 of 5 runs, at the policy's false-alarm rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import counted, figure, percent
from ragstone.gate.bounds import BoundCheck, answers_per_sample
from ragstone.gate.comparability import Pairing
from ragstone.gate.confirm import LAST, ONCE
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.question_changes import is_recorded, least_that_fails
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Sensitivity
from ragstone.stats.losses import MEAN_WEIGHT, PARTS_SHARE, Ints, Questions, row_means
from ragstone.stats.normal import normal_quantile
from ragstone.stats.power import design_effect, detectable_drop, variance_of_drop
from ragstone.stats.score_model import learn
from ragstone.stats.sensitivity import Rule as TestRule
from ragstone.stats.sensitivity import model_of_pairs
from ragstone.stats.sensitivity import visible_loss as loss_found_by
from ragstone.stats.variance import variance_components

POWER = 0.8
"""The probability with which a loss is to be found."""
LOSS = 0.5
"""Assumed fall of each score that falls, for the detectable drop: a drop adds variance that two equal runs do not show.
"""

TYPICAL_SD = 0.25
"""Assumed standard deviation of a score without a run: for scores concentrated at 1 with a tail below."""

TYPICAL_CHANGED = 0.4
"""Assumed share of the answers that change between runs, without two runs to compare."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The variation of one metric's paired differences. There are `n` pairs; `source` is the source of `sd`."""

    metric: str
    sd: float
    source: str
    n: int
    group_size: float = 1.0
    correlation: float = 0.0


@dataclass(frozen=True, slots=True)
class Sight:
    """The smallest loss in `metric` that `n` samples detect in 4 of 5 runs; None: none at all."""

    metric: str
    loss: float | None
    n: int


def sights(
    rules: Sequence[Rule],
    policy: Policy,
    run: RunScores | None,
    *,
    checks: Sequence[Check] = (),
    samples: int | None = None,
) -> list[Sight]:
    """What the blocking drop rules over all samples can detect; if none blocks, those that warn.

    For a checked drop, the variance comes from its pairs (`checks`). Without a baseline, it comes from the scores of
    `run`, or typical variances are assumed; `samples` is then the size of the golden set.
    """
    drops = watched_drops(rules)
    checked = {check.metric: check for check in checks if check.kind in CHANGES and check.slice is None}
    found = []
    for rule in drops:
        if rule.metric in checked:
            check = checked[rule.metric]
            found.append(Sight(rule.metric, check.detectable_drop, check.n))
            continue
        spread = spread_of(rule.metric, run, None)
        if spread is not None:
            n = samples if samples is not None else spread.n
            drop = visible_loss(spread, n, allowed=rule.max_drop or 0.0, policy=policy, metrics=len(drops))
            found.append(Sight(rule.metric, drop, n))
    return found


def watched_drops(rules: Sequence[Rule]) -> list[Rule]:
    """The drops over all samples that share an error rate: those that block; if none does, those that warn."""
    drops = [rule for rule in rules if rule.max_drop is not None and rule.slice is None]
    return [rule for rule in drops if rule.drop_action is Action.BLOCK] or drops


def visible_loss(
    spread: Spread,
    n: int,
    *,
    allowed: float,
    policy: Policy,
    metrics: int,
    parts: bool = True,
    power: float = POWER,
    runs: int = 1,
) -> float | None:
    """The smallest loss that `n` samples show with `power`, estimated beyond `allowed`; None: none at all.

    It is one of `metrics` that share the policy's error rate, and with the `parts` (tags and slices) too. The baseline
    is the mean of `runs` runs.
    """
    if n < 1:
        return None
    alpha, tests = error_of_a_drop(policy, metrics, parts=parts)
    blocks = n / spread.group_size
    twice = policy.gate.confirm
    if 0.5**blocks > policy.alpha * (LAST if twice else ONCE).fail / tests:
        return None  # not even if all of them fall
    shown = detectable_drop(
        spread.sd,
        n,
        power_of_first_look(runs) if twice and power == POWER else power,
        alpha,
        tests=tests,
        group_size=spread.group_size,
        correlation=spread.correlation,
        loss=LOSS,
    )
    if not math.isfinite(shown):
        return None
    effect = design_effect(spread.group_size, spread.correlation)
    luck = normal_quantile(power) * math.sqrt((spread.sd**2 + variance_of_drop(shown, LOSS)) * effect / n)
    found = max(shown, allowed + luck)
    return found if found <= 1.0 else None


def simulated_loss(drop: BoundCheck, evidence: Evidence, labels: Ints | None, tests: float) -> float | None:
    """The smallest loss of a drop's metric that fails in 4 of 5 runs, by simulating the test; None: none at all.

    It is one of so many `tests` that share the error rate; `labels` are the groups of all samples.
    """
    if drop.change is None:
        return None
    policy = evidence.policy
    again = policy.gate.confirm and policy.gate.decision == "evidence" and not is_recorded(evidence.current)
    look = LAST if again else ONCE
    questions = Questions(drop.change, labels)
    then = questions.then if questions.then.shape[1] > 1 else np.stack([questions.then[:, 0], row_means(questions.now)])
    return _simulated(
        then.tobytes(),
        then.shape,
        questions.then.shape[1],
        look.fail * policy.alpha / tests,
        ONCE.ask * policy.alpha / tests,
        1 + policy.gate.confirm_repeats if again else 1,
        -drop.bound,
    )


@lru_cache(maxsize=64)  # a run is decided several times with the same level
def _simulated(
    scores: bytes, shape: tuple[int, int], runs: int, fails: float, asks: float, answers: int, allowed: float
) -> float | None:
    table = np.frombuffer(scores, dtype=np.float64).reshape(shape)
    model = learn(table) if runs > 1 else model_of_pairs(table[0], table[1])
    return loss_found_by(model, TestRule(fails, asks, answers, allowed, runs))


def number_of_tests(metrics: int, *, parts: bool) -> float:
    """Who shares the error rate with the drop of one of so many metrics: their mean, and the parts."""
    mean = MEAN_WEIGHT if metrics > 1 else 0.0
    return (metrics + mean) / (1.0 - (PARTS_SHARE if parts else 0.0))


def power_of_first_look(runs: int) -> float:
    """The power of the first look with which a loss is found at the second in 4 of 5 runs (`bench/losses.py`).

    Asking again reduces the noise of this run, but not that of the baseline, the mean of `runs` runs.
    """
    return 0.81 + 0.1 / runs


def error_of_a_drop(policy: Policy, metrics: int, *, parts: bool) -> tuple[float, float]:
    """The error rate at which a drop is suspected, or is shown if nothing is asked again; and who shares it."""
    alpha = policy.alpha * (LAST.suspect if policy.gate.confirm else ONCE.fail)
    return alpha, number_of_tests(metrics, parts=parts)


def resolution(watched: Sequence[Sight]) -> str | None:
    """One sentence on what the golden set detects; None if no drop is limited."""
    if not watched:
        return None
    blind = [f"{sight.metric} ({counted(sight.n, 'sample')})" for sight in watched if sight.loss is None]
    if blind:
        return (
            f"This golden set is too small to detect a loss of any size in the mean of {', '.join(blind)}; "
            "ragstone plan says how many samples are needed."
        )
    each = ", ".join(f"{sight.metric} {figure(sight.loss or 0.0)}" for sight in watched)
    worst = figure(visible(watched) or 0.0)
    return f"This golden set detects a loss of {worst} in a mean in 4 of 5 runs ({each})."


def sensitivity_findings(evidence: Evidence) -> Iterator[Finding]:
    """What this golden set could have shown, where drops need evidence."""
    if evidence.policy.gate.decision != "evidence":
        return
    watched = sights(evidence.rules, evidence.policy, evidence.current, checks=evidence.decided)
    text = resolution(watched)
    if text is None:
        return
    loss, broken = visible(watched), least_that_fails(evidence)
    if loss is not None and broken is not None and evidence.compared is not None:
        loss = max(loss, broken / len(evidence.compared.samples))
    yield Finding("sensitivity", Level.FACT, text, data=Sensitivity(loss, broken))


def visible(watched: Sequence[Sight]) -> float | None:
    """The loss that 4 of 5 runs find in each metric; None if in some none is found, or none is watched."""
    losses = [sight.loss for sight in watched if sight.loss is not None]
    return max(losses) if losses and len(losses) == len(watched) else None


def imagined_run(policy: Policy) -> RunScores:
    """A run that measured the metrics in the policy, for resolving its rules."""
    metrics = dict.fromkeys(policy.metrics, MetricScores({"sample": 1.0}))
    return RunScores("plan", metrics, {"sample": SampleFacts(tags=tuple(policy.slices))})


def as_judged(rules: Sequence[Rule], policy: Policy, *, offline: bool) -> tuple[Rule, ...]:
    """`rules` for a run that is yet to be judged: what blocks can depend on whether the judge is the offline one."""
    return tuple(
        replace(
            rule,
            floor_action=policy.action_for(rule.key, CheckKind.FLOOR, offline_judge=offline),
            drop_action=policy.action_for(rule.key, CheckKind.DROP, offline_judge=offline),
        )
        if rule.slice is None and rule.key in policy.metrics
        else rule
        for rule in rules
    )


def expected_rules(policy: Policy, run: RunScores | None, *, offline: bool) -> tuple[Rule, ...]:
    """The rules of `policy` for the metrics of `run`; without one, for a run that is yet to be judged."""
    measured = run if run is not None else imagined_run(policy)
    rules = resolve_rules(policy, measured).rules
    judged = rules if run is not None else as_judged(rules, policy, offline=offline)
    return tuple(rule for rule in judged if rule.metric in measured.metrics)


def spread_of(metric: str, run: RunScores | None, pairing: Pairing | None) -> Spread | None:
    """The variation of paired differences of `metric`: from pairs, from several answers to each question, from scores
    assuming that a share TYPICAL_CHANGED is regenerated, or assumed; None if the run has too few scores.
    """
    assumed = math.sqrt(2.0 * TYPICAL_CHANGED)
    if run is None:
        return Spread(metric, assumed * TYPICAL_SD, "assumed", 0)
    found: Spread | None = None
    if pairing is not None:
        found = _from_pairs(metric, run, pairing)
    if found is None or found.sd == 0.0:  # identical runs give no information
        measured = _from_answers(metric, run)
        if measured is not None and measured.sd > 0.0:
            return measured
        found = _from_scores(metric, run, assumed, f"{percent(TYPICAL_CHANGED)} assumed to change") or found
    if found is not None and found.sd == 0.0:
        found = replace(found, sd=assumed * TYPICAL_SD, source="assumed, because no score differs")
    return found


def _from_pairs(metric: str, run: RunScores, pairing: Pairing) -> Spread | None:
    ids = pairing.pairs(metric)
    if len(ids) < 2:
        return None
    values = np.array(pairing.changes(metric), dtype=np.float64)
    return _measured(metric, values, ids, run, 1.0, f"{len(ids)} paired samples")


def _from_answers(metric: str, run: RunScores) -> Spread | None:
    """The differences between runs of an unchanged system, from the answers to each question in one run."""
    scores, each = run.metrics.get(metric), answers_per_sample(run)
    if each < 2 or scores is None:
        return None
    answers = {i: values for i, values in scores.answers.items() if None not in values}
    if len(answers) < 2:
        return None
    ids = tuple(sorted(answers))
    table = np.array([answers[i] for i in ids], dtype=np.float64)
    spread = _measured(
        metric,
        table[:, 0] - table[:, 1],
        ids,
        run,
        1.0,
        f"{counted(len(ids), 'sample')} with {counted(each, 'answer')} each",
    )
    return replace(spread, sd=math.sqrt(2.0 * float(np.mean(np.var(table, axis=1, ddof=1))) / each))


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
    labels = group_labels(run, ids)
    if labels is None or len(np.unique(labels)) < 2:
        return Spread(metric, deviation, source, len(ids))
    parts = variance_components(values, labels)
    sizes = np.unique(labels, return_counts=True)[1].astype(np.float64)
    size = float(np.sum(sizes**2) / np.sum(sizes))
    return Spread(metric, deviation, source, len(ids), size, parts.share(parts.units) or 0.0)
